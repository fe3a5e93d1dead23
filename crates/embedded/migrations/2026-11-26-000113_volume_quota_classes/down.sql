DROP TABLE volume_services;
DROP TABLE volume_quota_classes;
