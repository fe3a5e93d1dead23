//! The migrations that make the services' tables.

use cellshift_store::Migrations;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};

const POSTGRES: EmbeddedMigrations = embed_migrations!("migrations/postgres");
const SQLITE: EmbeddedMigrations = embed_migrations!("migrations/sqlite");

/// The migrations that make the services' tables.
pub const MIGRATIONS: Migrations = Migrations { postgres: || POSTGRES, sqlite: || SQLITE };
