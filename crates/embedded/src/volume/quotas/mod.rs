//! Limits of projects. Nothing is limited until an administrator sets a limit: of a project, or of the class that holds for projects without
//! their own.

pub(super) mod records;
pub(super) mod routes;

use std::collections::BTreeMap;

use cellshift_domain::quota_grant::QuotaGrant;
use cellshift_domain::reason;
use cellshift_store::Conn;

use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use crate::volume::backups::records::{BackupGigabytes, BackupRow};
use crate::volume::snapshots::records::SnapshotRow;
use crate::volume::volumes::records::{Gigabytes, VolumeRow};
use crate::volume::{EmbeddedVolume, backups, rows, snapshots, volume_types};

/// The limited resources: the numbers of volumes and of snapshots and the sum of their sizes in GiB, both of backups, and the size of one
/// volume. Each volume type has [`OF_TYPES`] besides.
pub const QUOTA_RESOURCES: [&str; 6] = ["volumes", "snapshots", "gigabytes", "backups", "backup_gigabytes", LARGEST_VOLUME];
/// The resources that each volume type has under `<resource>_<type>`.
pub const OF_TYPES: [&str; 3] = ["volumes", "snapshots", "gigabytes"];
/// The largest volume, in GiB.
const LARGEST_VOLUME: &str = "per_volume_gigabytes";
/// The class that holds for projects without their own limits.
const DEFAULT_CLASS: &str = "default";

/// A limit, and the used amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuotaUsage {
    /// -1 means no limit.
    pub limit: i64,
    pub in_use: i64,
}

/// The usage by resource.
type Usage = BTreeMap<String, QuotaUsage>;

impl EmbeddedVolume {
    /// Returns a project's limits and usage, by resource.
    pub async fn quotas(&self, project: &str) -> Result<Usage, ServiceError> {
        let project = project.to_owned();
        self.read(move |conn| usage(conn, &project)).await
    }

    /// Returns the limits of projects without their own, by resource.
    pub async fn default_quotas(&self) -> Result<BTreeMap<String, i64>, ServiceError> {
        self.read(default_limits).await
    }

    /// Sets the given limits and leaves the others: a project's, or without a project the defaults.
    pub async fn set_quotas(&self, project: Option<&str>, limits: BTreeMap<String, i64>) -> Result<(), ServiceError> {
        let project = project.map(str::to_owned);
        self.write(None, move |conn| {
            let defaults = default_limits(conn)?;
            for (resource, limit) in &limits {
                if !defaults.contains_key(resource) || *limit < -1 {
                    let names = defaults.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                    return Err(ServiceError::Invalid(reason!("Bad quota: {resource} = {limit} ({names:.500}: -1 or more).")).into());
                }
                match &project {
                    Some(project) => records::set(conn, project, resource, *limit)?,
                    None => records::set_of_class(conn, DEFAULT_CLASS, resource, *limit)?,
                }
            }
            Ok(())
        })
        .await
    }

    /// Removes a project's own limits.
    pub async fn reset_quotas(&self, project: &str) -> Result<(), ServiceError> {
        let project = project.to_owned();
        self.write(None, move |conn| Ok(records::delete(conn, &project)?)).await
    }
}

/// Gives the limits of a renamed type its new name.
pub(super) fn rename_type(conn: &mut Conn, old: &str, new: &str) -> Result<(), TransactionError> {
    for resource in OF_TYPES {
        records::rename(conn, &of_type(resource, old), &of_type(resource, new))?;
    }
    Ok(())
}

/// Removes the limits of a deleted type.
pub(super) fn forget_type(conn: &mut Conn, name: &str) -> Result<(), TransactionError> {
    for resource in OF_TYPES {
        records::delete_resource(conn, &of_type(resource, name))?;
    }
    Ok(())
}

fn of_type(resource: &str, name: &str) -> String {
    format!("{resource}_{name}")
}

/// Grants a volume of this size and type. Refused if it would exceed a limit.
pub(super) fn take_volume(
    conn: &mut Conn,
    project: &str,
    size_gb: i32,
    volume_type: Option<&str>,
) -> Result<(QuotaGrant<VolumeRow>, QuotaGrant<Gigabytes>), TransactionError> {
    let usage = usage(conn, project)?;
    check_size(&usage, size_gb)?;
    let gigabytes = grant_of_type(&usage, "gigabytes", volume_type, i64::from(size_gb))?;
    Ok((grant_of_type(&usage, "volumes", volume_type, 1)?, gigabytes))
}

/// Grants a snapshot of a volume of this size and type. Refused if it would exceed a limit.
pub(super) fn take_snapshot(
    conn: &mut Conn,
    project: &str,
    size_gb: i32,
    volume_type: Option<&str>,
) -> Result<(QuotaGrant<SnapshotRow>, QuotaGrant<Gigabytes>), TransactionError> {
    let usage = usage(conn, project)?;
    let gigabytes = grant_of_type(&usage, "gigabytes", volume_type, i64::from(size_gb))?;
    Ok((grant_of_type(&usage, "snapshots", volume_type, 1)?, gigabytes))
}

/// Grants a snapshot of each of these volumes. Refused if they would exceed a limit.
pub(super) fn take_snapshots(conn: &mut Conn, project: &str, of: &[VolumeRow]) -> Result<QuotaGrant<SnapshotRow>, TransactionError> {
    let usage = usage(conn, project)?;
    let mut by_type: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for volume in of {
        let (count, gigabytes) = by_type.entry(volume.volume_type.as_deref().unwrap_or_default()).or_default();
        (*count, *gigabytes) = (*count + 1, *gigabytes + i64::from(volume.size_gb));
    }
    for (name, (count, gigabytes)) in by_type.iter().filter(|(name, _)| !name.is_empty()) {
        let _: QuotaGrant<Gigabytes> = grant(&usage, &of_type("gigabytes", name), *gigabytes)?;
        let _: QuotaGrant<SnapshotRow> = grant(&usage, &of_type("snapshots", name), *count)?;
    }
    let _: QuotaGrant<Gigabytes> = grant(&usage, "gigabytes", by_type.values().map(|(_, gigabytes)| gigabytes).sum())?;
    grant(&usage, "snapshots", by_type.values().map(|(count, _)| count).sum())
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

/// Grants a volume's growth to this size. Refused if it would exceed a limit.
pub(super) fn take_growth(conn: &mut Conn, volume: &VolumeRow, size_gb: i32) -> Result<QuotaGrant<Gigabytes>, TransactionError> {
    let usage = usage(conn, &volume.project_id)?;
    check_size(&usage, size_gb)?;
    grant_of_type(&usage, "gigabytes", volume.volume_type.as_deref(), i64::from(size_gb - volume.size_gb))
}

/// Refuses a volume that is larger than any may be.
fn check_size(usage: &Usage, size_gb: i32) -> Result<(), TransactionError> {
    match usage.get(LARGEST_VOLUME).map(|size| size.limit) {
        Some(limit) if limit >= 0 && i64::from(size_gb) > limit => {
            let message = reason!("Requested volume size {size_gb}G is larger than maximum allowed limit {limit}G.");
            Err(ServiceError::Invalid(message).into())
        }
        _ => Ok(()),
    }
}

/// Grants under the limit of the type and under that of all types.
fn grant_of_type<T>(usage: &Usage, resource: &str, name: Option<&str>, amount: i64) -> Result<QuotaGrant<T>, TransactionError> {
    if let Some(name) = name {
        let _: QuotaGrant<T> = grant(usage, &of_type(resource, name), amount)?;
    }
    grant(usage, resource, amount)
}

fn grant<T>(usage: &Usage, resource: &str, amount: i64) -> Result<QuotaGrant<T>, TransactionError> {
    let QuotaUsage { limit, in_use } = usage.get(resource).copied().unwrap_or(QuotaUsage { limit: -1, in_use: 0 });
    QuotaGrant::within(limit, in_use, amount).ok_or_else(|| {
        let message = reason!("Requested {resource} exceed the allowed quota. Requested {amount}, quota is {limit} and {in_use} is taken.");
        ServiceError::OverLimit(message).into()
    })
}

/// Returns the limits of projects without their own: -1 unless the class says something else.
fn default_limits(conn: &mut Conn) -> Result<BTreeMap<String, i64>, TransactionError> {
    let types = volume_types::ids_by_name(conn)?;
    let of_types = types.keys().flat_map(|name| OF_TYPES.into_iter().map(move |resource| of_type(resource, name)));
    let all = QUOTA_RESOURCES.into_iter().map(str::to_owned).chain(of_types);
    let mut limits: BTreeMap<String, i64> = all.map(|resource| (resource, -1)).collect();
    for (resource, limit) in records::of_class(conn, DEFAULT_CLASS)? {
        limits.entry(resource).and_modify(|default| *default = limit);
    }
    Ok(limits)
}

fn usage(conn: &mut Conn, project: &str) -> Result<Usage, TransactionError> {
    let limits = default_limits(conn)?;
    let own: BTreeMap<String, i64> = records::of_project(conn, project)?.into_iter().collect();
    let with_limit = |(resource, default)| {
        let limit = own.get(&resource).copied().unwrap_or(default);
        (resource, QuotaUsage { limit, in_use: 0 })
    };
    let mut usage: Usage = limits.into_iter().map(with_limit).collect();
    let mut use_up = |resource: &str, name: Option<&str>, amount: i64| {
        for resource in [Some(resource.to_owned()), name.map(|name| of_type(resource, name))].into_iter().flatten() {
            usage.entry(resource).and_modify(|usage_of_resource| usage_of_resource.in_use += amount);
        }
    };
    let volumes = rows::list(conn, Some(project))?;
    for volume in &volumes {
        let name = volume.volume_type.as_deref();
        use_up("volumes", name, 1);
        use_up("gigabytes", name, i64::from(volume.size_gb));
    }
    let types: BTreeMap<String, Option<String>> = volumes.into_iter().map(|volume| (volume.id, volume.volume_type)).collect();
    for snapshot in snapshots::records::list(conn, Some(project))? {
        let name = match types.get(&snapshot.volume_id) {
            Some(name) => name.clone(),
            // The snapshot stayed behind when its volume went to another project.
            None => rows::by_id(conn, &snapshot.volume_id)?.and_then(|volume| volume.volume_type),
        };
        use_up("snapshots", name.as_deref(), 1);
        use_up("gigabytes", name.as_deref(), i64::from(snapshot.size_gb));
    }
    for backup in backups::records::list(conn, Some(project))? {
        use_up("backups", None, 1);
        use_up("backup_gigabytes", None, i64::from(backup.size_gb));
    }
    Ok(usage)
}
