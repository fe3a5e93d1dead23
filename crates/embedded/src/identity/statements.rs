//! Statements that tables of this service have alike, and the methods that read by them. Macros make them for a resource.

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
macro_rules! find {
    ($table:ident, $row:ident, $word:literal) => {
        $crate::identity::statements::by_id!($table, $row);

        /// Returns the row with this id. NotFound if there is none.
        pub fn find(conn: &mut Conn, id: &str) -> Result<$row, DbError> {
            by_id(conn, id)?.ok_or_else(|| DbError::NotFound(format!("{}: {id}", $word)))
        }
    };
}
pub(super) use find;

/// Makes `list` and `save` for a table of the catalog.
macro_rules! of_catalog {
    ($table:ident, $row:ident) => {
        /// Returns all, ordered by id.
        pub fn list(conn: &mut Conn) -> Result<Vec<$row>, DbError> {
            Ok($table::table.order($table::id).select($row::as_select()).load(conn)?)
        }

        /// Stores a new row, or the new state of one.
        pub fn save(conn: &mut Conn, row: &$row) -> Result<(), DbError> {
            if diesel::update($table::table.find(&row.id)).set(row).execute(conn)? == 0 {
                diesel::insert_into($table::table).values(row).execute(conn)?;
            }
            Ok(())
        }
    };
}
pub(super) use of_catalog;

/// Makes `list` for a table whose rows have names, and [`found`].
macro_rules! named {
    ($table:ident, $row:ident, $word:literal) => {
        $crate::identity::statements::find!($table, $row, $word);

        /// Returns all, ordered by name.
        pub fn list(conn: &mut Conn) -> Result<Vec<$row>, DbError> {
            Ok($table::table.order($table::name).select($row::as_select()).load(conn)?)
        }
    };
}
pub(super) use named;

/// Makes `insert`, `by_name` and `check_name_is_free` for a table whose rows belong to domains, and [`named`].
macro_rules! in_domains {
    ($table:ident, $row:ident, $word:literal) => {
        $crate::identity::statements::named!($table, $row, $word);

        /// Stores a new row. Conflict if its name is taken in its domain; NotFound if there is no such domain.
        pub fn insert(conn: &mut Conn, row: &$row) -> Result<(), DbError> {
            $crate::identity::domains::records::find(conn, &row.domain_id)?;
            check_name_is_free(conn, &row.domain_id, &row.name, &row.id)?;
            diesel::insert_into($table::table).values(row).execute(conn)?;
            Ok(())
        }

        /// Returns the domain's row with this name, if any.
        pub fn by_name(conn: &mut Conn, domain_id: &str, name: &str) -> Result<Option<$row>, DbError> {
            if !$crate::identity::storable(name) {
                return Ok(None);
            }
            let statement = $table::table.filter($table::domain_id.eq(domain_id)).filter($table::name.eq(name));
            Ok(statement.select($row::as_select()).first(conn).optional()?)
        }

        /// Conflict if another row of the domain has this name.
        fn check_name_is_free(conn: &mut Conn, domain_id: &str, name: &str, id: &str) -> Result<(), DbError> {
            let holder = by_name(conn, domain_id, name)?.filter(|other| other.id != id);
            $crate::identity::statements::refuse_holder($word, holder.map(|other| other.name))
        }
    };
}
pub(super) use in_domains;

/// Conflict if another row holds the name.
pub(super) fn refuse_holder(word: &str, holder: Option<String>) -> Result<(), DbError> {
    match holder {
        Some(name) => Err(DbError::Conflict(reason!("Conflict occurred attempting to store {word}: the name {name} is taken"))),
        None => Ok(()),
    }
}

/// Makes `delete_of_user` and `delete_of_project` for a table whose rows end with either.
macro_rules! delete_with_owners {
    ($table:ident) => {
        pub(in crate::identity) fn delete_of_user(conn: &mut Conn, user_id: &str) -> Result<(), DbError> {
            diesel::delete($table::table.filter($table::user_id.eq(user_id))).execute(conn)?;
            Ok(())
        }

        pub(in crate::identity) fn delete_of_project(conn: &mut Conn, project_id: &str) -> Result<(), DbError> {
            diesel::delete($table::table.filter($table::project_id.eq(project_id))).execute(conn)?;
            Ok(())
        }
    };
}
pub(super) use delete_with_owners;

/// Makes the methods of the service that read one record of a resource, or all, by its `records`.
macro_rules! readers {
    ($record:ty, $one:ident, $all:ident) => {
        impl $crate::identity::EmbeddedIdentity {
            #[doc = concat!("Returns the ", stringify!($one), " with this id. NotFound if there is none.")]
            pub async fn $one(&self, id: &str) -> Result<$record, $crate::ServiceError> {
                let id = id.to_owned();
                self.read(move |conn| records::find(conn, &id)).await
            }

            #[doc = concat!("Returns all ", stringify!($all), ", ordered by name.")]
            pub async fn $all(&self) -> Result<Vec<$record>, $crate::ServiceError> {
                self.read(records::list).await
            }
        }
    };
}
pub(super) use readers;
