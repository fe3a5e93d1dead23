//! Statements that tables of this service have alike. Macros make them for the `records` of a resource, from the table and its row.

/// Makes the named statements for a table, each by the macro of its name.
macro_rules! statements {
    ($table:ident, $row:ident: $($statement:ident),+) => {
        $($crate::network::statements::$statement!($table, $row);)+
    };
}
pub(super) use statements;

/// Makes `insert` for a table whose rows count against a quota.
macro_rules! insert {
    ($table:ident, $row:ident) => {
        /// Adds a row.
        pub fn insert(conn: &mut Conn, _: cellshift_domain::quota_grant::QuotaGrant<$row>, row: &$row) -> Result<(), DbError> {
            diesel::insert_into($table::table).values(row).execute(conn)?;
            Ok(())
        }
    };
}
pub(super) use insert;

/// Makes `list`.
macro_rules! list {
    ($table:ident, $row:ident) => {
        /// Returns all rows, oldest first.
        pub fn list(conn: &mut Conn) -> Result<Vec<$row>, DbError> {
            Ok($table::table.order($table::number.asc()).select($row::as_select()).load(conn)?)
        }
    };
}
pub(super) use list;

/// Makes `list` for a table that is read by project.
macro_rules! list_by_project {
    ($table:ident, $row:ident) => {
        /// Returns the rows of a project, or all, oldest first.
        pub fn list(conn: &mut Conn, project: Option<&str>) -> Result<Vec<$row>, DbError> {
            let query = $table::table.order($table::number.asc()).select($row::as_select());
            match project {
                None => Ok(query.load(conn)?),
                Some(project) => Ok(query.filter($table::project_id.eq(project)).load(conn)?),
            }
        }
    };
}
pub(super) use list_by_project;

/// Makes `find`.
macro_rules! find {
    ($table:ident, $row:ident) => {
        /// Returns the row with this id.
        pub fn find(conn: &mut Conn, id: &str) -> Result<Option<$row>, DbError> {
            Ok($table::table.filter($table::id.eq(id)).select($row::as_select()).first(conn).optional()?)
        }
    };
}
pub(super) use find;

/// Makes `hold`.
macro_rules! hold {
    ($table:ident, $row:ident) => {
        /// Locks the row until the transaction ends, so that two changes on PostgreSQL follow each other and none is lost. SQLite has a single
        /// writer.
        pub fn hold(conn: &mut Conn, id: &str) -> Result<(), DbError> {
            diesel::update($table::table.filter($table::id.eq(id))).set($table::updated_at.eq($table::updated_at)).execute(conn)?;
            Ok(())
        }
    };
}
pub(super) use hold;

/// Makes `hold` for a table whose held rows are read.
macro_rules! hold_and_find {
    ($table:ident, $row:ident) => {
        /// Locks the row until the transaction ends, and returns it.
        pub fn hold(conn: &mut Conn, id: &str) -> Result<Option<$row>, DbError> {
            diesel::update($table::table.filter($table::id.eq(id))).set($table::updated_at.eq($table::updated_at)).execute(conn)?;
            find(conn, id)
        }
    };
}
pub(super) use hold_and_find;

/// Makes `save`.
macro_rules! save {
    ($table:ident, $row:ident) => {
        /// Writes all columns.
        pub fn save(conn: &mut Conn, row: &$row) -> Result<(), DbError> {
            diesel::update($table::table.filter($table::id.eq(&row.id))).set(row).execute(conn)?;
            Ok(())
        }
    };
}
pub(super) use save;

/// Makes `save` for a table whose rows have a revision.
macro_rules! save_and_raise {
    ($table:ident, $row:ident) => {
        /// Writes all columns and raises the revision.
        pub fn save(conn: &mut Conn, row: &$row) -> Result<(), DbError> {
            diesel::update($table::table.filter($table::id.eq(&row.id))).set(row).execute(conn)?;
            diesel::update($table::table.filter($table::id.eq(&row.id)))
                .set($table::revision_number.eq($table::revision_number + 1))
                .execute(conn)?;
            Ok(())
        }
    };
}
pub(super) use save_and_raise;

/// Makes `delete` for a table on whose rows no other row depends when they go.
macro_rules! delete {
    ($table:ident, $row:ident) => {
        /// Removes the row with this id, on which nothing may depend.
        pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
            diesel::delete($table::table.filter($table::id.eq(id))).execute(conn)?;
            Ok(())
        }
    };
}
pub(super) use delete;
