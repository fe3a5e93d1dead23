//! QoS specs of volume types. They are only kept and shown: nothing limits the traffic to a volume.

pub(super) mod records;
pub(super) mod routes;

use std::collections::BTreeMap;

use cellshift_domain::reason;
use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError};
use uuid::Uuid;

use self::records::QosRow;
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use crate::volume::{EmbeddedVolume, VolumeType, volume_types};

/// QoS specs.
#[derive(Clone, PartialEq, Debug)]
pub struct QosSpecs {
    pub id: Uuid,
    pub name: String,
    /// `front-end`, `back-end` or `both`.
    pub consumer: String,
    pub specs: BTreeMap<String, String>,
    pub created_at: chrono::DateTime<chrono::Utc>,
}

impl EmbeddedVolume {
    /// Stores new specs. Conflict if the name is taken.
    pub async fn create_qos(&self, name: String, consumer: String, specs: BTreeMap<String, String>) -> Result<QosSpecs, ServiceError> {
        let (id, now) = (self.env.uuid(), self.env.now().naive_utc());
        self.write(None, move |conn| {
            let specs = serde_json::to_string(&specs).map_err(DbError::from)?;
            let row = QosRow { id: id.to_string(), name, consumer, specs, created_at: now };
            records::insert(conn, &row).map_err(|error| match error {
                DbError::Conflict(_) => ServiceError::Conflict(reason!("QoS Specs {} already exists.", row.name)).into(),
                other => TransactionError::from(other),
            })?;
            Ok(from_row(row)?)
        })
        .await
    }

    /// Returns all specs, newest first.
    pub async fn list_qos(&self) -> Result<Vec<QosSpecs>, ServiceError> {
        self.read(|conn| Ok(records::list(conn)?.into_iter().map(from_row).collect::<Result<_, DbError>>()?)).await
    }

    /// Returns the specs with this id.
    pub async fn qos(&self, id: Uuid) -> Result<QosSpecs, ServiceError> {
        self.read(move |conn| Ok(from_row(records::by_id(conn, &id.to_string())?.ok_or_else(|| no_specs(id))?)?)).await
    }

    /// Changes specs, in one transaction.
    pub async fn change_qos<F>(&self, id: Uuid, change: F) -> Result<QosSpecs, ServiceError>
    where
        F: FnOnce(&mut QosSpecs) -> Result<(), ServiceError> + Send + 'static,
    {
        self.write(None, move |conn| {
            let mut changed = from_row(locked(conn, id)?)?;
            change(&mut changed)?;
            let QosSpecs { name, consumer, specs, created_at, .. } = changed.clone();
            let specs = serde_json::to_string(&specs).map_err(DbError::from)?;
            records::update(conn, &QosRow { id: id.to_string(), name, consumer, specs, created_at: created_at.naive_utc() })?;
            Ok(changed)
        })
        .await
    }

    /// Deletes specs. Invalid while types have them, unless `force` takes them from the types.
    pub async fn delete_qos(&self, id: Uuid, force: bool) -> Result<(), ServiceError> {
        self.write(None, move |conn| {
            let row = locked(conn, id)?;
            if !force && !records::types_of(conn, &row.id)?.is_empty() {
                return Err(ServiceError::Invalid("Qos specs still in use.".into()).into());
            }
            records::disassociate_all(conn, &row.id)?;
            Ok(records::delete(conn, &row.id)?)
        })
        .await
    }

    /// Returns the types that have these specs.
    pub async fn types_of_qos(&self, id: Uuid) -> Result<Vec<VolumeType>, ServiceError> {
        self.read(move |conn| {
            records::by_id(conn, &id.to_string())?.ok_or_else(|| no_specs(id))?;
            let types = records::types_of(conn, &id.to_string())?;
            Ok(types.into_iter().map(volume_types::from_row).collect::<Result<_, DbError>>()?)
        })
        .await
    }

    /// Gives a type these specs. Invalid if it has others.
    pub async fn associate_qos(&self, id: Uuid, type_id: Uuid) -> Result<(), ServiceError> {
        self.write(None, move |conn| {
            let row = locked(conn, id)?;
            let of_type = volume_types::locked(conn, type_id)?;
            if let Some(other) = of_type.qos_specs_id.filter(|other| *other != row.id) {
                let why = reason!("Invalid volume type: Type {type_id} is already associated with another qos specs: {other}");
                return Err(ServiceError::Invalid(why).into());
            }
            Ok(records::set_of_type(conn, &of_type.id, Some(&row.id))?)
        })
        .await
    }

    /// Takes the specs from this type, or from all types. Does nothing to a type without them.
    pub async fn disassociate_qos(&self, id: Uuid, type_id: Option<Uuid>) -> Result<(), ServiceError> {
        self.write(None, move |conn| {
            let row = locked(conn, id)?;
            let Some(type_id) = type_id else { return Ok(records::disassociate_all(conn, &row.id)?) };
            let of_type = volume_types::locked(conn, type_id)?;
            match of_type.qos_specs_id.as_ref() == Some(&row.id) {
                true => Ok(records::set_of_type(conn, &of_type.id, None)?),
                false => Ok(()),
            }
        })
        .await
    }
}

/// Locks the row of the specs for the rest of the transaction, and returns it.
fn locked(conn: &mut Conn, id: Uuid) -> Result<QosRow, TransactionError> {
    Ok(records::take(conn, &id.to_string())?.ok_or_else(|| no_specs(id))?)
}

fn no_specs(id: Uuid) -> ServiceError {
    ServiceError::NotFound(reason!("No such QoS spec {id}."))
}

fn from_row(row: QosRow) -> Result<QosSpecs, DbError> {
    Ok(QosSpecs {
        id: read_id("volume_qos_specs.id", &row.id)?,
        name: row.name,
        consumer: row.consumer,
        specs: serde_json::from_str(&row.specs)?,
        created_at: row.created_at.and_utc(),
    })
}
