//! The integration tests, as one binary.

mod audit_command;
mod client;
mod cloud;
mod cold_migrate;
mod configuration;
mod databases;
mod deletes_with_a_cell_down;
mod faults;
mod full_disk;
mod hosts_down;
mod killed;
mod layers;
mod local_disks;
mod moves_with_a_database_down;
mod operators;
mod populate_command;
mod power;
mod quotas_with_a_cell_down;
mod races;
mod refusals;
mod resize_confirm;
mod resize_revert;
mod resize_rollback;
mod security_groups;
mod service;
mod stage;
