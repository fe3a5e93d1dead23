//! Users' credentials for other programs, as Keystone keeps them: a type, and contents that only their owner and administrators read. Those
//! of type `ec2` have an access key and a secret.

pub mod ec2_routes;
pub mod records;
pub mod routes;

use cellshift_domain::reason;
use cellshift_store::{Conn, DbError};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::application_credentials::refuse_restricted;
use records::CredentialRow;

use super::vault::VaultKey;
use super::{EmbeddedIdentity, ServiceError, Token, words};
use crate::identity::projects::records as projects;
use crate::identity::users::records as users;

/// The type of credentials with an access key.
const EC2: &str = "ec2";

/// The maximum number of a user's credentials.
const MAX_PER_USER: i64 = 100;

/// A user's credential.
#[derive(Clone, PartialEq, Eq)]
pub struct UserCredential {
    pub id: String,
    pub user_id: String,
    pub project_id: Option<String>,
    /// The type, such as `ec2`, `totp` or `cert`.
    pub kind: String,
    /// The contents. None if the token keys that sealed them are gone.
    pub blob: Option<String>,
}

/// A credential to make.
pub struct NewCredential {
    pub user_id: String,
    pub project_id: Option<String>,
    pub kind: String,
    pub blob: String,
}

/// The fields of a credential that change.
#[derive(Default)]
pub struct CredentialChanges {
    pub user_id: Option<String>,
    pub project_id: Option<Option<String>>,
    pub kind: Option<String>,
    pub blob: Option<String>,
}

/// A credential of type `ec2`.
pub struct Ec2Credential {
    pub user_id: String,
    pub project_id: Option<String>,
    pub access: String,
    pub secret: String,
}

impl EmbeddedIdentity {
    /// Makes a credential. NotFound for an unknown user or project, Forbidden if the user has a hundred, or with the token of a restricted
    /// application credential.
    pub async fn create_credential(&self, token: Option<&Token>, new: NewCredential) -> Result<UserCredential, ServiceError> {
        token.map_or(Ok(()), refuse_restricted)?;
        let NewCredential { user_id, project_id, kind, blob } = new;
        let id = match kind.as_str() {
            EC2 => id_of_access(&access_of(&blob)?),
            _ => self.new_id(),
        };
        let credential = UserCredential { id, user_id, project_id, kind, blob: Some(blob) };
        check(&credential)?;
        let row = sealed(&credential, &*self.vault_key().await?)?;
        let user = row.user_id.clone();
        let stored = self.write_aside(move |conn| {
            require_owners(conn, &row)?;
            if records::count(conn, &row.user_id)? >= MAX_PER_USER {
                return Ok(false);
            }
            records::insert(conn, &row).map(|()| true)
        });
        match stored.await? {
            true => Ok(credential),
            false => {
                let why = reason!("Unable to create additional credentials, maximum of {MAX_PER_USER} already exceeded for user {user}.");
                Err(ServiceError::Forbidden(why))
            }
        }
    }

    /// Returns all credentials, or those of a user or of a type, ordered by id.
    pub async fn credentials(&self, user_id: Option<&str>, kind: Option<&str>) -> Result<Vec<UserCredential>, ServiceError> {
        let (user_id, kind) = (user_id.map(str::to_owned), kind.map(str::to_owned));
        let rows = self.read(move |conn| records::list(conn, user_id.as_deref(), kind.as_deref())).await?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let key = self.stored_vault_key().await?;
        Ok(rows.into_iter().map(|row| opened(row, key.as_deref())).collect())
    }

    /// Returns the credential with this id.
    pub async fn credential(&self, id: &str) -> Result<UserCredential, ServiceError> {
        let id = id.to_owned();
        let row = self.read(move |conn| records::find(conn, &id)).await?;
        Ok(opened(row, self.stored_vault_key().await?.as_deref()))
    }

    /// Changes a credential. The id stays, also when another access key comes.
    pub async fn update_credential(
        &self,
        token: Option<&Token>,
        id: &str,
        changes: CredentialChanges,
    ) -> Result<UserCredential, ServiceError> {
        token.map_or(Ok(()), refuse_restricted)?;
        let key = self.vault_key().await?;
        let id = id.to_owned();
        let changed = self.write_aside(move |conn| {
            let before = opened(records::find(conn, &id)?, Some(&key));
            let after = UserCredential {
                id: before.id,
                user_id: changes.user_id.unwrap_or(before.user_id),
                project_id: changes.project_id.unwrap_or(before.project_id),
                kind: changes.kind.unwrap_or(before.kind),
                blob: changes.blob.or(before.blob),
            };
            let row = match check(&after).and_then(|()| sealed(&after, &key)) {
                Ok(row) => row,
                Err(refusal) => return Ok(Err(refusal)),
            };
            require_owners(conn, &row)?;
            records::update(conn, &row).map(|()| Ok(after))
        });
        changed.await?
    }

    /// Deletes a credential.
    pub async fn delete_credential(&self, token: Option<&Token>, id: &str) -> Result<(), ServiceError> {
        token.map_or(Ok(()), refuse_restricted)?;
        let id = id.to_owned();
        self.write_aside(move |conn| records::delete(conn, &id)).await
    }

    /// Makes an access key with a secret for a user in a project.
    pub async fn create_ec2_credential(
        &self,
        token: Option<&Token>,
        user_id: &str,
        project_id: &str,
    ) -> Result<Ec2Credential, ServiceError> {
        let (access, secret) = (self.new_id(), self.new_id());
        let blob = json!({"access": access, "secret": secret, "trust_id": null}).to_string();
        let new = NewCredential { user_id: user_id.to_owned(), project_id: Some(project_id.to_owned()), kind: EC2.into(), blob };
        self.create_credential(token, new).await?;
        Ok(Ec2Credential { user_id: user_id.to_owned(), project_id: Some(project_id.to_owned()), access, secret })
    }

    /// Returns a user's access keys. Leaves out those whose secret cannot be read.
    pub async fn ec2_credentials(&self, user_id: &str) -> Result<Vec<Ec2Credential>, ServiceError> {
        let owner = user_id.to_owned();
        self.read(move |conn| users::find(conn, &owner).map(drop)).await?;
        Ok(self.credentials(Some(user_id), Some(EC2)).await?.into_iter().filter_map(access_key).collect())
    }

    /// Returns a user's access key.
    pub async fn ec2_credential(&self, user_id: &str, access: &str) -> Result<Ec2Credential, ServiceError> {
        let unknown = || ServiceError::NotFound(reason!("Could not find credential: {access}."));
        let credential = self.credential(&id_of_access(access)).await.map_err(|error| match error {
            ServiceError::NotFound(_) => unknown(),
            other => other,
        })?;
        Some(credential).filter(|credential| credential.user_id == user_id).and_then(access_key).ok_or_else(unknown)
    }

    /// Deletes a user's access key.
    pub async fn delete_ec2_credential(&self, token: Option<&Token>, user_id: &str, access: &str) -> Result<(), ServiceError> {
        self.ec2_credential(user_id, access).await?;
        self.delete_credential(token, &id_of_access(access)).await
    }
}

fn opened(row: CredentialRow, key: Option<&VaultKey>) -> UserCredential {
    let blob = key.and_then(|key| key.open(&row.sealed_blob));
    UserCredential { id: row.id, user_id: row.user_id, project_id: row.project_id, kind: row.kind, blob }
}

/// Seals a credential. Conflict if its contents cannot be read.
fn sealed(credential: &UserCredential, key: &VaultKey) -> Result<CredentialRow, ServiceError> {
    let UserCredential { id, user_id, project_id, kind, blob } = credential.clone();
    let lost = || ServiceError::Conflict(reason!("The contents of the credential {id} cannot be read any more: give it new ones."));
    let sealed_blob = key.seal(&blob.ok_or_else(lost)?);
    Ok(CredentialRow { id, user_id, project_id, kind, sealed_blob })
}

/// Checks the form of a credential that is to be stored.
fn check(credential: &UserCredential) -> Result<(), ServiceError> {
    words::id("user_id", &credential.user_id)?;
    credential.project_id.as_deref().map(|id| words::id("project_id", id)).transpose()?;
    if credential.kind.is_empty() {
        return Err(words::invalid("type", "it must not be empty"));
    }
    words::short("type", &credential.kind)?;
    let Some(blob) = &credential.blob else { return Ok(()) };
    words::text("blob", blob)?;
    if credential.kind == EC2 {
        access_of(blob)?;
        if credential.project_id.is_none() {
            return Err(words::invalid("project_id", "a credential of type ec2 needs one"));
        }
    }
    Ok(())
}

/// Fails unless the user and the project exist.
fn require_owners(conn: &mut Conn, row: &CredentialRow) -> Result<(), DbError> {
    users::find(conn, &row.user_id)?;
    row.project_id.as_deref().map_or(Ok(()), |id| projects::find(conn, id).map(drop))
}

/// Returns the access key in the contents of a credential of type `ec2`.
fn access_of(blob: &str) -> Result<String, ServiceError> {
    let parsed: Value = serde_json::from_str(blob).map_err(|_| words::invalid("blob", "that of type ec2 is a JSON object"))?;
    let access = parsed["access"].as_str().filter(|access| !access.is_empty());
    access.map(str::to_owned).ok_or_else(|| words::invalid("blob", "that of type ec2 has the attribute access, a text"))
}

/// Returns the id of the credential with an access key, as Keystone derives it.
fn id_of_access(access: &str) -> String {
    hex::encode(Sha256::digest(access.as_bytes()))
}

fn access_key(credential: UserCredential) -> Option<Ec2Credential> {
    let parsed: Value = serde_json::from_str(&credential.blob?).ok()?;
    let text = |name: &str| parsed[name].as_str().map(str::to_owned);
    Some(Ec2Credential {
        access: text("access")?,
        secret: text("secret").unwrap_or_default(),
        user_id: credential.user_id,
        project_id: credential.project_id,
    })
}
