//! The volume types that projects use unless a request names one. A project without one uses the deployment's default type.

pub(super) mod records;
pub(super) mod routes;

use cellshift_domain::reason;
use cellshift_store::columns::read_id;
use uuid::Uuid;

use crate::ServiceError;
use crate::transaction::Transactions;
use crate::volume::{EmbeddedVolume, volume_types};

/// A project's default volume type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefaultType {
    pub project_id: String,
    pub type_id: Uuid,
}

impl EmbeddedVolume {
    /// Returns the default types that are set, ordered by project.
    pub async fn default_types(&self) -> Result<Vec<DefaultType>, ServiceError> {
        let rows = self.read(|conn| Ok(records::list(conn)?)).await?;
        rows.into_iter().map(|(project_id, type_id)| named(project_id, &type_id)).collect()
    }

    /// Returns the project's default type. NotFound if none is set.
    pub async fn default_type(&self, project: &str) -> Result<DefaultType, ServiceError> {
        let key = project.to_owned();
        let type_id = self.read(move |conn| Ok(records::of_project(conn, &key)?)).await?;
        let missing = || ServiceError::NotFound(reason!("Default type for project {project} not found."));
        named(project.to_owned(), &type_id.ok_or_else(missing)?)
    }

    /// Sets the project's default type by its id or name. Invalid if there is no such type.
    pub async fn set_default_type(&self, project: &str, id_or_name: &str) -> Result<DefaultType, ServiceError> {
        let (project, name) = (project.to_owned(), id_or_name.to_owned());
        self.write(None, move |conn| {
            let missing = || ServiceError::Invalid(reason!("Volume type {name} could not be found."));
            let row = volume_types::records::by_id_or_name(conn, &name)?.ok_or_else(missing)?;
            let type_id = read_id("volume_types.id", &row.id)?;
            // Under the lock of the type's row, so that the type is not deleted meanwhile.
            volume_types::locked(conn, type_id)?;
            records::set(conn, &project, &row.id)?;
            Ok(DefaultType { project_id: project, type_id })
        })
        .await
    }

    /// Forgets the project's default type. Succeeds if none is set, as in Cinder.
    pub async fn unset_default_type(&self, project: &str) -> Result<(), ServiceError> {
        let project = project.to_owned();
        self.write(None, move |conn| Ok(records::unset(conn, &project)?)).await
    }
}

fn named(project_id: String, type_id: &str) -> Result<DefaultType, ServiceError> {
    let type_id = read_id("project_default_types.type_id", type_id).map_err(|error| ServiceError::from_db(super::SERVICE, error))?;
    Ok(DefaultType { project_id, type_id })
}
