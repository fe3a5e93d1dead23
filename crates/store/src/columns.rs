//! The column types of domain values on both databases: ids and names as TEXT, times as TIMESTAMP in UTC with microseconds, structured
//! values as JSON in TEXT, power states as INTEGER. Records hold domain types; statements take them in [`Sql`]. A crate makes its own types
//! columns with [`crate::json_column`].

use std::collections::BTreeMap;

use cellshift_domain::cancellation::Cancellation;
use cellshift_domain::delete_request::DeleteRequest;
use cellshift_domain::flavor::Flavor;
use cellshift_domain::instance_bundle::InstanceBundle;
use cellshift_domain::migration::{MigrationStatus, MigrationType};
use cellshift_domain::moment;
use cellshift_domain::network_info::NetworkInfo;
use cellshift_domain::request_spec::RequestSpec;
use cellshift_domain::server::{PowerState, TaskState, VmState};
use cellshift_domain::server_group::GroupPolicy;
use chrono::{DateTime, NaiveDateTime, SubsecRound, Utc};
use diesel::backend::Backend;
use diesel::deserialize::{self, FromSql, Queryable};
use diesel::expression::{AsExpression, TypedExpressionType};
use diesel::internal::derives::as_expression::Bound;
use diesel::pg::Pg;
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types::{Bool, HasSqlType, Nullable, SqlType, Text, Timestamp};
use diesel::sqlite::Sqlite;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::DbError;
use crate::connection::MultiBackend;

/// The diesel backend for both databases.
pub type Multi = MultiBackend;

/// The SQL type of an id or of a state's name.
#[derive(Clone, Copy, Debug, diesel::sql_types::SqlType, diesel::query_builder::QueryId)]
#[diesel(postgres_type(oid = 25, array_oid = 1009))]
#[diesel(sqlite_type(name = "Text"))]
pub struct Name;

/// The SQL type of a structured value, stored as JSON.
#[derive(Clone, Copy, Debug, diesel::sql_types::SqlType, diesel::query_builder::QueryId)]
#[diesel(postgres_type(oid = 25, array_oid = 1009))]
#[diesel(sqlite_type(name = "Text"))]
pub struct Json;

/// The SQL type of a JSON object that statements look into: JSON on PostgreSQL, TEXT on SQLite.
#[derive(Clone, Copy, Debug, diesel::sql_types::SqlType, diesel::query_builder::QueryId)]
#[diesel(postgres_type(oid = 114, array_oid = 199))]
#[diesel(sqlite_type(name = "Text"))]
pub struct Object;

/// The SQL type of a moment in UTC.
#[derive(Clone, Copy, Debug, diesel::sql_types::SqlType, diesel::query_builder::QueryId)]
#[diesel(postgres_type(oid = 1114, array_oid = 1115))]
#[diesel(sqlite_type(name = "Text"))]
pub struct Moment;

/// The SQL type of a power state's number.
#[derive(Clone, Copy, Debug, diesel::sql_types::SqlType, diesel::query_builder::QueryId)]
#[diesel(postgres_type(oid = 23, array_oid = 1007))]
#[diesel(sqlite_type(name = "Integer"))]
pub struct Power;

/// A map of strings: metadata, extra specs and the like.
pub type StringMap = BTreeMap<String, String>;

/// A list of names in a JSON column.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StringList(pub Vec<String>);

impl From<Vec<String>> for StringList {
    fn from(list: Vec<String>) -> StringList {
        StringList(list)
    }
}

impl std::ops::Deref for StringList {
    type Target = Vec<String>;
    fn deref(&self) -> &Vec<String> {
        &self.0
    }
}

/// A value that a TEXT column can hold.
pub trait Texted: Sized {
    /// Returns the text that is stored.
    fn to_text(&self) -> Result<String, serde_json::Error>;

    /// Reads a stored text; none if it cannot be read.
    fn from_text(text: &str) -> Option<Self>;
}

/// Lets a type of the calling crate, which serde can write and read, be a [`Json`] column: its crate alone can do so. `Object: Type` makes it
/// an [`Object`] column.
#[macro_export]
macro_rules! json_column {
    ($st:ident: $ty:ty) => {
        $crate::is_texted!(json: $ty);
        $crate::is_text_column!($crate::columns::$st: $ty);
        $crate::is_expression!($crate::columns::$st: $ty);
    };
    ($ty:ty) => {
        $crate::json_column!(Json: $ty);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! is_texted {
    (name: $($ty:ty),+) => { $(
        impl $crate::columns::Texted for $ty {
            fn to_text(&self) -> Result<String, serde_json::Error> {
                Ok(self.to_string())
            }
            fn from_text(text: &str) -> Option<Self> {
                Self::parse(text)
            }
        }
    )+ };
    (json: $($ty:ty),+) => { $(
        impl $crate::columns::Texted for $ty {
            fn to_text(&self) -> Result<String, serde_json::Error> {
                serde_json::to_string(self)
            }
            fn from_text(text: &str) -> Option<Self> {
                serde_json::from_str(text).ok()
            }
        }
    )+ };
}

impl Texted for Uuid {
    fn to_text(&self) -> Result<String, serde_json::Error> {
        Ok(self.to_string())
    }
    fn from_text(text: &str) -> Option<Self> {
        Uuid::parse_str(text).ok()
    }
}

is_texted!(name: VmState, TaskState, MigrationType, MigrationStatus, GroupPolicy);
is_texted!(json: Flavor, StringMap, StringList, serde_json::Value, RequestSpec, NetworkInfo, DeleteRequest, Cancellation, InstanceBundle);

/// Reads a stored text.
pub fn parsed<T: Texted>(text: &str) -> deserialize::Result<T> {
    // The message leaves out the text, which may be a user's secret.
    T::from_text(text).ok_or_else(|| format!("a {} column of {} bytes cannot be read", std::any::type_name::<T>(), text.len()).into())
}

/// Lets a Rust type be read from and written to a column of a SQL type. Diesel's derives would do this for a type of this crate, but they
/// cannot for a foreign type.
#[doc(hidden)]
#[macro_export]
macro_rules! is_column {
    ($st:ty: $($ty:ty),+ $(,)?) => { $(
        impl diesel::serialize::ToSql<$st, $crate::columns::Multi> for $ty {
            fn to_sql<'b>(
                &'b self,
                out: &mut diesel::serialize::Output<'b, '_, $crate::columns::Multi>,
            ) -> diesel::serialize::Result {
                out.set_value((<$st>::default(), self));
                Ok(diesel::serialize::IsNull::No)
            }
        }
        impl diesel::deserialize::FromSql<$st, $crate::columns::Multi> for $ty {
            fn from_sql(bytes: <$crate::columns::Multi as diesel::backend::Backend>::RawValue<'_>) -> diesel::deserialize::Result<Self> {
                bytes.from_sql::<$ty, $st>()
            }
        }
    )+ };
}

#[doc(hidden)]
#[macro_export]
macro_rules! is_queryable {
    ($st:ty: $($ty:ty),+ $(,)?) => { $(
        impl<DB: diesel::backend::Backend> diesel::deserialize::Queryable<$st, DB> for $ty
        where
            $ty: diesel::deserialize::FromSql<$st, DB>,
        {
            type Row = Self;
            fn build(row: Self) -> diesel::deserialize::Result<Self> { Ok(row) }
        }
    )+ };
}

#[doc(hidden)]
#[macro_export]
macro_rules! is_text_column {
    ($st:ty: $($ty:ty),+ $(,)?) => {
        $crate::is_column!($st: $($ty),+);
        $crate::is_queryable!($st: $($ty),+);
        $(
            impl diesel::serialize::ToSql<$st, diesel::pg::Pg> for $ty {
                fn to_sql<'b>(&'b self, out: &mut diesel::serialize::Output<'b, '_, diesel::pg::Pg>) -> diesel::serialize::Result {
                    std::io::Write::write_all(out, $crate::columns::Texted::to_text(self)?.as_bytes())?;
                    Ok(diesel::serialize::IsNull::No)
                }
            }
            impl diesel::deserialize::FromSql<$st, diesel::pg::Pg> for $ty {
                fn from_sql(bytes: <diesel::pg::Pg as diesel::backend::Backend>::RawValue<'_>) -> diesel::deserialize::Result<Self> {
                    $crate::columns::parsed(std::str::from_utf8(bytes.as_bytes())?)
                }
            }
            impl diesel::serialize::ToSql<$st, diesel::sqlite::Sqlite> for $ty {
                fn to_sql<'b>(
                    &'b self,
                    out: &mut diesel::serialize::Output<'b, '_, diesel::sqlite::Sqlite>,
                ) -> diesel::serialize::Result {
                    out.set_value($crate::columns::Texted::to_text(self)?);
                    Ok(diesel::serialize::IsNull::No)
                }
            }
            impl diesel::deserialize::FromSql<$st, diesel::sqlite::Sqlite> for $ty {
                fn from_sql(
                    bytes: <diesel::sqlite::Sqlite as diesel::backend::Backend>::RawValue<'_>,
                ) -> diesel::deserialize::Result<Self> {
                    let text = <String as diesel::deserialize::FromSql<diesel::sql_types::Text, diesel::sqlite::Sqlite>>::from_sql(bytes)?;
                    $crate::columns::parsed(&text)
                }
            }
        )+
    };
}

macro_rules! has_sql_type {
    ($($st:ident),+) => { $(
        impl Default for $st {
            fn default() -> $st { $st }
        }
        impl HasSqlType<$st> for Multi {
            fn metadata(lookup: &mut Self::MetadataLookup) -> Self::TypeMetadata {
                Multi::lookup_sql_type::<$st>(lookup)
            }
        }
    )+ };
}

/// Wraps a value of a foreign type (`Uuid`, `DateTime<Utc>`, a map, a value of the domain) for a statement: Rust's orphan rule allows direct use only for this
/// crate's types.
#[derive(Clone, Debug)]
pub struct Sql<T>(pub T);

impl<T> From<T> for Sql<T> {
    fn from(value: T) -> Sql<T> {
        Sql(value)
    }
}

impl<T, ST: SqlType + TypedExpressionType> AsExpression<ST> for Sql<T> {
    type Expression = Bound<ST, T>;
    fn as_expression(self) -> Self::Expression {
        Bound::new(self.0)
    }
}

impl<T: ToSql<ST, DB>, ST, DB: Backend> ToSql<ST, DB> for Sql<T> {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, DB>) -> serialize::Result {
        self.0.to_sql(out)
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! is_expression {
    ($st:ty: $($ty:ty),+ $(,)?) => { $(
        impl diesel::expression::AsExpression<$st> for $ty {
            type Expression = diesel::internal::derives::as_expression::Bound<$st, Self>;
            fn as_expression(self) -> Self::Expression { diesel::internal::derives::as_expression::Bound::new(self) }
        }
        impl<'a> diesel::expression::AsExpression<$st> for &'a $ty {
            type Expression = diesel::internal::derives::as_expression::Bound<$st, Self>;
            fn as_expression(self) -> Self::Expression { diesel::internal::derives::as_expression::Bound::new(self) }
        }
        impl diesel::expression::AsExpression<diesel::sql_types::Nullable<$st>> for $ty {
            type Expression = diesel::internal::derives::as_expression::Bound<diesel::sql_types::Nullable<$st>, Self>;
            fn as_expression(self) -> Self::Expression { diesel::internal::derives::as_expression::Bound::new(self) }
        }
        impl<'a> diesel::expression::AsExpression<diesel::sql_types::Nullable<$st>> for &'a $ty {
            type Expression = diesel::internal::derives::as_expression::Bound<diesel::sql_types::Nullable<$st>, Self>;
            fn as_expression(self) -> Self::Expression { diesel::internal::derives::as_expression::Bound::new(self) }
        }
        impl<DB: diesel::backend::Backend> diesel::serialize::ToSql<diesel::sql_types::Nullable<$st>, DB> for $ty
        where
            $ty: diesel::serialize::ToSql<$st, DB>,
        {
            fn to_sql<'b>(&'b self, out: &mut diesel::serialize::Output<'b, '_, DB>) -> diesel::serialize::Result {
                diesel::serialize::ToSql::<$st, DB>::to_sql(self, out)
            }
        }
    )+ };
}

has_sql_type!(Name, Json, Object, Moment, Power);
is_expression!(Json: StringList);
is_text_column!(Name: Uuid, VmState, TaskState, MigrationType, MigrationStatus, GroupPolicy);
is_text_column!(Json: Flavor, StringMap, StringList, serde_json::Value, RequestSpec, NetworkInfo, DeleteRequest, Cancellation, InstanceBundle);
is_column!(Moment: DateTime<Utc>);
is_column!(Power: PowerState);
is_queryable!(Power: PowerState);

impl ToSql<Moment, Pg> for DateTime<Utc> {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        ToSql::<Timestamp, Pg>::to_sql(&self.trunc_subsecs(6).naive_utc(), &mut out.reborrow())
    }
}

impl FromSql<Moment, Pg> for DateTime<Utc> {
    fn from_sql(bytes: <Pg as Backend>::RawValue<'_>) -> deserialize::Result<Self> {
        Ok(<NaiveDateTime as FromSql<Timestamp, Pg>>::from_sql(bytes)?.and_utc())
    }
}

impl ToSql<Moment, Sqlite> for DateTime<Utc> {
    /// Fixed width, so that SQLite's comparison of texts orders times correctly.
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Sqlite>) -> serialize::Result {
        out.set_value(moment::stored(*self));
        Ok(IsNull::No)
    }
}

impl FromSql<Moment, Sqlite> for DateTime<Utc> {
    fn from_sql(bytes: <Sqlite as Backend>::RawValue<'_>) -> deserialize::Result<Self> {
        let text = <String as FromSql<Text, Sqlite>>::from_sql(bytes)?;
        moment::read_stored(&text).ok_or_else(|| format!("a moment of {} bytes cannot be read", text.len()).into())
    }
}

impl ToSql<Power, Pg> for PowerState {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        ToSql::<diesel::sql_types::Integer, Pg>::to_sql(&self.code(), &mut out.reborrow())
    }
}

impl FromSql<Power, Pg> for PowerState {
    fn from_sql(bytes: <Pg as Backend>::RawValue<'_>) -> deserialize::Result<Self> {
        Ok(PowerState::from_code(<i32 as FromSql<diesel::sql_types::Integer, Pg>>::from_sql(bytes)?))
    }
}

impl ToSql<Power, Sqlite> for PowerState {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Sqlite>) -> serialize::Result {
        out.set_value(self.code());
        Ok(IsNull::No)
    }
}

impl FromSql<Power, Sqlite> for PowerState {
    fn from_sql(bytes: <Sqlite as Backend>::RawValue<'_>) -> deserialize::Result<Self> {
        Ok(PowerState::from_code(<i32 as FromSql<diesel::sql_types::Integer, Sqlite>>::from_sql(bytes)?))
    }
}

/// Parses an id of a plain TEXT column, which messages name. An id that cannot be parsed is a defect.
pub fn read_id(column: &str, text: &str) -> Result<Uuid, DbError> {
    Uuid::parse_str(text).map_err(|_| DbError::unreadable(column, text))
}

/// A nullable flag whose null reads as false.
pub struct NullIsFalse(bool);

impl<DB: Backend> Queryable<Nullable<Bool>, DB> for NullIsFalse
where
    Option<bool>: diesel::deserialize::FromStaticSqlRow<Nullable<Bool>, DB>,
{
    type Row = Option<bool>;
    fn build(row: Option<bool>) -> deserialize::Result<Self> {
        Ok(NullIsFalse(row.unwrap_or(false)))
    }
}

impl From<NullIsFalse> for bool {
    fn from(flag: NullIsFalse) -> bool {
        flag.0
    }
}
