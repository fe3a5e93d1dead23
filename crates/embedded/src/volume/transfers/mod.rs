//! Transfers: a project offers a volume, and whoever knows the offer's key takes it into another project.

pub(super) mod records;
pub(super) mod routes;

use cellshift_domain::context::RequestContext;
use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use self::records::TransferRow;
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use crate::volume::attachments::refuse_attached;
use crate::volume::rules::{may_use, read_all};
use crate::volume::{EmbeddedVolume, quotas, rows, snapshots, volume_types};

/// The status of an offered volume: nothing else may use it.
const AWAITING: &str = "awaiting-transfer";
/// The length of a key, in hexadecimal digits.
const KEY_LENGTH: usize = 16;

/// An offer of a volume.
#[derive(Clone, PartialEq, Debug)]
pub struct Transfer {
    pub id: Uuid,
    pub volume_id: Uuid,
    pub name: Option<String>,
    /// The project that offers the volume.
    pub project_id: String,
    /// The volume's snapshots stay with the project.
    pub no_snapshots: bool,
    pub created_at: chrono::DateTime<chrono::Utc>,
}

impl EmbeddedVolume {
    /// Offers one of the caller's volumes. Returns the offer and its key, which is not kept. Conflict unless the volume is available.
    pub async fn create_transfer(
        &self,
        caller: &RequestContext,
        volume: Uuid,
        name: Option<String>,
        no_snapshots: bool,
    ) -> Result<(Transfer, String), ServiceError> {
        let (id, now) = (self.env.uuid(), self.env.now().naive_utc());
        let key: String = self.env.uuid().simple().to_string().chars().take(KEY_LENGTH).collect();
        let key_sha256 = sha256(&key);
        let offer = move |conn: &mut Conn, row: &mut rows::VolumeRow| {
            refuse_attached(conn, row)?;
            if !rows::set_status(conn, &row.id, &["available"], AWAITING, now)? {
                let message = format!("Invalid volume: status must be available, but volume {volume} is {}.", row.status);
                return Err(ServiceError::Conflict(Reason::public(message)).into());
            }
            let (volume_id, project_id) = (row.id.clone(), row.project_id.clone());
            let transfer = TransferRow { id: id.to_string(), volume_id, name, project_id, key_sha256, no_snapshots, created_at: now };
            // The offer of a volume whose status an administrator has reset is void.
            records::delete_of_volume(conn, &row.id)?;
            Ok(records::insert(conn, &transfer)?)
        };
        self.change(caller, volume, offer).await?;
        Ok((self.own_transfer(caller, id).await?, key))
    }

    /// Returns the offers of a project, or all, newest first.
    pub async fn transfers(&self, project: Option<&str>) -> Result<Vec<Transfer>, ServiceError> {
        let project = project.map(str::to_owned);
        self.read(move |conn| read_all(records::list(conn, project.as_deref())?, from_row)).await
    }

    /// Returns an offer of the caller's project, or any to an administrator.
    pub async fn own_transfer(&self, caller: &RequestContext, id: Uuid) -> Result<Transfer, ServiceError> {
        let caller = caller.clone();
        self.read(move |conn| Ok(from_row(own(conn, &caller, id)?)?)).await
    }

    /// Withdraws an offer: the volume is available again.
    pub async fn delete_transfer(&self, caller: &RequestContext, id: Uuid) -> Result<(), ServiceError> {
        let (caller, now) = (caller.clone(), self.env.now().naive_utc());
        self.write(None, move |conn| {
            let volume = own(conn, &caller, id)?.volume_id;
            // The volume's row goes first, as in all transactions that change it.
            rows::take(conn, &volume, now)?;
            if records::delete(conn, &id.to_string())? {
                rows::set_status(conn, &volume, &[AWAITING], "available", now)?;
            }
            Ok(())
        })
        .await
    }

    /// Takes an offered volume into the caller's project, with its snapshots unless the offer says otherwise. Invalid for a wrong key;
    /// OverLimit if the project's quota does not allow it.
    pub async fn accept_transfer(&self, caller: &RequestContext, id: Uuid, key: &str) -> Result<Transfer, ServiceError> {
        let (caller, key_sha256, now) = (caller.clone(), sha256(key), self.env.now().naive_utc());
        self.write(None, move |conn| {
            let key = id.to_string();
            let offer = records::by_id(conn, &key)?.ok_or_else(|| no_transfer(id))?;
            if offer.key_sha256 != key_sha256 {
                return Err(ServiceError::Invalid(reason!("Attempt to transfer {id} with invalid auth key.")).into());
            }
            let row = rows::take(conn, &offer.volume_id, now)?.ok_or_else(|| no_transfer(id))?;
            // Another may have taken it while this waited for the row.
            if !records::delete(conn, &key)? || !rows::set_status(conn, &row.id, &[AWAITING], "available", now)? {
                return Err(no_transfer(id).into());
            }
            if let Some(name) = &row.volume_type {
                volume_types::usable(conn, &caller, name)?;
            }
            let (place, gigabytes) = quotas::take_volume(conn, &caller.project_id, row.size_gb, row.volume_type.as_deref())?;
            records::give(conn, place, gigabytes, &row.id, &caller.project_id, &caller.user_id)?;
            if !offer.no_snapshots {
                let snapshots = snapshots::records::of_volume(conn, &row.id)?;
                let moved: Vec<_> = snapshots.iter().map(|moved| rows::VolumeRow { size_gb: moved.size_gb, ..row.clone() }).collect();
                let granted = quotas::take_snapshots(conn, &caller.project_id, &moved)?;
                records::give_snapshots(conn, granted, &row.id, &caller.project_id, &caller.user_id)?;
            }
            Ok(from_row(offer)?)
        })
        .await
    }
}

fn own(conn: &mut Conn, caller: &RequestContext, id: Uuid) -> Result<TransferRow, TransactionError> {
    let row = records::by_id(conn, &id.to_string())?;
    let own = row.filter(|transfer| may_use(caller, &transfer.project_id));
    own.ok_or_else(|| no_transfer(id).into())
}

fn no_transfer(id: Uuid) -> ServiceError {
    ServiceError::NotFound(reason!("Transfer {id} could not be found."))
}

fn sha256(key: &str) -> String {
    hex::encode(Sha256::digest(key.as_bytes()))
}

fn from_row(row: TransferRow) -> Result<Transfer, DbError> {
    Ok(Transfer {
        id: read_id("volume_transfers.id", &row.id)?,
        volume_id: read_id("volume_transfers.volume_id", &row.volume_id)?,
        name: row.name,
        project_id: row.project_id,
        no_snapshots: row.no_snapshots,
        created_at: row.created_at.and_utc(),
    })
}
