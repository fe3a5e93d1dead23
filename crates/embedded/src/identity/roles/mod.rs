//! Roles. All are global, and those of [`ROLES`] are built in.

pub mod records;
pub mod routes;

use super::tokens::revocations;
use super::{EmbeddedIdentity, ROLES, Role, RoleChanges, ServiceError, statements, words};
use cellshift_domain::reason;

statements::readers!(Role, role, roles);

impl EmbeddedIdentity {
    /// Makes a role. Conflict if the name is taken.
    pub async fn create_role(&self, name: &str, description: &str) -> Result<Role, ServiceError> {
        let role = Role { id: self.new_id(), name: words::name("role", name)?, description: words::text("description", description)? };
        self.write(move |conn| records::insert(conn, &role).map(|()| role)).await
    }

    /// Makes the missing roles of [`ROLES`]. Writes nothing if none is missing.
    pub(super) async fn ensure_roles(&self) -> Result<(), ServiceError> {
        let stored = self.roles().await?;
        for role in ROLES {
            if !stored.iter().any(|other| other.name == role) {
                self.ensure_role(role).await?;
            }
        }
        Ok(())
    }

    /// Returns the role with this name, or makes it.
    pub async fn ensure_role(&self, name: &str) -> Result<Role, ServiceError> {
        let fresh = Role { id: self.new_id(), name: name.to_owned(), description: String::new() };
        self.write(move |conn| match records::by_name(conn, &fresh.name)? {
            Some(role) => Ok(role),
            None if ROLES.contains(&fresh.name.as_str()) => records::insert_built_in(conn, &fresh).map(|()| fresh),
            None => records::insert(conn, &fresh).map(|()| fresh),
        })
        .await
    }

    /// Changes a role. Forbidden for the roles of [`ROLES`].
    pub async fn update_role(&self, id: &str, mut changes: RoleChanges) -> Result<Role, ServiceError> {
        changes.name = changes.name.map(|name| words::name("role", &name)).transpose()?;
        changes.description = changes.description.map(|text| words::text("description", &text)).transpose()?;
        self.refuse_built_in(id, "update").await?;
        let id = id.to_owned();
        self.write(move |conn| records::update(conn, &id, &changes)).await
    }

    /// Deletes a role, and revokes the tokens of its assignments. Forbidden for the roles of [`ROLES`].
    pub async fn delete_role(&self, id: &str) -> Result<(), ServiceError> {
        self.refuse_built_in(id, "delete").await?;
        let (id, until) = (id.to_owned(), self.last_expiry());
        self.revise(move |conn| {
            revocations::of_role(conn, &id, until)?;
            records::delete(conn, &id)
        })
        .await
    }

    /// Checks before the change: this suffices, because no role becomes a built-in one.
    async fn refuse_built_in(&self, id: &str, what: &str) -> Result<(), ServiceError> {
        let role = self.role(id).await?;
        match ROLES.contains(&role.name.as_str()) {
            true => Err(ServiceError::Forbidden(reason!("Unable to {what} immutable role resource: {id}."))),
            false => Ok(()),
        }
    }
}
