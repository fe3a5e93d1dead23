//! Metadata and tags that users set on their servers.

use diesel::dsl::sql;
use diesel::expression::SqlLiteral;
use diesel::prelude::*;
use uuid::Uuid;

use super::schema::{instance_metadata as metadata, tags};
use super::{CellDb, CellTxn, instances};
use crate::db::columns::{Json, Sql, StringMap};
use crate::db::{Conn, DbError};

impl CellDb {
    /// Returns the server's metadata.
    pub async fn metadata(&self, instance: Uuid) -> Result<StringMap, DbError> {
        self.db.read(move |conn| all_metadata(conn, instance)).await
    }

    /// Returns the server's tags, sorted.
    pub async fn tags(&self, instance: Uuid) -> Result<Vec<String>, DbError> {
        self.db.read(move |conn| all_tags(conn, instance)).await
    }
}

impl CellTxn {
    /// Replaces the server's metadata. [`DbError::NotFound`] if there is no such server.
    pub fn replace_metadata(self, instance: Uuid, values: StringMap) -> CellTxn {
        self.with(move |conn, _| {
            instances::get(conn, instance)?;
            set_metadata(conn, instance, values)
        })
    }

    /// Sets these keys and leaves the others.
    pub fn merge_metadata(self, instance: Uuid, values: StringMap) -> CellTxn {
        self.with(move |conn, _| {
            instances::get(conn, instance)?;
            for (key, value) in values {
                diesel::delete(metadata::table.find((Sql(instance), &key))).execute(conn)?;
                put_metadata(conn, instance, key, value)?;
            }
            Ok(())
        })
    }

    /// Removes a key. [`DbError::NotFound`] if the server does not have it.
    pub fn delete_metadata(self, instance: Uuid, key: String) -> CellTxn {
        self.with(move |conn, _| match diesel::delete(metadata::table.find((Sql(instance), &key))).execute(conn)? {
            0 => Err(DbError::NotFound(format!("metadata item {key}"))),
            _ => Ok(()),
        })
    }

    /// Replaces the server's tags.
    pub fn replace_tags(self, instance: Uuid, names: Vec<String>) -> CellTxn {
        self.with(move |conn, _| {
            instances::get(conn, instance)?;
            set_tags(conn, instance, names)
        })
    }

    /// Adds a tag. Succeeds if the server has it already.
    pub fn add_tag(self, instance: Uuid, tag: String) -> CellTxn {
        self.with(move |conn, _| {
            instances::get(conn, instance)?;
            diesel::delete(tags::table.find((Sql(instance), &tag))).execute(conn)?;
            put_tag(conn, instance, tag)
        })
    }

    /// Removes a tag. [`DbError::NotFound`] if the server does not have it.
    pub fn delete_tag(self, instance: Uuid, tag: String) -> CellTxn {
        self.with(move |conn, _| match diesel::delete(tags::table.find((Sql(instance), &tag))).execute(conn)? {
            0 => Err(DbError::NotFound(format!("tag {tag}"))),
            _ => Ok(()),
        })
    }
}

pub(super) fn all_metadata(conn: &mut Conn, instance: Uuid) -> Result<StringMap, DbError> {
    let pairs: Vec<(String, String)> =
        metadata::table.filter(metadata::instance_uuid.eq(Sql(instance))).select((metadata::key, metadata::value)).load(conn)?;
    Ok(pairs.into_iter().collect())
}

pub(super) fn all_tags(conn: &mut Conn, instance: Uuid) -> Result<Vec<String>, DbError> {
    Ok(tags::table.filter(tags::instance_uuid.eq(Sql(instance))).order(tags::tag).select(tags::tag).load(conn)?)
}

/// A column that an expression makes.
type JsonColumn = SqlLiteral<Json>;

/// Returns a server's metadata and its tags as columns of the statement that reads its row.
pub(super) fn columns(conn: &Conn) -> (JsonColumn, JsonColumn) {
    let (pairs, names) = match conn.is_postgres() {
        true => ("COALESCE(json_object_agg(key, value)::text, '{}')", "COALESCE(json_agg(tag)::text, '[]')"),
        false => ("json_group_object(key, value)", "json_group_array(tag)"),
    };
    let of = |what, table| sql(&format!("(SELECT {what} FROM {table} WHERE {table}.instance_uuid = instances.uuid)"));
    (of(pairs, "instance_metadata"), of(names, "tags"))
}

pub(super) fn set_metadata(conn: &mut Conn, instance: Uuid, values: StringMap) -> Result<(), DbError> {
    diesel::delete(metadata::table.filter(metadata::instance_uuid.eq(Sql(instance)))).execute(conn)?;
    values.into_iter().try_for_each(|(key, value)| put_metadata(conn, instance, key, value))
}

pub(super) fn set_tags(conn: &mut Conn, instance: Uuid, mut names: Vec<String>) -> Result<(), DbError> {
    names.sort();
    names.dedup();
    diesel::delete(tags::table.filter(tags::instance_uuid.eq(Sql(instance)))).execute(conn)?;
    names.into_iter().try_for_each(|tag| put_tag(conn, instance, tag))
}

fn put_metadata(conn: &mut Conn, instance: Uuid, key: String, value: String) -> Result<(), DbError> {
    diesel::insert_into(metadata::table)
        .values((metadata::instance_uuid.eq(Sql(instance)), metadata::key.eq(key), metadata::value.eq(value)))
        .execute(conn)?;
    Ok(())
}

fn put_tag(conn: &mut Conn, instance: Uuid, tag: String) -> Result<(), DbError> {
    diesel::insert_into(tags::table).values((tags::instance_uuid.eq(Sql(instance)), tags::tag.eq(tag))).execute(conn)?;
    Ok(())
}
