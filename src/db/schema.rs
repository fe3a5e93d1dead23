//! The schemas of the databases, with the migrations that make them.

use diesel_migrations::{EmbeddedMigrations, embed_migrations};

use super::connection::Migrations;

const API_PG: EmbeddedMigrations = embed_migrations!("migrations/api/postgres");
const API_SQLITE: EmbeddedMigrations = embed_migrations!("migrations/api/sqlite");
const CELL_PG: EmbeddedMigrations = embed_migrations!("migrations/cell/postgres");
const CELL_SQLITE: EmbeddedMigrations = embed_migrations!("migrations/cell/sqlite");

/// The tables that a database holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schema {
    /// The API database: mappings, flavors, operations and the journal.
    Api,
    /// A cell's records.
    Cell,
    /// The records of the embedded identity, image, network, volume and placement services.
    Services,
}

impl From<Schema> for Migrations {
    fn from(schema: Schema) -> Migrations {
        match schema {
            Schema::Api => Migrations { postgres: || API_PG, sqlite: || API_SQLITE },
            Schema::Cell => Migrations { postgres: || CELL_PG, sqlite: || CELL_SQLITE },
            Schema::Services => cellshift_embedded::MIGRATIONS,
        }
    }
}
