//! Request specs: what each server was asked to be.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::ApiDb;
use super::schema::request_specs as specs;
use crate::db::columns::Sql;
use crate::db::{Conn, DbError};
use crate::domain::fence::Fence;
use crate::domain::request_spec::RequestSpec;

impl ApiDb {
    /// A server's request spec.
    pub async fn request_spec(&self, instance: Uuid) -> Result<RequestSpec, DbError> {
        self.db
            .read(move |conn| {
                let found = specs::table.find(Sql(instance)).select(specs::spec).first(conn).optional()?;
                found.ok_or_else(|| not_found(instance))
            })
            .await
    }

    /// Replaces a server's request spec.
    pub async fn save_request_spec(&self, fence: Fence, spec: RequestSpec) -> Result<(), DbError> {
        let now = self.db.env().now();
        self.db.write_fenced(fence, move |conn| save(conn, &spec, now)).await
    }
}

pub(in crate::db) fn insert(conn: &mut Conn, spec: &RequestSpec, now: DateTime<Utc>) -> Result<(), DbError> {
    let row = (specs::instance_uuid.eq(Sql(spec.instance_uuid)), specs::created_at.eq(Sql(now)), specs::spec.eq(spec));
    diesel::insert_into(specs::table).values(row).execute(conn)?;
    Ok(())
}

pub(in crate::db) fn save(conn: &mut Conn, spec: &RequestSpec, now: DateTime<Utc>) -> Result<(), DbError> {
    let set = (specs::spec.eq(spec), specs::updated_at.eq(Sql(Some(now))));
    match diesel::update(specs::table.find(Sql(spec.instance_uuid))).set(set).execute(conn)? {
        0 => Err(not_found(spec.instance_uuid)),
        _ => Ok(()),
    }
}

fn not_found(instance: Uuid) -> DbError {
    DbError::NotFound(format!("RequestSpec of instance {instance}"))
}
