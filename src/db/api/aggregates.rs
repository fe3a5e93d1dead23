//! Host aggregates. The metadata key `availability_zone` makes an aggregate an availability zone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::ApiDb;
use super::schema::{aggregate_hosts as hosts, aggregate_metadata as metadata, aggregates};
use crate::db::columns::{Sql, StringMap};
use crate::db::mirror::Mirrored;
use crate::db::{Conn, DbError, Of};
use crate::domain::aggregate::{Aggregate, Memberships, ZONE_KEY};
use crate::domain::reason;

/// The memberships in memory. Any change replaces them all, because aggregates change seldom.
#[derive(Default)]
pub(super) struct Kept(Arc<Memberships>);

impl Mirrored for Kept {
    fn read(&mut self, conn: &mut Conn, _: Of<'_>) -> Result<(), DbError> {
        self.0 = Arc::new(Memberships::new(&all(conn)?));
        Ok(())
    }
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = aggregates)]
struct AggregateRow {
    id: i32,
    uuid: Uuid,
    created_at: DateTime<Utc>,
    updated_at: Option<DateTime<Utc>>,
    name: String,
}

impl ApiDb {
    /// Creates an aggregate, in a zone if `zone` names one. Conflict if the name is taken.
    pub async fn create_aggregate(&self, uuid: Uuid, name: &str, zone: Option<&str>) -> Result<Aggregate, DbError> {
        let (name, zone, now) = (name.to_owned(), zone.map(str::to_owned), self.db.env().now());
        self.db
            .write(move |conn| {
                name_is_free(conn, &name)?;
                let row = (aggregates::uuid.eq(Sql(uuid)), aggregates::created_at.eq(Sql(now)), aggregates::name.eq(name));
                let id: i32 = diesel::insert_into(aggregates::table).values(row).returning(aggregates::id).get_result(conn)?;
                if let Some(zone) = zone {
                    put_metadata(conn, id, ZONE_KEY, Some(&zone))?;
                }
                get(conn, id)
            })
            .await
    }

    /// Returns all aggregates, ordered by id.
    pub async fn aggregates(&self) -> Result<Vec<Aggregate>, DbError> {
        self.db.read(all).await
    }

    /// Returns the aggregates of each host, as they are committed now.
    pub async fn memberships(&self) -> Result<Arc<Memberships>, DbError> {
        let kept = self.memberships.clone();
        self.db.read(move |conn| kept.look(conn, |kept| Arc::clone(&kept.0))).await
    }

    /// Returns the aggregate with this id.
    pub async fn aggregate(&self, id: i32) -> Result<Aggregate, DbError> {
        self.db.read(move |conn| get(conn, id)).await
    }

    /// Renames an aggregate. Conflict if the name is taken.
    pub async fn rename_aggregate(&self, id: i32, name: &str) -> Result<Aggregate, DbError> {
        let name = name.to_owned();
        self.change_aggregate(id, move |conn, present| {
            if present.name != name {
                name_is_free(conn, &name)?;
                diesel::update(aggregates::table.find(id)).set(aggregates::name.eq(name)).execute(conn)?;
            }
            Ok(())
        })
        .await
    }

    /// Sets metadata; a key with a null value is removed. Conflict if a host would be in two zones.
    pub async fn set_aggregate_metadata(&self, id: i32, values: BTreeMap<String, Option<String>>) -> Result<Aggregate, DbError> {
        self.change_aggregate(id, move |conn, present| {
            if let Some(Some(zone)) = values.get(ZONE_KEY) {
                for host in &present.hosts {
                    zone_is_free(conn, id, host, zone)?;
                }
            }
            values.iter().try_for_each(|(key, value)| put_metadata(conn, id, key, value.as_deref()))
        })
        .await
    }

    /// Adds a host. Conflict if the host is a member already, or would be in two zones.
    pub async fn add_aggregate_host(&self, id: i32, host: &str) -> Result<Aggregate, DbError> {
        let host = host.to_owned();
        self.change_aggregate(id, move |conn, present| {
            if present.hosts.contains(&host) {
                return Err(DbError::Conflict(reason!("Aggregate {id} already has host {host}.")));
            }
            add_host(conn, present, &host)
        })
        .await
    }

    /// Adds those of these hosts that are no members yet, in one transaction. Conflict if a host would be in two zones.
    pub async fn add_aggregate_hosts(&self, id: i32, names: Vec<String>) -> Result<Aggregate, DbError> {
        self.change_aggregate(id, move |conn, present| {
            names.iter().filter(|host| !present.hosts.contains(*host)).try_for_each(|host| add_host(conn, present, host))
        })
        .await
    }

    /// Removes a host. [`DbError::NotFound`] if the host is not a member.
    pub async fn remove_aggregate_host(&self, id: i32, host: &str) -> Result<Aggregate, DbError> {
        let host = host.to_owned();
        self.change_aggregate(id, move |conn, _| match diesel::delete(hosts::table.find((id, &host))).execute(conn)? {
            0 => Err(DbError::NotFound(format!("Aggregate {id} host {host}"))),
            _ => Ok(()),
        })
        .await
    }

    /// Removes an aggregate. Conflict if it still has hosts.
    pub async fn delete_aggregate(&self, id: i32) -> Result<(), DbError> {
        self.db
            .write(move |conn| {
                if !get(conn, id)?.hosts.is_empty() {
                    return Err(DbError::Conflict(reason!("Cannot remove host aggregate {id}: it is not empty")));
                }
                diesel::delete(aggregates::table.find(id)).execute(conn)?;
                Ok(())
            })
            .await
    }

    async fn change_aggregate<F>(&self, id: i32, change: F) -> Result<Aggregate, DbError>
    where
        F: FnOnce(&mut Conn, &Aggregate) -> Result<(), DbError> + Send + 'static,
    {
        let now = self.db.env().now();
        self.db
            .write(move |conn| {
                let present = get(conn, id)?;
                change(conn, &present)?;
                diesel::update(aggregates::table.find(id)).set(aggregates::updated_at.eq(Sql(Some(now)))).execute(conn)?;
                get(conn, id)
            })
            .await
    }
}

fn all(conn: &mut Conn) -> Result<Vec<Aggregate>, DbError> {
    let rows: Vec<AggregateRow> = aggregates::table.order(aggregates::id).select(AggregateRow::as_select()).load(conn)?;
    let mut members: BTreeMap<i32, BTreeSet<String>> = BTreeMap::new();
    for (id, host) in hosts::table.select((hosts::aggregate_id, hosts::host)).load::<(i32, String)>(conn)? {
        members.entry(id).or_default().insert(host);
    }
    let mut values: BTreeMap<i32, StringMap> = BTreeMap::new();
    for (id, key, value) in metadata::table.load::<(i32, String, String)>(conn)? {
        values.entry(id).or_default().insert(key, value);
    }
    let with_parts = |row: AggregateRow| {
        let (hosts, metadata) = (members.remove(&row.id).unwrap_or_default(), values.remove(&row.id).unwrap_or_default());
        whole(row, hosts, metadata)
    };
    Ok(rows.into_iter().map(with_parts).collect())
}

fn get(conn: &mut Conn, id: i32) -> Result<Aggregate, DbError> {
    let row: Option<AggregateRow> = aggregates::table.find(id).select(AggregateRow::as_select()).first(conn).optional()?;
    let row = row.ok_or_else(|| DbError::NotFound(format!("Aggregate {id}")))?;
    let members: Vec<String> = hosts::table.filter(hosts::aggregate_id.eq(id)).select(hosts::host).load(conn)?;
    let values: Vec<(String, String)> =
        metadata::table.filter(metadata::aggregate_id.eq(id)).select((metadata::key, metadata::value)).load(conn)?;
    Ok(whole(row, members.into_iter().collect(), values.into_iter().collect()))
}

fn whole(row: AggregateRow, hosts: BTreeSet<String>, metadata: StringMap) -> Aggregate {
    let AggregateRow { id, uuid, created_at, updated_at, name } = row;
    Aggregate { id, uuid, created_at, updated_at, name, hosts, metadata }
}

fn add_host(conn: &mut Conn, aggregate: &Aggregate, host: &str) -> Result<(), DbError> {
    if let Some(zone) = aggregate.availability_zone() {
        zone_is_free(conn, aggregate.id, host, zone)?;
    }
    let row = (hosts::aggregate_id.eq(aggregate.id), hosts::host.eq(host));
    diesel::insert_into(hosts::table).values(row).execute(conn)?;
    Ok(())
}

fn name_is_free(conn: &mut Conn, name: &str) -> Result<(), DbError> {
    let count: i64 = aggregates::table.filter(aggregates::name.eq(name)).count().get_result(conn)?;
    if count > 0 { Err(DbError::Conflict(reason!("Aggregate {name} already exists."))) } else { Ok(()) }
}

fn zone_is_free(conn: &mut Conn, id: i32, host: &str, zone: &str) -> Result<(), DbError> {
    let other: Option<String> = hosts::table
        .inner_join(metadata::table.on(metadata::aggregate_id.eq(hosts::aggregate_id)))
        .filter(hosts::host.eq(host))
        .filter(hosts::aggregate_id.ne(id))
        .filter(metadata::key.eq(ZONE_KEY))
        .filter(metadata::value.ne(zone))
        .select(metadata::value)
        .first(conn)
        .optional()?;
    match other {
        Some(other) => Err(DbError::Conflict(reason!("Host {host} is in availability zone {other} and cannot be in {zone} too"))),
        None => Ok(()),
    }
}

fn put_metadata(conn: &mut Conn, id: i32, key: &str, value: Option<&str>) -> Result<(), DbError> {
    diesel::delete(metadata::table.find((id, key))).execute(conn)?;
    if let Some(value) = value {
        let row = (metadata::aggregate_id.eq(id), metadata::key.eq(key), metadata::value.eq(value));
        diesel::insert_into(metadata::table).values(row).execute(conn)?;
    }
    Ok(())
}
