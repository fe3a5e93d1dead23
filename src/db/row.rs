//! Rows whose columns are the fields of a value of the domain.

use diesel::prelude::*;
use diesel::query_dsl::LoadQuery;
use diesel::query_dsl::methods::LimitDsl;

use super::{Conn, DbError};

/// A value of the domain that a table stores, each as one row.
pub(in crate::db) trait Stored: Sized {
    /// The type of the row, which diesel reads.
    type Row: Into<Self>;
}

/// Declares the row of a table, which diesel reads and writes, with the conversions from and to the value that has the same fields. A field
/// `uuid: Uuid as Sql` is written as `Sql<Uuid>`.
macro_rules! row {
    ($(#[$of_row:meta])* $row:ident of $value:ident { $($(#[$of_field:meta])* $field:ident: $ty:ty $(as $column:ident)?,)+ }) => {
        #[derive(Queryable, Selectable, Insertable)]
        $(#[$of_row])*
        pub(in crate::db) struct $row {
            $($(#[$of_field])* $(#[diesel(serialize_as = $column<$ty>)])? $field: $ty,)+
        }

        impl From<$row> for $value {
            fn from(row: $row) -> $value {
                $value { $($field: row.$field,)+ }
            }
        }

        impl From<$value> for $row {
            fn from(value: $value) -> $row {
                $row { $($field: value.$field,)+ }
            }
        }

        impl $crate::db::row::Stored for $value {
            type Row = $row;
        }
    };
}
pub(in crate::db) use row;

/// Declares the columns that a change sets, which diesel writes, with the conversion from the change that has the same fields. Fields are as
/// in [`row!`].
macro_rules! changes {
    ($(#[$of_row:meta])* $row:ident of $change:ident { $($(#[$of_field:meta])* $field:ident: $ty:ty $(as $column:ident)?,)+ }) => {
        #[derive(AsChangeset)]
        $(#[$of_row])*
        pub(in crate::db) struct $row {
            $($(#[$of_field])* $(#[diesel(serialize_as = $column<$ty>)])? $field: $ty,)+
        }

        impl From<$change> for $row {
            fn from(change: $change) -> $row {
                let $change { $($field,)+ } = change;
                $row { $($field,)+ }
            }
        }
    };
}
pub(in crate::db) use changes;

/// Reads the values whose rows a query selects.
pub(in crate::db) fn load<'query, Value: Stored>(
    conn: &mut Conn,
    query: impl LoadQuery<'query, Conn, Value::Row>,
) -> Result<Vec<Value>, DbError> {
    Ok(query.load::<Value::Row>(conn)?.into_iter().map(Into::into).collect())
}

/// Reads the value whose row a query selects first; none if it selects none.
pub(in crate::db) fn first<'query, Value, Query>(conn: &mut Conn, query: Query) -> Result<Option<Value>, DbError>
where
    Value: Stored,
    Query: LimitDsl + RunQueryDsl<Conn>,
    diesel::dsl::Limit<Query>: LoadQuery<'query, Conn, Value::Row>,
{
    Ok(query.first::<Value::Row>(conn).optional()?.map(Into::into))
}
