//! Request specs: the flavor, image and hints that each server was requested with.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::ApiDb;
use super::schema::request_specs as specs;
use crate::db::columns::Sql;
use crate::db::{Conn, DbError};
use crate::domain::fence::Fence;
use crate::domain::request_spec::RequestSpec;

/// The maximum number of uuids in one statement.
const CHUNK: usize = 500;

impl ApiDb {
    /// Returns a server's request spec.
    pub async fn request_spec(&self, instance: Uuid) -> Result<RequestSpec, DbError> {
        self.db
            .read(move |conn| {
                let spec = specs::table.find(Sql(instance)).select(specs::spec).first(conn).optional()?;
                spec.ok_or_else(|| not_found(instance))
            })
            .await
    }

    /// Returns the request specs of these servers. Servers without a request spec are left out.
    pub async fn request_specs(&self, instances: Vec<Uuid>) -> Result<BTreeMap<Uuid, RequestSpec>, DbError> {
        self.db
            .read(move |conn| {
                let mut by_server = BTreeMap::new();
                for chunk in instances.chunks(CHUNK) {
                    let rows = specs::table.filter(specs::instance_uuid.eq_any(chunk.iter().copied().map(Sql)));
                    let pairs: Vec<(Uuid, RequestSpec)> = rows.select((specs::instance_uuid, specs::spec)).load(conn)?;
                    by_server.extend(pairs);
                }
                Ok(by_server)
            })
            .await
    }

    /// Replaces a server's request spec at a user's request, outside any operation.
    pub async fn edit_request_spec(&self, spec: RequestSpec) -> Result<(), DbError> {
        let now = self.db.env().now();
        self.db.write(move |conn| save(conn, &spec, now)).await
    }

    /// Replaces a server's request spec.
    pub async fn save_request_spec(&self, fence: Fence, spec: RequestSpec) -> Result<(), DbError> {
        let now = self.db.env().now();
        self.db.write_fenced(fence, move |conn| save(conn, &spec, now)).await
    }
}

pub(in crate::db) fn insert(conn: &mut Conn, spec: &RequestSpec, now: DateTime<Utc>) -> Result<(), DbError> {
    let row = (
        specs::instance_uuid.eq(Sql(spec.instance_uuid)),
        specs::created_at.eq(Sql(now)),
        specs::spec.eq(Sql(spec)),
        specs::vcpus.eq(spec.flavor.vcpus),
        specs::memory_mb.eq(spec.flavor.memory_mb),
    );
    diesel::insert_into(specs::table).values(row).execute(conn)?;
    Ok(())
}

pub(in crate::db) fn save(conn: &mut Conn, spec: &RequestSpec, now: DateTime<Utc>) -> Result<(), DbError> {
    let set = (
        specs::spec.eq(Sql(spec)),
        specs::updated_at.eq(Sql(Some(now))),
        specs::vcpus.eq(spec.flavor.vcpus),
        specs::memory_mb.eq(spec.flavor.memory_mb),
    );
    match diesel::update(specs::table.find(Sql(spec.instance_uuid))).set(set).execute(conn)? {
        0 => Err(not_found(spec.instance_uuid)),
        _ => Ok(()),
    }
}

fn not_found(instance: Uuid) -> DbError {
    DbError::NotFound(format!("RequestSpec of instance {instance}"))
}
