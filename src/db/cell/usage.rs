//! What projects have in this cell: for quotas, and for reports over time.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::CellDb;
use super::instances::Instance;
use super::schema::instances;
use crate::db::DbError;
use crate::db::columns::Sql;
use crate::domain::flavor::Flavor;

impl CellDb {
    /// The flavors of a project's (or of one of its users') undeleted, visible servers.
    pub async fn flavors_in_use(&self, project_id: &str, user_id: Option<&str>) -> Result<Vec<(Uuid, Flavor)>, DbError> {
        let (project, user) = (project_id.to_owned(), user_id.map(str::to_owned));
        self.db
            .read(move |conn| {
                let mut rows = instances::table
                    .filter(instances::project_id.eq(project))
                    .filter(instances::deleted.eq(false))
                    .filter(instances::hidden.is_null().or(instances::hidden.eq(false)))
                    .into_boxed();
                if let Some(user) = user {
                    rows = rows.filter(instances::user_id.eq(user));
                }
                Ok(rows.order(instances::uuid).select((instances::uuid, instances::flavor)).load(conn)?)
            })
            .await
    }

    /// The visible servers, deleted ones too, that had been launched by `until` and had not ended by `since`.
    pub async fn servers_between(
        &self,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
        project: Option<&str>,
    ) -> Result<Vec<Instance>, DbError> {
        let project = project.map(str::to_owned);
        self.db
            .read(move |conn| {
                let mut rows = instances::table
                    .filter(instances::launched_at.le(Sql(Some(until))))
                    .filter(instances::terminated_at.is_null().or(instances::terminated_at.gt(Sql(Some(since)))))
                    .filter(instances::hidden.is_null().or(instances::hidden.eq(false)))
                    .into_boxed();
                if let Some(project) = project {
                    rows = rows.filter(instances::project_id.eq(project));
                }
                Ok(rows.order(instances::uuid).select(Instance::as_select()).load(conn)?)
            })
            .await
    }
}
