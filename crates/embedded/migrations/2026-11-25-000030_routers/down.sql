DROP INDEX ports_one_gateway;
DROP INDEX ports_by_router;
ALTER TABLE ports DROP COLUMN router_id;
DROP TABLE routers;
