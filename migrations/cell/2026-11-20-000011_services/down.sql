DROP TABLE compute_nodes;
DROP TABLE services;
