//! Build requests: complete records of servers that no cell has yet, so that the API can show, list and delete these servers. The user data
//! are sealed, because a database keeps the contents of the pages that it frees.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::ApiDb;
use super::schema::build_requests as builds;
use crate::db::columns::Sql;
use crate::db::{Conn, DbError};
use crate::domain::fence::Fence;
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::server::TaskState;
use crate::env::Env;

impl ApiDb {
    /// Returns the server that no cell has yet.
    pub async fn build_request(&self, instance: Uuid) -> Result<InstanceBundle, DbError> {
        let env = self.db.env().clone();
        self.db
            .read(move |conn| {
                let request = builds::table.find(Sql(instance)).select(builds::instance).first(conn).optional()?;
                request.map(|bundle| opened(bundle, &env)).ok_or_else(|| DbError::NotFound(format!("Instance {instance}")))
            })
            .await
    }

    /// Returns the build requests of a project, or of all projects, newest first.
    pub async fn build_requests(&self, project_id: Option<&str>) -> Result<Vec<InstanceBundle>, DbError> {
        let (project, env) = (project_id.map(str::to_owned), self.db.env().clone());
        self.db
            .read(move |conn| {
                let mut query = builds::table.into_boxed();
                if let Some(project) = project {
                    query = query.filter(builds::project_id.eq(project));
                }
                let requests: Vec<InstanceBundle> =
                    query.order((builds::created_at.desc(), builds::instance_uuid)).select(builds::instance).load(conn)?;
                Ok(requests.into_iter().map(|bundle| opened(bundle, &env)).collect())
            })
            .await
    }

    /// Shows users this task of a server that no cell has yet. Succeeds if the server has no build request any more.
    pub async fn set_build_task(&self, fence: Fence, instance: Uuid, task: TaskState) -> Result<(), DbError> {
        self.db
            .write_fenced(fence, move |conn| {
                let row = builds::table.find(Sql(instance));
                let request: Option<InstanceBundle> = row.select(builds::instance).first(conn).optional()?;
                let Some(mut bundle) = request else { return Ok(()) };
                bundle.instance.task_state = Some(task);
                diesel::update(row).set(builds::instance.eq(Sql(&bundle))).execute(conn)?;
                Ok(())
            })
            .await
    }
}

/// Marks sealed user data. User data are base64, which has no colon.
const SEALED: &str = "sealed:";

/// Seals the user data, so that nobody can read them in the database.
pub(in crate::db) fn seal(bundle: &mut InstanceBundle, env: &Env) {
    if let Some(user_data) = bundle.instance.user_data.as_mut().filter(|text| !text.starts_with(SEALED)) {
        *user_data = format!("{SEALED}{}", env.seal(user_data.as_bytes()));
    }
}

/// Unseals the user data. Drops them if other keys sealed them.
fn opened(mut bundle: InstanceBundle, env: &Env) -> InstanceBundle {
    if let Some(sealed) = bundle.instance.user_data.as_deref().and_then(|text| text.strip_prefix(SEALED)) {
        let clear = env.unseal(sealed).and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
        if clear.is_none() {
            log::error!(server:% = bundle.instance.uuid; "the user data of a server in the making were sealed with token keys that are not here");
        }
        bundle.instance.user_data = clear;
    }
    bundle
}

pub(in crate::db) fn insert(conn: &mut Conn, bundle: &InstanceBundle, now: DateTime<Utc>) -> Result<(), DbError> {
    let row = (
        builds::instance_uuid.eq(Sql(bundle.instance.uuid)),
        builds::created_at.eq(Sql(now)),
        builds::project_id.eq(&bundle.instance.project_id),
        builds::instance.eq(Sql(bundle)),
    );
    diesel::insert_into(builds::table).values(row).execute(conn)?;
    Ok(())
}

pub(in crate::db) fn delete(conn: &mut Conn, instance: Uuid) -> Result<(), DbError> {
    diesel::delete(builds::table.find(Sql(instance))).execute(conn)?;
    Ok(())
}
