//! Volume types. At the beginning there are two: one for single servers, one for shared volumes.

pub(super) mod records;
pub(super) mod routes;

use std::collections::BTreeMap;

use cellshift_domain::context::RequestContext;
use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError};
use uuid::Uuid;

use self::records::TypeRow;
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use crate::volume::rules::change_texts;
use crate::volume::{EmbeddedVolume, default_types, quotas, rows};
pub use cellshift_neighbours::volume::DEFAULT_OF_PROJECT;

/// The default type: a file on this machine. A project has it unless another is set.
pub const DEFAULT_TYPE: &str = "local";
/// The type of volumes that several servers may share.
pub const MULTIATTACH_TYPE: &str = "local-multiattach";
/// The extra spec by which a type says that several servers may share its volumes, and its value.
const MULTIATTACH: (&str, &str) = ("multiattach", "<is> True");

/// A volume type.
#[derive(Clone, PartialEq, Debug)]
pub struct VolumeType {
    pub id: Uuid,
    pub name: String,
    pub description: Option<String>,
    /// Every project may use it. Otherwise only the projects that were given access, and administrators.
    pub is_public: bool,
    pub extra_specs: BTreeMap<String, String>,
    /// The type's QoS specs.
    pub qos_specs_id: Option<Uuid>,
}

impl VolumeType {
    /// True if several servers may share a volume of this type.
    pub fn is_multiattach(&self) -> bool {
        self.extra_specs.get(MULTIATTACH.0).is_some_and(|value| value == MULTIATTACH.1)
    }
}

/// A change of a type. `None` leaves a field unchanged; `Some(None)` clears it.
#[derive(Clone, Default, Debug)]
pub struct TypeUpdate {
    pub name: Option<String>,
    pub description: Option<Option<String>>,
    pub is_public: Option<bool>,
}

impl EmbeddedVolume {
    /// Returns the types that a caller may use, oldest first. An administrator may use all.
    pub async fn types(&self, caller: &RequestContext) -> Result<Vec<VolumeType>, ServiceError> {
        let caller = caller.clone();
        self.read(move |conn| {
            let granted = records::of_project(conn, &caller.project_id)?;
            let mut rows = records::list(conn)?;
            rows.retain(|row| row.is_public || caller.is_admin() || granted.contains(&row.id));
            Ok(rows.into_iter().map(from_row).collect::<Result<_, DbError>>()?)
        })
        .await
    }

    /// Returns the type with this id or name if the caller may use it. [`DEFAULT_OF_PROJECT`] names the default type of the caller's project.
    pub async fn usable_type(&self, caller: &RequestContext, id_or_name: &str) -> Result<VolumeType, ServiceError> {
        let (caller, name) = (caller.clone(), id_or_name.to_owned());
        self.read(move |conn| usable(conn, &caller, &name)).await
    }

    /// Stores a new type. Conflict if the name is taken.
    pub async fn create_type(&self, new: VolumeType) -> Result<VolumeType, ServiceError> {
        let now = self.env.now().naive_utc();
        self.write(None, move |conn| {
            let row = TypeRow {
                id: new.id.to_string(),
                name: new.name,
                description: new.description,
                is_public: new.is_public,
                extra_specs: serde_json::to_string(&new.extra_specs).map_err(DbError::from)?,
                created_at: now,
                qos_specs_id: None,
            };
            records::insert(conn, &row).map_err(|error| name_conflict(error, &row.name))?;
            Ok(from_row(row)?)
        })
        .await
    }

    /// Changes a type. Conflict if the new name is taken.
    pub async fn update_type(&self, id: Uuid, update: TypeUpdate) -> Result<VolumeType, ServiceError> {
        self.change_type(id, move |row| {
            if row.name == DEFAULT_TYPE && update.name.as_ref().is_some_and(|name| name != DEFAULT_TYPE) {
                return Err(ServiceError::Invalid(reason!("The default type keeps its name, {DEFAULT_TYPE}.")).into());
            }
            row.name = update.name.unwrap_or(std::mem::take(&mut row.name));
            row.description = update.description.unwrap_or(row.description.take());
            row.is_public = update.is_public.unwrap_or(row.is_public);
            Ok(())
        })
        .await
    }

    /// Changes a type's extra specs, in one transaction. Volumes that exist keep what the type said when they were made.
    pub async fn change_extra_specs<F>(&self, id: Uuid, change: F) -> Result<VolumeType, ServiceError>
    where
        F: FnOnce(&mut BTreeMap<String, String>) -> Result<(), ServiceError> + Send + 'static,
    {
        self.change_type(id, move |row| change_texts(&mut row.extra_specs, change)).await
    }

    /// Deletes a type. Refused while volumes have it, and for the default types of the deployment and of projects.
    pub async fn delete_type(&self, id: Uuid) -> Result<(), ServiceError> {
        self.write(None, move |conn| {
            let row = locked(conn, id)?;
            if row.name == DEFAULT_TYPE {
                return Err(ServiceError::Invalid(reason!("The default volume type {DEFAULT_TYPE} cannot be deleted.")).into());
            }
            if default_types::records::used(conn, &row.id)? > 0 {
                return Err(ServiceError::Invalid(reason!("The volume type {id} is a default volume type and cannot be deleted.")).into());
            }
            if records::used(conn, &row.name)? > 0 {
                return Err(ServiceError::Invalid("Target volume type is still in use.".into()).into());
            }
            quotas::forget_type(conn, &row.name)?;
            Ok(records::delete(conn, &row.id)?)
        })
        .await
    }

    /// Returns the projects that may use a type that is not public.
    pub async fn projects_of_type(&self, id: Uuid) -> Result<Vec<String>, ServiceError> {
        self.read(move |conn| Ok(records::projects(conn, &id.to_string())?)).await
    }

    /// Gives a project access to a type. Conflict if it has it, or if the type is public.
    pub async fn grant_type(&self, id: Uuid, project: &str) -> Result<(), ServiceError> {
        let project = project.to_owned();
        self.write(None, move |conn| {
            let row = locked(conn, id)?;
            if row.is_public {
                let why = "Type access modification is not applicable to public volume type.";
                return Err(ServiceError::Conflict(why.into()).into());
            }
            records::add_project(conn, &row.id, &project).map_err(|error| match error {
                DbError::Conflict(_) => {
                    let why = format!("Volume type access for {id} / {project} combination already exists.");
                    TransactionError::from(ServiceError::Conflict(Reason::public(why)))
                }
                other => other.into(),
            })
        })
        .await
    }

    /// Takes a project's access to a type away. NotFound if it has none.
    pub async fn revoke_type(&self, id: Uuid, project: &str) -> Result<(), ServiceError> {
        let project = project.to_owned();
        self.write(None, move |conn| {
            let row = locked(conn, id)?;
            match records::remove_project(conn, &row.id, &project)? {
                true => Ok(()),
                false => {
                    let why = reason!("Volume type access not found for {id} / {project} combination.");
                    Err(ServiceError::NotFound(why).into())
                }
            }
        })
        .await
    }

    /// Gives one of the caller's volumes another type. Conflict while the volume is in use and only one of the types is for several servers.
    pub async fn retype(&self, caller: &RequestContext, volume: Uuid, id_or_name: &str) -> Result<(), ServiceError> {
        let new_type = self.usable_type(caller, id_or_name).await?;
        self.change(caller, volume, move |conn, row| {
            locked(conn, new_type.id)?;
            let allowed: &[&str] = if row.multiattach == new_type.is_multiattach() { &["available", "in-use"] } else { &["available"] };
            if !allowed.contains(&row.status.as_str()) {
                let message = format!("Invalid volume: a volume that is {} cannot get the type {}.", row.status, new_type.name);
                return Err(ServiceError::Conflict(Reason::public(message)).into());
            }
            Ok(rows::set_type(conn, &row.id, &new_type.name, new_type.is_multiattach())?)
        })
        .await
        .map(drop)
    }

    async fn change_type<F>(&self, id: Uuid, change: F) -> Result<VolumeType, ServiceError>
    where
        F: FnOnce(&mut TypeRow) -> Result<(), TransactionError> + Send + 'static,
    {
        self.write(None, move |conn| {
            let mut row = locked(conn, id)?;
            let old_name = row.name.clone();
            change(&mut row)?;
            records::update(conn, &old_name, &row).map_err(|error| name_conflict(error, &row.name))?;
            if old_name != row.name {
                quotas::rename_type(conn, &old_name, &row.name)?;
            }
            Ok(from_row(row)?)
        })
        .await
    }
}

/// Returns the type with this id or name if the caller may use it.
pub(super) fn usable(conn: &mut Conn, caller: &RequestContext, name: &str) -> Result<VolumeType, TransactionError> {
    let name = match name {
        DEFAULT_OF_PROJECT => default_types::records::of_project(conn, &caller.project_id)?.unwrap_or_else(|| DEFAULT_TYPE.to_owned()),
        other => other.to_owned(),
    };
    let missing = || ServiceError::NotFound(reason!("Volume type {name} could not be found."));
    let row = records::by_id_or_name(conn, &name)?.ok_or_else(missing)?;
    let may = row.is_public || caller.is_admin() || records::projects(conn, &row.id)?.contains(&caller.project_id);
    if may { Ok(from_row(row)?) } else { Err(missing().into()) }
}

/// Returns the ids of the types, by name.
pub(super) fn ids_by_name(conn: &mut Conn) -> Result<BTreeMap<String, Uuid>, DbError> {
    records::list(conn)?.into_iter().map(|row| Ok((row.name, read_id("volume_types.id", &row.id)?))).collect()
}

/// Locks the type's row for the rest of the transaction, and returns it.
pub(super) fn locked(conn: &mut Conn, id: Uuid) -> Result<TypeRow, TransactionError> {
    let key = id.to_string();
    records::take(conn, &key)?;
    let missing = || ServiceError::NotFound(reason!("Volume type {id} could not be found."));
    Ok(records::by_id_or_name(conn, &key)?.filter(|row| row.id == key).ok_or_else(missing)?)
}

fn name_conflict(error: DbError, name: &str) -> TransactionError {
    match error {
        DbError::Conflict(_) => ServiceError::Conflict(reason!("Volume Type {name} already exists.")).into(),
        other => other.into(),
    }
}

pub(super) fn from_row(row: TypeRow) -> Result<VolumeType, DbError> {
    Ok(VolumeType {
        id: read_id("volume_types.id", &row.id)?,
        name: row.name,
        description: row.description,
        is_public: row.is_public,
        extra_specs: serde_json::from_str(&row.extra_specs)?,
        qos_specs_id: row.qos_specs_id.map(|id| read_id("volume_types.qos_specs_id", &id)).transpose()?,
    })
}
