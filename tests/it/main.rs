//! The integration tests, as one binary.

mod audit_command;
mod chaos_api;
mod client;
mod cloud;
mod cold_migrate;
mod configuration;
mod databases;
mod experiments;
mod faults;
mod full_disk;
mod hosts_down;
mod killed;
mod layers;
mod local_disks;
mod moves_with_a_database_down;
mod operators;
mod power;
mod races;
mod refusals;
mod resize_confirm;
mod resize_revert;
mod resize_rollback;
mod security_groups;
mod service;
mod stage;
