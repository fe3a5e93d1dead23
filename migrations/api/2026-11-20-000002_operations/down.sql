DROP TABLE debts;
DROP TABLE journal;
DROP TABLE operations;
DROP TABLE sagas;
DROP TABLE ownership;
