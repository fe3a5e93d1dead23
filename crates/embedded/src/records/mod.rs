//! The records of the embedded services: one folder or file per service. The services share no records.

pub mod identity;
pub mod image;
pub mod image_tasks;
pub mod volume;

use cellshift_store::Migrations;
pub use cellshift_store::columns::read_id;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};

const POSTGRES: EmbeddedMigrations = embed_migrations!("migrations/postgres");
const SQLITE: EmbeddedMigrations = embed_migrations!("migrations/sqlite");

/// The migrations that make the services' tables.
pub const MIGRATIONS: Migrations = Migrations { postgres: || POSTGRES, sqlite: || SQLITE };
