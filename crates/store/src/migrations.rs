//! The migrations of a schema. The program contains their SQL: one text where SQLite and PostgreSQL say the same, and one for each of them
//! where they differ.

use std::fmt;

use diesel::backend::Backend;
use diesel::connection::BoxableConnection;
use diesel::migration::{self, MigrationMetadata, MigrationName, MigrationSource, MigrationVersion};
use diesel::pg::Pg;
use diesel::sqlite::Sqlite;

/// The migrations of one schema, oldest first. [`crate::migrations!`] makes them of files.
#[derive(Clone, Copy)]
pub struct Migrations(&'static [Migration]);

/// A migration of a schema.
#[derive(Clone, Copy)]
pub struct Migration {
    /// The name of its folder: `2026-11-20-000001_fences`.
    pub name: &'static str,
    /// Makes the change.
    pub up: Script,
    /// Undoes the change.
    pub down: Script,
}

/// The SQL of a migration in one direction.
#[derive(Clone, Copy)]
pub enum Script {
    /// The text for both kinds of database.
    Shared(&'static str),
    /// A text for each kind of database.
    Differing {
        /// The text for SQLite.
        sqlite: &'static str,
        /// The text for PostgreSQL.
        postgres: &'static str,
    },
}

/// Makes [`Migrations`] of files. The first line names a folder, seen from the crate's root. Each other line names a folder in it, in the
/// order of the versions, and says in which directions the databases differ:
///
/// ```text
/// migrations! {
///     "migrations/api":
///     "2026-11-20-000001_fences",
///     "2026-11-20-000030_quotas" (up differs),
///     "2026-11-27-000901_changes" (up and down differ),
/// }
/// ```
///
/// A folder has `up.sql` and `down.sql`. A direction that differs has `up.sqlite.sql` and `up.postgres.sql` instead, or likewise `down`.
#[macro_export]
macro_rules! migrations {
    (@migration $folder:literal, $name:literal) => { $crate::migrations!(@files $folder, $name, shared, shared) };
    (@migration $folder:literal, $name:literal, up differs) => { $crate::migrations!(@files $folder, $name, differing, shared) };
    (@migration $folder:literal, $name:literal, down differs) => { $crate::migrations!(@files $folder, $name, shared, differing) };
    (@migration $folder:literal, $name:literal, up and down differ) => {
        $crate::migrations!(@files $folder, $name, differing, differing)
    };
    (@files $folder:literal, $name:literal, $up:ident, $down:ident) => {
        $crate::migrations::Migration {
            name: $name,
            up: $crate::migrations!(@script $up, $folder, $name, "/up"),
            down: $crate::migrations!(@script $down, $folder, $name, "/down"),
        }
    };
    (@script shared, $folder:literal, $name:literal, $direction:literal) => {
        $crate::migrations::Script::Shared($crate::migrations!(@text $folder, $name, $direction, ".sql"))
    };
    (@script differing, $folder:literal, $name:literal, $direction:literal) => {
        $crate::migrations::Script::Differing {
            sqlite: $crate::migrations!(@text $folder, $name, $direction, ".sqlite.sql"),
            postgres: $crate::migrations!(@text $folder, $name, $direction, ".postgres.sql"),
        }
    };
    (@text $folder:literal, $name:literal, $direction:literal, $end:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $folder, "/", $name, $direction, $end))
    };
    ($folder:literal: $($name:literal $(($($differing:ident)+))?),+ $(,)?) => {
        $crate::Migrations::new(&[$($crate::migrations!(@migration $folder, $name $(, $($differing)+)?)),+])
    };
}

impl Migrations {
    /// Makes a schema of its migrations, oldest first.
    pub const fn new(migrations: &'static [Migration]) -> Migrations {
        Migrations(migrations)
    }

    /// Returns all migrations, oldest first.
    pub fn all(self) -> &'static [Migration] {
        self.0
    }

    /// Returns the migrations with these texts of their scripts.
    fn with<B: Backend>(self, text: fn(Script) -> &'static str) -> Vec<Box<dyn migration::Migration<B>>> {
        let statements = |migration| Box::new(Statements { migration, text }) as Box<dyn migration::Migration<B>>;
        self.0.iter().map(statements).collect()
    }
}

impl fmt::Debug for Migrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|migration| migration.name)).finish()
    }
}

impl Migration {
    /// Returns the version that a migrated database has on record: the name's date and number, without hyphens.
    pub fn version(&self) -> String {
        self.name.split_once('_').map_or(self.name, |(version, _)| version).replace('-', "")
    }
}

impl Script {
    /// Returns the text for SQLite.
    pub fn on_sqlite(self) -> &'static str {
        match self {
            Script::Shared(text) | Script::Differing { sqlite: text, .. } => text,
        }
    }

    /// Returns the text for PostgreSQL.
    pub fn on_postgres(self) -> &'static str {
        match self {
            Script::Shared(text) | Script::Differing { postgres: text, .. } => text,
        }
    }
}

impl MigrationSource<Sqlite> for Migrations {
    fn migrations(&self) -> migration::Result<Vec<Box<dyn migration::Migration<Sqlite>>>> {
        Ok(self.with(Script::on_sqlite))
    }
}

impl MigrationSource<Pg> for Migrations {
    fn migrations(&self) -> migration::Result<Vec<Box<dyn migration::Migration<Pg>>>> {
        Ok(self.with(Script::on_postgres))
    }
}

/// A migration on one kind of database.
struct Statements {
    migration: &'static Migration,
    /// Returns a script's text for this kind of database.
    text: fn(Script) -> &'static str,
}

impl Statements {
    fn execute<B: Backend>(&self, script: Script, conn: &mut dyn BoxableConnection<B>) -> migration::Result<()> {
        let name = self.migration.name;
        conn.batch_execute((self.text)(script)).map_err(|error| format!("Failed to run {name} with: {error}").into())
    }
}

impl<B: Backend> migration::Migration<B> for Statements {
    fn run(&self, conn: &mut dyn BoxableConnection<B>) -> migration::Result<()> {
        self.execute(self.migration.up, conn)
    }

    fn revert(&self, conn: &mut dyn BoxableConnection<B>) -> migration::Result<()> {
        self.execute(self.migration.down, conn)
    }

    fn metadata(&self) -> &dyn MigrationMetadata {
        self
    }

    fn name(&self) -> &dyn MigrationName {
        self.migration
    }
}

/// diesel runs the scripts and the record of the version in one transaction.
impl MigrationMetadata for Statements {}

impl MigrationName for Migration {
    fn version(&self) -> MigrationVersion<'_> {
        Migration::version(self).into()
    }
}

impl fmt::Display for Migration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use diesel::{Connection, PgConnection, SqliteConnection};
    use diesel_migrations::MigrationHarness;

    use super::*;
    use crate::fixture::{TABLES, fresh_postgres};

    #[test]
    fn each_kind_of_database_gets_its_own_text() {
        let [catalogue, changes] = TABLES.all() else { panic!("two migrations") };
        assert_eq!((changes.name, changes.version().as_str()), ("2026-11-27-000901_changes", "20261127000901"));
        for script in [changes.up, changes.down] {
            assert!(script.on_postgres().contains("note_change()") && !script.on_sqlite().contains("note_change()"));
        }
        assert_eq!(catalogue.down.on_sqlite(), catalogue.down.on_postgres());
    }

    #[test]
    fn migrations_are_recorded_run_once_and_undone() {
        there_and_back(&mut SqliteConnection::establish(":memory:").unwrap());
        if let Some(url) = fresh_postgres() {
            there_and_back(&mut PgConnection::establish(&url).unwrap());
        }
    }

    fn texts(versions: migration::Result<Vec<MigrationVersion<'_>>>) -> Vec<String> {
        versions.unwrap().iter().map(ToString::to_string).collect()
    }

    fn there_and_back<B: Backend>(conn: &mut impl MigrationHarness<B>)
    where
        Migrations: MigrationSource<B>,
    {
        let (oldest, newest) = ("20261120000011", "20261127000901");
        // The second time shows that the way back has removed all tables.
        for _ in 0..2 {
            assert_eq!(texts(conn.run_pending_migrations(TABLES)), [oldest, newest]);
            assert!(texts(conn.run_pending_migrations(TABLES)).is_empty());
            assert_eq!(texts(conn.applied_migrations()), [newest, oldest]);
            assert_eq!(texts(conn.revert_all_migrations(TABLES)), [newest, oldest]);
        }
    }
}
