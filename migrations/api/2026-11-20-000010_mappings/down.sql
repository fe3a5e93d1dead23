DROP TABLE build_requests;
DROP TABLE request_specs;
DROP TABLE instance_mappings;
DROP TABLE host_mappings;
DROP TABLE cell_mappings;
