//! Statements that several tables of placement have alike. Macros make them for the `records` of a resource, from the table.

/// Makes `of_providers`, `set` and `add` for a table of pairs: a provider, and a name of what it has.
macro_rules! names_of_providers {
    ($table:ident, $name:ident) => {
        /// Returns `(provider, name)` pairs, ordered by both.
        pub fn of_providers(conn: &mut Conn, of: Of<'_>) -> Result<Vec<(String, String)>, DbError> {
            let query = $table::table.order(($table::provider_uuid.asc(), $table::$name.asc()));
            $crate::of::load_of!(conn, query, $table::provider_uuid, of, |(provider, _)| provider)
        }

        /// Replaces the names of what a provider has.
        pub fn set(conn: &mut Conn, provider: &str, names: &[String]) -> Result<(), DbError> {
            diesel::delete($table::table.filter($table::provider_uuid.eq(provider))).execute(conn)?;
            for name in names {
                diesel::insert_into($table::table).values(($table::provider_uuid.eq(provider), $table::$name.eq(name))).execute(conn)?;
            }
            Ok(())
        }

        /// Adds `(provider, name)` pairs that are not there.
        pub fn add(conn: &mut Conn, pairs: &[(String, String)]) -> Result<(), DbError> {
            let columns = &["provider_uuid", stringify!($name)];
            cellshift_store::rows::insert(conn, (stringify!($table), columns), pairs, |statement, (provider, name)| {
                statement.bind::<Text, _>(provider).bind::<Text, _>(name)
            })
        }
    };
}
pub(super) use names_of_providers;

/// Makes `custom`, `define` and `delete` for a table of names that are not built in.
macro_rules! custom_names {
    ($table:ident) => {
        /// Returns all custom names, in their order.
        pub fn custom(conn: &mut Conn) -> Result<Vec<String>, DbError> {
            Ok($table::table.select($table::name).order($table::name.asc()).load(conn)?)
        }

        /// Defines a name. False if it exists, also by another writer of this moment: hosts report the same names at once.
        pub fn define(conn: &mut Conn, name: &str) -> Result<bool, DbError> {
            let text = concat!("INSERT INTO ", stringify!($table), " (name) VALUES ($1) ON CONFLICT (name) DO NOTHING");
            Ok(diesel::sql_query(text).bind::<Text, _>(name).execute(conn)? == 1)
        }

        /// Removes a name. False if there was none.
        pub fn delete(conn: &mut Conn, name: &str) -> Result<bool, DbError> {
            Ok(diesel::delete($table::table.filter($table::name.eq(name))).execute(conn)? == 1)
        }
    };
}
pub(super) use custom_names;
