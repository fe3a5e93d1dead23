//! Statements that tables of this service have alike. A macro makes them for the `records` of a resource, from the table, its row, and the word
//! for one in messages.

use cellshift_domain::reason;
use cellshift_store::DbError;

/// Makes `by_id` for a table.
macro_rules! by_id {
    ($table:ident, $row:ident) => {
        /// Returns the row with this id, if any.
        pub fn by_id(conn: &mut Conn, id: &str) -> Result<Option<$row>, DbError> {
            if !$crate::identity::storable(id) {
                return Ok(None);
            }
            Ok($table::table.find(id).select($row::as_select()).first(conn).optional()?)
        }
    };
}
pub(super) use by_id;

/// Makes `find` for a table, and [`by_id`].
macro_rules! found {
    ($table:ident, $row:ident, $word:literal) => {
        $crate::identity::statements::by_id!($table, $row);

        /// Returns the row with this id. NotFound if there is none.
        pub fn find(conn: &mut Conn, id: &str) -> Result<$row, DbError> {
            by_id(conn, id)?.ok_or_else(|| DbError::NotFound(format!("{} {id}", $word)))
        }
    };
}
pub(super) use found;

/// Makes `list` for a table whose rows have names, and [`found`].
macro_rules! named {
    ($table:ident, $row:ident, $word:literal) => {
        $crate::identity::statements::found!($table, $row, $word);

        /// Returns all, ordered by name.
        pub fn list(conn: &mut Conn) -> Result<Vec<$row>, DbError> {
            Ok($table::table.order($table::name).select($row::as_select()).load(conn)?)
        }
    };
}
pub(super) use named;

/// Makes `insert`, `by_name` and `name_is_free` for a table whose rows belong to domains, and [`named`].
macro_rules! in_domains {
    ($table:ident, $row:ident, $word:literal) => {
        $crate::identity::statements::named!($table, $row, $word);

        /// Stores a new row. Conflict if its name is taken in its domain; NotFound if there is no such domain.
        pub fn insert(conn: &mut Conn, row: &$row) -> Result<(), DbError> {
            $crate::identity::domains::records::find(conn, &row.domain_id)?;
            name_is_free(conn, &row.domain_id, &row.name, &row.id)?;
            diesel::insert_into($table::table).values(row).execute(conn)?;
            Ok(())
        }

        /// Returns the domain's row with this name, if any.
        pub fn by_name(conn: &mut Conn, domain_id: &str, name: &str) -> Result<Option<$row>, DbError> {
            if !$crate::identity::storable(name) {
                return Ok(None);
            }
            let named = $table::table.filter($table::domain_id.eq(domain_id)).filter($table::name.eq(name));
            Ok(named.select($row::as_select()).first(conn).optional()?)
        }

        /// Conflict if another row of the domain has this name.
        fn name_is_free(conn: &mut Conn, domain_id: &str, name: &str, id: &str) -> Result<(), DbError> {
            let holder = by_name(conn, domain_id, name)?.filter(|other| other.id != id);
            $crate::identity::statements::unless_taken($word, holder.map(|other| other.name))
        }
    };
}
pub(super) use in_domains;

/// Conflict if another row holds the name.
pub(super) fn unless_taken(word: &str, holder: Option<String>) -> Result<(), DbError> {
    match holder {
        Some(name) => Err(DbError::Conflict(reason!("Conflict occurred attempting to store {word}: the name {name} is taken"))),
        None => Ok(()),
    }
}
