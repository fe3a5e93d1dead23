//! Limits of projects. Nothing is limited until an administrator sets a limit.

use std::collections::BTreeMap;

use super::{EmbeddedVolume, rows};
use crate::db::Conn;
use crate::db::services::volume::backups::{BackupGigabytes, BackupRow};
use crate::db::services::volume::snapshots::SnapshotRow;
use crate::db::services::volume::{Gigabytes, VolumeRow};
use crate::domain::quota_grant::QuotaGrant;
use crate::services::ServiceError;
use crate::services::transaction::{TransactionError, Transactions};

/// The limited resources: the numbers of volumes and of snapshots and the sum of their sizes in GiB, and both of backups.
pub const QUOTA_RESOURCES: [&str; 5] = ["volumes", "snapshots", "gigabytes", "backups", "backup_gigabytes"];

/// A limit, and the used amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuotaUsage {
    /// -1 means no limit.
    pub limit: i64,
    pub in_use: i64,
}

impl EmbeddedVolume {
    /// Returns a project's limits and usage, by resource.
    pub async fn quotas(&self, project: &str) -> Result<BTreeMap<&'static str, QuotaUsage>, ServiceError> {
        let project = project.to_owned();
        self.read(move |conn| usage(conn, &project)).await
    }

    /// Sets the given limits and leaves the others.
    pub async fn set_quotas(&self, project: &str, limits: BTreeMap<String, i64>) -> Result<(), ServiceError> {
        for (resource, limit) in &limits {
            if !QUOTA_RESOURCES.contains(&resource.as_str()) || *limit < -1 {
                return Err(ServiceError::Invalid(format!(
                    "Bad quota: {resource} = {limit} ({}, -1 or more).",
                    QUOTA_RESOURCES.join(", ")
                )));
            }
        }
        let project = project.to_owned();
        self.write(None, move |conn| {
            for (resource, limit) in &limits {
                rows::set_quota(conn, &project, resource, *limit)?;
            }
            Ok(())
        })
        .await
    }

    /// Removes a project's own limits.
    pub async fn reset_quotas(&self, project: &str) -> Result<(), ServiceError> {
        let project = project.to_owned();
        self.write(None, move |conn| Ok(rows::delete_quotas(conn, &project)?)).await
    }
}

/// Grants a volume of this size. Refused if it would exceed a limit.
pub(super) fn take_volume(
    conn: &mut Conn,
    project: &str,
    size_gb: i32,
) -> Result<(QuotaGrant<VolumeRow>, QuotaGrant<Gigabytes>), TransactionError> {
    let usage = usage(conn, project)?;
    let gigabytes = grant(&usage, "gigabytes", i64::from(size_gb))?;
    Ok((grant(&usage, "volumes", 1)?, gigabytes))
}

/// Grants a snapshot of a volume of this size. Refused if it would exceed a limit.
pub(super) fn take_snapshot(
    conn: &mut Conn,
    project: &str,
    size_gb: i32,
) -> Result<(QuotaGrant<SnapshotRow>, QuotaGrant<Gigabytes>), TransactionError> {
    let usage = usage(conn, project)?;
    let gigabytes = grant(&usage, "gigabytes", i64::from(size_gb))?;
    Ok((grant(&usage, "snapshots", 1)?, gigabytes))
}

/// Grants snapshots of these sizes. Refused if they would exceed a limit.
pub(super) fn take_snapshots(conn: &mut Conn, project: &str, sizes: &[i32]) -> Result<QuotaGrant<SnapshotRow>, TransactionError> {
    let usage = usage(conn, project)?;
    let _: QuotaGrant<Gigabytes> = grant(&usage, "gigabytes", sizes.iter().copied().map(i64::from).sum())?;
    grant(&usage, "snapshots", i64::try_from(sizes.len()).unwrap_or(i64::MAX))
}

/// Grants a backup of this size. Refused if it would exceed a limit.
pub(super) fn take_backup(
    conn: &mut Conn,
    project: &str,
    size_gb: i32,
) -> Result<(QuotaGrant<BackupRow>, QuotaGrant<BackupGigabytes>), TransactionError> {
    let usage = usage(conn, project)?;
    let gigabytes = grant(&usage, "backup_gigabytes", i64::from(size_gb))?;
    Ok((grant(&usage, "backups", 1)?, gigabytes))
}

/// Grants a volume's growth. Refused if it would exceed the limit.
pub(super) fn take_gigabytes(conn: &mut Conn, project: &str, more: i32) -> Result<QuotaGrant<Gigabytes>, TransactionError> {
    grant(&usage(conn, project)?, "gigabytes", i64::from(more))
}

fn grant<T>(usage: &BTreeMap<&'static str, QuotaUsage>, resource: &'static str, wanted: i64) -> Result<QuotaGrant<T>, TransactionError> {
    let QuotaUsage { limit, in_use } = usage[resource];
    QuotaGrant::within(limit, in_use, wanted).ok_or_else(|| {
        let message = format!("Requested {resource} exceed the allowed quota. Requested {wanted}, quota is {limit} and {in_use} is taken.");
        ServiceError::OverLimit(message).into()
    })
}

fn usage(conn: &mut Conn, project: &str) -> Result<BTreeMap<&'static str, QuotaUsage>, TransactionError> {
    let limits: BTreeMap<String, i64> = rows::quotas(conn, project)?.into_iter().collect();
    let volumes: Vec<i32> = rows::list(conn, Some(project))?.into_iter().map(|volume| volume.size_gb).collect();
    let snapshots: Vec<i32> = rows::snapshots::list(conn, Some(project))?.into_iter().map(|snapshot| snapshot.size_gb).collect();
    let backups: Vec<i32> = rows::backups::list(conn, Some(project))?.into_iter().map(|backup| backup.size_gb).collect();
    let in_use = |resource| match resource {
        "volumes" => volumes.len() as i64,
        "snapshots" => snapshots.len() as i64,
        "backups" => backups.len() as i64,
        "backup_gigabytes" => backups.iter().copied().map(i64::from).sum(),
        _ => volumes.iter().chain(&snapshots).copied().map(i64::from).sum(),
    };
    let of =
        |resource: &'static str| (resource, QuotaUsage { limit: limits.get(resource).copied().unwrap_or(-1), in_use: in_use(resource) });
    Ok(QUOTA_RESOURCES.into_iter().map(of).collect())
}
