//! Tests of the volume service.

mod backups;
mod files;
mod snapshots;
mod testing;
mod volume_bodies;
mod volume_types;
mod volumes;
