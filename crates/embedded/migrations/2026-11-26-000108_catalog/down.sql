DROP TABLE catalog_endpoints;
DROP TABLE catalog_services;
DROP TABLE catalog_regions;
