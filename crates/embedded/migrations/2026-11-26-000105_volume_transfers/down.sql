DROP TABLE volume_transfers;
