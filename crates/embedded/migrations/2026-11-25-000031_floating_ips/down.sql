DROP TABLE floating_ips;
