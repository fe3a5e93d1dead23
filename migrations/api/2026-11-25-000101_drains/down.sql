DROP TABLE drain_servers;
DROP TABLE drained_hosts;
DROP TABLE drains;
