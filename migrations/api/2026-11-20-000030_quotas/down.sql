DROP TABLE quota_classes;
DROP TABLE quotas;
