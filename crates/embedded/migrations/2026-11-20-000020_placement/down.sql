DROP TABLE custom_resource_classes;
DROP TABLE custom_traits;
DROP TABLE allocations;
DROP TABLE consumers;
DROP TABLE provider_aggregates;
DROP TABLE provider_traits;
DROP TABLE inventories;
DROP TABLE resource_providers;
