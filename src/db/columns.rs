//! The column types of domain values on both databases: ids and names as TEXT, times as TIMESTAMP in UTC with microseconds, structured
//! values as JSON in TEXT, power states as INTEGER. Records hold domain types; statements take them in [`Sql`].

use std::collections::BTreeMap;
use std::io::Write;

use chrono::{DateTime, NaiveDateTime, SubsecRound, Utc};
use diesel::Connection;
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

use super::Conn;
use super::cell::bundle::InstanceBundle;
use crate::domain::cancellation::Cancellation;
use crate::domain::delete_request::DeleteRequest;
use crate::domain::flavor::Flavor;
use crate::domain::migration::{MigrationStatus, MigrationType};
use crate::domain::moment;
use crate::domain::network_info::NetworkInfo;
use crate::domain::request_spec::RequestSpec;
use crate::domain::server::{PowerState, TaskState, VmState};
use crate::domain::server_group::GroupPolicy;

/// The diesel backend for both databases.
pub(in crate::db) type Multi = <Conn as Connection>::Backend;

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
trait Texted: Sized {
    fn to_text(&self) -> Result<String, serde_json::Error>;
    fn from_text(text: &str) -> Option<Self>;
}

macro_rules! is_texted {
    (name: $($ty:ty),+) => { $(
        impl Texted for $ty {
            fn to_text(&self) -> Result<String, serde_json::Error> {
                Ok(self.to_string())
            }
            fn from_text(text: &str) -> Option<Self> {
                Self::parse(text)
            }
        }
    )+ };
    (json: $($ty:ty),+) => { $(
        impl Texted for $ty {
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
is_texted!(json: Flavor, StringMap, StringList, serde_json::Value, RequestSpec, NetworkInfo, InstanceBundle, DeleteRequest, Cancellation);

fn parsed<T: Texted>(text: &str) -> deserialize::Result<T> {
    // The message leaves out the text, which may be a user's secret.
    T::from_text(text).ok_or_else(|| format!("a {} column of {} bytes cannot be read", std::any::type_name::<T>(), text.len()).into())
}

/// Lets a Rust type be read from and written to a column of a SQL type. Diesel's derives would do this for a type of this crate, but they
/// cannot for a foreign type.
macro_rules! is_column {
    ($st:ty: $($ty:ty),+ $(,)?) => { $(
        impl ToSql<$st, Multi> for $ty {
            fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Multi>) -> serialize::Result {
                out.set_value((<$st>::default(), self));
                Ok(IsNull::No)
            }
        }
        impl FromSql<$st, Multi> for $ty {
            fn from_sql(bytes: <Multi as Backend>::RawValue<'_>) -> deserialize::Result<Self> {
                bytes.from_sql::<$ty, $st>()
            }
        }
    )+ };
}

macro_rules! is_queryable {
    ($st:ty: $($ty:ty),+ $(,)?) => { $(
        impl<DB: Backend> Queryable<$st, DB> for $ty where $ty: FromSql<$st, DB> {
            type Row = Self;
            fn build(row: Self) -> deserialize::Result<Self> { Ok(row) }
        }
    )+ };
}

macro_rules! is_text_column {
    ($st:ty: $($ty:ty),+ $(,)?) => {
        is_column!($st: $($ty),+);
        is_queryable!($st: $($ty),+);
        $(
            impl ToSql<$st, Pg> for $ty {
                fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
                    out.write_all(self.to_text()?.as_bytes())?;
                    Ok(IsNull::No)
                }
            }
            impl FromSql<$st, Pg> for $ty {
                fn from_sql(bytes: <Pg as Backend>::RawValue<'_>) -> deserialize::Result<Self> {
                    parsed(std::str::from_utf8(bytes.as_bytes())?)
                }
            }
            impl ToSql<$st, Sqlite> for $ty {
                fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Sqlite>) -> serialize::Result {
                    out.set_value(self.to_text()?);
                    Ok(IsNull::No)
                }
            }
            impl FromSql<$st, Sqlite> for $ty {
                fn from_sql(bytes: <Sqlite as Backend>::RawValue<'_>) -> deserialize::Result<Self> {
                    parsed(&<String as FromSql<Text, Sqlite>>::from_sql(bytes)?)
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

macro_rules! is_expression {
    ($st:ty: $($ty:ty),+ $(,)?) => { $(
        impl AsExpression<$st> for $ty {
            type Expression = Bound<$st, Self>;
            fn as_expression(self) -> Self::Expression { Bound::new(self) }
        }
        impl<'a> AsExpression<$st> for &'a $ty {
            type Expression = Bound<$st, Self>;
            fn as_expression(self) -> Self::Expression { Bound::new(self) }
        }
        impl AsExpression<Nullable<$st>> for $ty {
            type Expression = Bound<Nullable<$st>, Self>;
            fn as_expression(self) -> Self::Expression { Bound::new(self) }
        }
        impl<'a> AsExpression<Nullable<$st>> for &'a $ty {
            type Expression = Bound<Nullable<$st>, Self>;
            fn as_expression(self) -> Self::Expression { Bound::new(self) }
        }
        impl<DB: Backend> ToSql<Nullable<$st>, DB> for $ty where $ty: ToSql<$st, DB> {
            fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, DB>) -> serialize::Result {
                ToSql::<$st, DB>::to_sql(self, out)
            }
        }
    )+ };
}

has_sql_type!(Name, Json, Moment, Power);
is_expression!(Json: StringList, InstanceBundle);
is_text_column!(Name: Uuid, VmState, TaskState, MigrationType, MigrationStatus, GroupPolicy);
is_text_column!(Json: Flavor, StringMap, StringList, serde_json::Value, RequestSpec, NetworkInfo, InstanceBundle, DeleteRequest, Cancellation);
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
