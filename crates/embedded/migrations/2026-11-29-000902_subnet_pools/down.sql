DROP INDEX subnets_by_pool;
ALTER TABLE subnets DROP COLUMN subnetpool_id;
DROP TABLE subnet_pools;
