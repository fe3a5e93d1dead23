//! The enrolments of hosts: the key of each agent.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::{ApiDb, host_mappings};
use crate::db::columns::Sql;
use crate::db::{Conn, DbError};
use crate::domain::enrolment::Enrolment;
use crate::domain::reason;

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Moment, Name};

    enrolments (host) {
        host -> Text,
        cell_uuid -> Name,
        public_key -> Text,
        created_at -> Moment,
    }
}

/// The columns of an enrolment, in the order of the table.
type Columns = (String, Uuid, String, DateTime<Utc>);

impl ApiDb {
    /// Enrols a host with this public key, and maps it to the cell, in one commit. A host that is enrolled gets the new key. Conflict if the
    /// host is in another cell, or if another host has the key.
    pub async fn enrol(&self, host: &str, cell: Uuid, public_key: &str) -> Result<Enrolment, DbError> {
        let now = self.db.env().now();
        let wish = Enrolment { host: host.to_owned(), cell, public_key: public_key.to_owned(), created_at: now };
        self.db
            .write(move |conn| {
                host_mappings::map(conn, &wish.host, wish.cell, now)?;
                let present = by_host(conn, &wish.host)?;
                match present {
                    Some(present) if present.public_key == wish.public_key => return Ok(present),
                    Some(_) => {
                        diesel::delete(enrolments::table.find(&wish.host)).execute(conn)?;
                    }
                    None => {}
                }
                let holder = enrolments::table.filter(enrolments::public_key.eq(&wish.public_key)).select(enrolments::host);
                if let Some(holder) = holder.first::<String>(conn).optional()? {
                    return Err(DbError::Conflict(reason!("host {holder} has this key")));
                }
                let row = (
                    enrolments::host.eq(&wish.host),
                    enrolments::cell_uuid.eq(Sql(wish.cell)),
                    enrolments::public_key.eq(&wish.public_key),
                    enrolments::created_at.eq(Sql(wish.created_at)),
                );
                diesel::insert_into(enrolments::table).values(row).execute(conn)?;
                Ok(wish.clone())
            })
            .await
    }

    /// Returns a host's enrolment; none if it is not enrolled.
    pub async fn enrolment(&self, host: &str) -> Result<Option<Enrolment>, DbError> {
        let host = host.to_owned();
        self.db.read(move |conn| by_host(conn, &host)).await
    }

    /// Returns at most `limit` enrolments in the order of the hosts' names, of one cell or of all, behind this host.
    pub async fn enrolments(&self, cell: Option<Uuid>, after: Option<&str>, limit: i64) -> Result<Vec<Enrolment>, DbError> {
        let after = after.map(str::to_owned);
        self.db
            .read(move |conn| {
                let mut query = enrolments::table.into_boxed().order(enrolments::host).limit(limit);
                if let Some(cell) = cell {
                    query = query.filter(enrolments::cell_uuid.eq(Sql(cell)));
                }
                if let Some(after) = after.clone() {
                    query = query.filter(enrolments::host.gt(after));
                }
                Ok(query.load::<Columns>(conn)?.into_iter().map(enrolment).collect())
            })
            .await
    }

    /// Removes a host's enrolment. Succeeds if there is none. The host stays mapped.
    pub async fn remove_enrolment(&self, host: &str) -> Result<(), DbError> {
        let host = host.to_owned();
        self.db
            .write(move |conn| {
                diesel::delete(enrolments::table.find(&host)).execute(conn)?;
                Ok(())
            })
            .await
    }
}

fn by_host(conn: &mut Conn, host: &str) -> Result<Option<Enrolment>, DbError> {
    Ok(enrolments::table.find(host).first::<Columns>(conn).optional()?.map(enrolment))
}

fn enrolment((host, cell, public_key, created_at): Columns) -> Enrolment {
    Enrolment { host, cell, public_key, created_at }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::api::tests::{databases, id, with_cells};

    #[tokio::test]
    async fn a_host_is_enrolled_and_mapped_at_once() {
        for api in databases() {
            with_cells(&api).await;
            let first = api.enrol("h1", id(1), "UA").await.unwrap();
            assert_eq!(api.host_mapping("h1").await.unwrap().cell_uuid, id(1));
            assert_eq!(api.enrol("h1", id(1), "UA").await.unwrap(), first, "a repeated request changes nothing");
            assert_eq!(api.enrol("h1", id(1), "UB").await.unwrap().public_key, "UB", "a host may get a new key");
            assert!(matches!(api.enrol("h1", id(2), "UB").await, Err(DbError::Conflict(_))), "the host is in another cell");
            assert!(matches!(api.enrol("h2", id(1), "UB").await, Err(DbError::Conflict(_))), "another host has the key");
            assert!(api.host_mapping("h2").await.is_err(), "a refused enrolment maps nothing");
            assert_eq!(api.enrolment("h1").await.unwrap().unwrap().public_key, "UB");
        }
    }

    #[tokio::test]
    async fn enrolments_are_listed_by_name_and_cell() {
        for api in databases() {
            with_cells(&api).await;
            for (host, cell) in [("b", id(1)), ("a", id(1)), ("c", id(2))] {
                api.enrol(host, cell, &format!("U{host}")).await.unwrap();
            }
            assert_eq!(names(&api, None, None, 10).await, ["a", "b", "c"]);
            assert_eq!(names(&api, Some(id(1)), Some("a"), 10).await, ["b"]);
            assert_eq!(names(&api, None, None, 2).await, ["a", "b"]);
            api.remove_enrolment("a").await.unwrap();
            api.remove_enrolment("a").await.unwrap();
            assert_eq!(names(&api, None, None, 10).await, ["b", "c"]);
        }
    }

    async fn names(api: &ApiDb, cell: Option<Uuid>, after: Option<&str>, limit: i64) -> Vec<String> {
        api.enrolments(cell, after, limit).await.unwrap().into_iter().map(|enrolment| enrolment.host).collect()
    }
}
