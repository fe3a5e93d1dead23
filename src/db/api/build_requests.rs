//! Build requests: servers that no cell has yet, whole, so that they can be shown, listed and deleted.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::ApiDb;
use super::schema::build_requests as builds;
use crate::db::cell::bundle::InstanceBundle;
use crate::db::columns::Sql;
use crate::db::{Conn, DbError};
use crate::domain::fence::Fence;

impl ApiDb {
    /// A server that no cell has yet.
    pub async fn build_request(&self, instance: Uuid) -> Result<InstanceBundle, DbError> {
        self.db
            .read(move |conn| {
                let found = builds::table.find(Sql(instance)).select(builds::instance).first(conn).optional()?;
                found.ok_or_else(|| DbError::NotFound(format!("Instance {instance}")))
            })
            .await
    }

    /// Such servers of a project, or of all, newest first.
    pub async fn build_requests(&self, project_id: Option<&str>) -> Result<Vec<InstanceBundle>, DbError> {
        let project = project_id.map(str::to_owned);
        self.db
            .read(move |conn| {
                let mut query = builds::table.into_boxed();
                if let Some(project) = project {
                    query = query.filter(builds::project_id.eq(project));
                }
                Ok(query.order((builds::created_at.desc(), builds::instance_uuid)).select(builds::instance).load(conn)?)
            })
            .await
    }

    /// Writes a changed build request.
    pub async fn save_build_request(&self, fence: Fence, bundle: InstanceBundle) -> Result<(), DbError> {
        self.db
            .write_fenced(fence, move |conn| {
                let uuid = bundle.instance.uuid;
                match diesel::update(builds::table.find(Sql(uuid))).set(builds::instance.eq(&bundle)).execute(conn)? {
                    0 => Err(DbError::NotFound(format!("Instance {uuid}"))),
                    _ => Ok(()),
                }
            })
            .await
    }

    /// Removes a build request; fine when there is none.
    pub async fn delete_build_request(&self, fence: Fence, instance: Uuid) -> Result<(), DbError> {
        self.db.write_fenced(fence, move |conn| delete(conn, instance)).await
    }
}

pub(in crate::db) fn insert(conn: &mut Conn, bundle: &InstanceBundle, now: DateTime<Utc>) -> Result<(), DbError> {
    let row = (
        builds::instance_uuid.eq(Sql(bundle.instance.uuid)),
        builds::created_at.eq(Sql(now)),
        builds::project_id.eq(&bundle.instance.project_id),
        builds::instance.eq(bundle),
    );
    diesel::insert_into(builds::table).values(row).execute(conn)?;
    Ok(())
}

pub(in crate::db) fn delete(conn: &mut Conn, instance: Uuid) -> Result<(), DbError> {
    diesel::delete(builds::table.find(Sql(instance))).execute(conn)?;
    Ok(())
}
