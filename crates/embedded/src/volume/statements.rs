//! Statements that tables of this service have alike. A macro makes them for the `records` of a resource, from the table and its row.

/// Makes `by_id` and `list` for a table whose rows belong to projects.
macro_rules! owned_by_projects {
    ($table:ident, $row:ident) => {
        /// Returns the row with this id, if any.
        pub fn by_id(conn: &mut Conn, id: &str) -> Result<Option<$row>, DbError> {
            Ok($table::table.find(id).select($row::as_select()).first(conn).optional()?)
        }

        /// Returns the rows of a project, or all, newest first.
        pub fn list(conn: &mut Conn, project_id: Option<&str>) -> Result<Vec<$row>, DbError> {
            let mut statement = $table::table.select($row::as_select()).into_boxed();
            if let Some(project_id) = project_id {
                statement = statement.filter($table::project_id.eq(project_id.to_owned()));
            }
            Ok(statement.order(($table::created_at.desc(), $table::id.desc())).load(conn)?)
        }
    };
}
pub(super) use owned_by_projects;

/// Makes `take`, `take_own`, `set_status` and `force_status` for a table whose rows have a status, and [`owned_by_projects`].
macro_rules! with_status {
    ($table:ident, $row:ident) => {
        $crate::volume::statements::owned_by_projects!($table, $row);

        impl $row {
            /// Returns the origin of the bytes.
            pub fn origin(&self) -> $crate::volume::volumes::records::Origin {
                $crate::volume::volumes::records::Origin {
                    bootable: self.bootable,
                    image_id: self.image_id.clone(),
                    image_metadata: self.image_metadata.clone(),
                }
            }
        }

        /// Locks the row for the rest of the transaction, and returns it, so that two changes of it follow each other on PostgreSQL too.
        pub fn take(conn: &mut Conn, id: &str, now: NaiveDateTime) -> Result<Option<$row>, DbError> {
            diesel::update($table::table.find(id)).set($table::updated_at.eq(now)).execute(conn)?;
            by_id(conn, id)
        }

        /// Takes the row if it belongs to the caller's project or the caller is an administrator. Otherwise it is `missing`.
        pub fn take_own(
            conn: &mut Conn,
            caller: &cellshift_domain::context::RequestContext,
            id: uuid::Uuid,
            now: NaiveDateTime,
            missing: fn(uuid::Uuid) -> $crate::ServiceError,
        ) -> Result<$row, $crate::transaction::TransactionError> {
            let row = take(conn, &id.to_string(), now)?;
            let own = row.filter(|row| $crate::volume::rules::may_use(caller, &row.project_id));
            Ok(own.ok_or_else(|| missing(id))?)
        }

        /// Moves a row from one of the statuses `from` to `to`. False if its status is not in `from`, or the row is gone.
        pub fn set_status(conn: &mut Conn, id: &str, from: &[&str], to: &str, now: NaiveDateTime) -> Result<bool, DbError> {
            let changed = diesel::update($table::table.find(id).filter($table::status.eq_any(from.to_vec())))
                .set(($table::status.eq(to), $table::updated_at.eq(now)))
                .execute(conn)?;
            Ok(changed > 0)
        }

        /// Sets the status without a check, because the attachments or an operator require it.
        pub fn force_status(conn: &mut Conn, id: &str, to: &str, now: NaiveDateTime) -> Result<(), DbError> {
            diesel::update($table::table.find(id)).set(($table::status.eq(to), $table::updated_at.eq(now))).execute(conn)?;
            Ok(())
        }
    };
}
pub(super) use with_status;

/// Makes `update`, `made` and `delete` for a table of copies of volumes, and [`with_status`].
macro_rules! copies {
    ($table:ident, $row:ident) => {
        $crate::volume::statements::with_status!($table, $row);

        /// Replaces the fields that a user may change.
        pub fn update(conn: &mut Conn, row: &$row) -> Result<(), DbError> {
            let fields = ($table::name.eq(&row.name), $table::description.eq(&row.description), $table::metadata.eq(&row.metadata));
            diesel::update($table::table.find(&row.id)).set(fields).execute(conn)?;
            Ok(())
        }

        /// Returns the copies whose bytes were written, as volumes are returned.
        pub fn made(conn: &mut Conn) -> Result<Vec<$crate::volume::volumes::records::MadeVolume>, DbError> {
            let written = $table::table.filter($table::made_size.is_not_null()).order($table::id);
            Ok(written.select(($table::id, $table::size_gb, $table::made_size, $table::made_sha256)).load(conn)?)
        }

        /// Deletes a copy.
        pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
            diesel::delete($table::table.find(id)).execute(conn)?;
            Ok(())
        }
    };
}
pub(super) use copies;
