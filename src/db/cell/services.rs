//! Services: the compute (and other) services of a cell, and their last signs of life.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::schema::{instances, services};
use super::{CellDb, CellTxn};
use crate::db::DbError;
use crate::db::columns::Sql;
use crate::db::row::{self, changes, row};
use crate::domain::service::{Service, ServiceChange, ServiceCounts};

/// The number of services that one statement updates.
const UPDATED_AT_ONCE: usize = 500;
/// The number of services that one statement reads.
const READ_AT_ONCE: usize = 500;

row! {
    #[diesel(table_name = services)]
    ServiceRow of Service {
        #[diesel(skip_insertion)]
        id: i32,
        uuid: Uuid as Sql,
        created_at: DateTime<Utc> as Sql,
        updated_at: Option<DateTime<Utc>> as Sql,
        host: String,
        #[diesel(column_name = binary_name)]
        binary: String,
        topic: String,
        availability_zone: String,
        disabled: bool,
        disabled_reason: Option<String>,
        forced_down: bool,
        forced_down_at: Option<DateTime<Utc>> as Sql,
        agent_heard_at: Option<DateTime<Utc>> as Sql,
        last_seen_up: Option<DateTime<Utc>> as Sql,
        report_count: i32,
        version: i32,
    }
}

changes! {
    #[diesel(table_name = services)]
    ServiceColumns of ServiceChange {
        disabled: Option<bool>,
        disabled_reason: Option<Option<String>>,
        forced_down: Option<bool>,
    }
}

impl CellDb {
    /// Counts the services of this binary. `left_out` names the hosts whose services do not count as seen since that moment.
    pub async fn service_counts(&self, binary: &str, since: DateTime<Utc>, left_out: Vec<String>) -> Result<ServiceCounts, DbError> {
        let binary = binary.to_owned();
        self.db
            .read(move |conn| {
                let all = || services::table.filter(services::binary_name.eq(&binary));
                let never = services::last_seen_up.is_null();
                let lately = services::last_seen_up.ge(Sql(Some(since))).or(never.and(services::created_at.ge(Sql(since))));
                let seen = all().filter(services::forced_down.eq(false)).filter(lately).filter(services::host.ne_all(&left_out));
                let hosts = all().select(services::host.nullable());
                let shown = instances::table.filter(instances::deleted.eq(false)).filter(instances::hidden.eq(false));
                let servers = shown.filter(instances::host.eq_any(hosts));
                Ok(ServiceCounts {
                    total: all().count().get_result(conn)?,
                    disabled: all().filter(services::disabled.eq(true)).count().get_result(conn)?,
                    forced_down: all().filter(services::forced_down.eq(true)).count().get_result(conn)?,
                    seen: seen.count().get_result(conn)?,
                    servers: servers.count().get_result(conn)?,
                })
            })
            .await
    }

    /// Returns all services, ordered by host and binary.
    pub async fn services(&self) -> Result<Vec<Service>, DbError> {
        self.db
            .read(|conn| {
                let ordered = services::table.order((services::host, services::binary_name));
                row::load(conn, ordered.select(ServiceRow::as_select()))
            })
            .await
    }

    /// Succeeds if the database answers and has its tables: a connection alone says nothing about a file.
    pub async fn look(&self) -> Result<(), DbError> {
        self.db
            .read(|conn| {
                services::table.select(services::id).first::<i32>(conn).optional()?;
                Ok(())
            })
            .await
    }

    /// Returns the service with this uuid.
    pub async fn service(&self, uuid: Uuid) -> Result<Service, DbError> {
        self.db
            .read(move |conn| {
                let with_uuid = services::table.filter(services::uuid.eq(Sql(uuid))).select(ServiceRow::as_select());
                row::first(conn, with_uuid)?.ok_or_else(|| DbError::NotFound(format!("Service {uuid}")))
            })
            .await
    }

    /// Returns those services that have one of these uuids, in any order.
    pub async fn services_with(&self, uuids: Vec<Uuid>) -> Result<Vec<Service>, DbError> {
        self.db
            .read(move |conn| {
                let mut list = Vec::new();
                for part in uuids.chunks(READ_AT_ONCE) {
                    let rows = services::table.filter(services::uuid.eq_any(part.iter().copied().map(Sql)));
                    list.extend(row::load::<Service>(conn, rows.select(ServiceRow::as_select()))?);
                }
                Ok(list)
            })
            .await
    }

    /// Returns the services of this kind on these hosts, in any order.
    pub async fn services_on(&self, hosts: Vec<String>, binary: &'static str) -> Result<Vec<Service>, DbError> {
        self.db
            .read(move |conn| {
                let mut list = Vec::new();
                for part in hosts.chunks(READ_AT_ONCE) {
                    let rows = services::table.filter(services::host.eq_any(part)).filter(services::binary_name.eq(binary));
                    list.extend(row::load::<Service>(conn, rows.select(ServiceRow::as_select()))?);
                }
                Ok(list)
            })
            .await
    }

    /// Returns the service on a host.
    pub async fn service_on(&self, host: &str, binary: &str) -> Result<Service, DbError> {
        let (host, binary) = (host.to_owned(), binary.to_owned());
        self.db
            .read(move |conn| {
                let row = services::table.filter(services::host.eq(&host)).filter(services::binary_name.eq(&binary));
                row::first(conn, row.select(ServiceRow::as_select()))?
                    .ok_or_else(|| DbError::NotFound(format!("Service {binary} on host {host}")))
            })
            .await
    }

    /// Commits [`CellTxn::service_change`] alone, for handlers, which name no transaction.
    pub async fn change_service(&self, uuid: Uuid, change: ServiceChange) -> Result<(), DbError> {
        self.apply_unfenced(CellTxn::new().service_change(uuid, change)).await
    }

    /// Removes a service together with the compute nodes of its host, in one commit. [`DbError::NotFound`] if there is no such service; the
    /// nodes stay then.
    pub async fn remove_service(&self, uuid: Uuid, host: &str) -> Result<(), DbError> {
        self.apply_unfenced(CellTxn::new().delete_compute_nodes(host).delete_service(uuid)).await
    }
}

impl CellTxn {
    /// Registers a service that starts: sets its version, topic and zone, and keeps the operators' settings.
    pub fn register_service(self, service: Service) -> CellTxn {
        self.with(move |conn, now| {
            let row =
                services::table.filter(services::host.eq(service.host.clone())).filter(services::binary_name.eq(service.binary.clone()));
            let set = (
                services::version.eq(service.version),
                services::topic.eq(service.topic.clone()),
                services::availability_zone.eq(service.availability_zone.clone()),
                services::updated_at.eq(Sql(Some(now))),
            );
            if diesel::update(row).set(set).execute(conn)? == 0 {
                diesel::insert_into(services::table).values(ServiceRow::from(service)).execute(conn)?;
            }
            Ok(())
        })
    }

    /// Records that the service on this host lives now. The first report adds the service. Operators' settings stay.
    pub fn service_reports(self, service: Service) -> CellTxn {
        self.with(move |conn, now| {
            let row =
                services::table.filter(services::host.eq(service.host.clone())).filter(services::binary_name.eq(service.binary.clone()));
            let set = (
                services::version.eq(service.version),
                services::last_seen_up.eq(Sql(Some(now))),
                services::updated_at.eq(Sql(Some(now))),
                services::report_count.eq(services::report_count + 1),
            );
            if diesel::update(row).set(set).execute(conn)? == 0 {
                diesel::insert_into(services::table).values(ServiceRow::from(service)).execute(conn)?;
            }
            Ok(())
        })
    }

    /// Records that these services live now. A service that is gone is passed over.
    pub fn services_seen(self, uuids: Vec<Uuid>) -> CellTxn {
        self.with(move |conn, now| {
            for part in uuids.chunks(UPDATED_AT_ONCE) {
                let set = (
                    services::last_seen_up.eq(Sql(Some(now))),
                    services::updated_at.eq(Sql(Some(now))),
                    services::report_count.eq(services::report_count + 1),
                );
                let rows = services::table.filter(services::uuid.eq_any(part.iter().copied().map(Sql)));
                diesel::update(rows).set(set).execute(conn)?;
            }
            Ok(())
        })
    }

    /// Changes a service for an operator.
    pub fn service_change(self, uuid: Uuid, change: ServiceChange) -> CellTxn {
        self.with(move |conn, now| {
            let row = || services::table.filter(services::uuid.eq(Sql(uuid)));
            if change.forced_down == Some(true) {
                diesel::update(row()).set(services::forced_down_at.eq(Sql(Some(now)))).execute(conn)?;
            }
            match diesel::update(row()).set((ServiceColumns::from(change), services::updated_at.eq(Sql(Some(now))))).execute(conn)? {
                0 => Err(DbError::NotFound(format!("Service {uuid}"))),
                _ => Ok(()),
            }
        })
    }

    /// Removes a service. [`DbError::NotFound`] if there is none.
    pub fn delete_service(self, uuid: Uuid) -> CellTxn {
        self.with(move |conn, _| match diesel::delete(services::table.filter(services::uuid.eq(Sql(uuid)))).execute(conn)? {
            0 => Err(DbError::NotFound(format!("Service {uuid}"))),
            _ => Ok(()),
        })
    }
}
