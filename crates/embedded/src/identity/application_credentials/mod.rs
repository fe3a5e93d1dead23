//! Application credentials: a user's programs get tokens with them, for one project and with some of the user's roles there.

pub mod records;
pub mod routes;

use base64::Engine;
use cellshift_domain::reason;
use cellshift_store::{Conn, DbError};
use chrono::{DateTime, Utc};

use super::password::Fit;
use super::tokens::authentication::{Bound, Proven, Secret, effective_roles, find_user};
use super::{
    ApplicationCredentialRef, AuthenticationError, CredentialRecord, EmbeddedIdentity, Role, Scope, ServiceError, Target, Token, words,
};
use crate::identity::state;
use crate::identity::users::records as users;

/// The maximum number of a user's application credentials.
const MAX_PER_USER: i64 = 100;

/// An application credential with the roles that it gives.
#[derive(Clone, PartialEq, Debug)]
pub struct ApplicationCredential {
    pub record: CredentialRecord,
    pub roles: Vec<Role>,
}

/// A role as a client names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoleRef {
    Id(String),
    Name(String),
}

impl RoleRef {
    fn is(&self, role: &Role) -> bool {
        match self {
            RoleRef::Id(id) => role.id == *id,
            RoleRef::Name(name) => role.name == *name,
        }
    }
}

/// An application credential to make.
#[derive(Clone, Default, Debug)]
pub struct NewApplicationCredential {
    pub name: String,
    pub description: Option<String>,
    /// Without one, a random secret is made.
    pub secret: Option<String>,
    pub expires_at: Option<DateTime<Utc>>,
    /// Empty for all roles of the maker's token.
    pub roles: Vec<RoleRef>,
    pub unrestricted: bool,
}

/// How the making of a credential ended.
enum Made {
    Stored,
    TooMany,
    /// The user has lost a role meanwhile.
    RoleLost,
}

impl EmbeddedIdentity {
    /// Makes an application credential for the token's user and project. Returns the secret too, which is never shown again.
    pub async fn create_application_credential(
        &self,
        token: &Token,
        new: NewApplicationCredential,
    ) -> Result<(ApplicationCredential, String), ServiceError> {
        refuse_restricted(token)?;
        let Scope::Project { project, .. } = &token.scope else {
            let why = "An application credential is made with a token that is scoped to a project.";
            return Err(ServiceError::Forbidden(why.into()));
        };
        let now = self.env.now();
        if new.expires_at.is_some_and(|ends| ends <= now) {
            return Err(ServiceError::Invalid("Invalid input for field 'expires_at': it must not be in the past.".into()));
        }
        let roles = roles_among(&token.roles, &new.roles)?;
        let name = words::name("application credential", &new.name)?;
        let description = new.description.map(|text| words::text("description", &text)).transpose()?;
        let secret = words::secret(new.secret.unwrap_or_else(|| self.random_secret()))?;
        let record = CredentialRecord {
            id: self.new_id(),
            user_id: token.user_id.clone(),
            project_id: project.id.clone(),
            name,
            description,
            secret_hash: self.passwords.hash(&secret).await?,
            expires_at: new.expires_at.map(|ends| ends.naive_utc()),
            unrestricted: new.unrestricted,
            created_at: now.naive_utc(),
        };
        let credential = ApplicationCredential { record, roles };
        let stored = credential.clone();
        match self.write(move |conn| store(conn, &stored)).await? {
            Made::Stored => Ok((credential, secret)),
            Made::TooMany => Err(ServiceError::Forbidden(reason!(
                "Unable to create additional application credentials, maximum of {MAX_PER_USER} already exceeded for user."
            ))),
            Made::RoleLost => Err(unassigned()),
        }
    }

    /// Returns a user's application credential.
    pub async fn application_credential(&self, user_id: &str, id: &str) -> Result<ApplicationCredential, ServiceError> {
        let (user_id, id) = (user_id.to_owned(), id.to_owned());
        self.read(move |conn| match records::by_id(conn, &id)? {
            Some(record) if record.user_id == user_id => with_roles(conn, record),
            _ => Err(DbError::NotFound(format!("application credential: {id}"))),
        })
        .await
    }

    /// Returns a user's application credentials, ordered by name.
    pub async fn application_credentials(&self, user_id: &str) -> Result<Vec<ApplicationCredential>, ServiceError> {
        let user_id = user_id.to_owned();
        self.read(move |conn| {
            users::find(conn, &user_id)?;
            records::of_user(conn, &user_id)?.into_iter().map(|record| with_roles(conn, record)).collect()
        })
        .await
    }

    /// Deletes a user's application credential, and so ends its tokens. Forbidden with a token of a restricted credential.
    pub async fn delete_application_credential(&self, token: Option<&Token>, user_id: &str, id: &str) -> Result<(), ServiceError> {
        token.map_or(Ok(()), refuse_restricted)?;
        let (user_id, id) = (user_id.to_owned(), id.to_owned());
        self.write(move |conn| records::delete(conn, &user_id, &id)).await
    }

    /// Returns the user of a secret. The answer takes equally long if the credential is unknown or expired, its user disabled, or the
    /// secret wrong.
    pub(super) async fn prove_application_credential(
        &self,
        reference: ApplicationCredentialRef,
        secret: &str,
    ) -> Result<Proven, AuthenticationError> {
        let turn = self.passwords.turn().await?;
        let (revision, stored) = self.read(move |conn| Ok((state::revision(conn)?, find(conn, &reference)?))).await?;
        let hash = stored.as_ref().map(|(_, credential)| credential.secret_hash.clone());
        let (Some((user, credential)), Fit::Yes(newer)) = (stored, self.passwords.compare(&turn, secret, hash).await?) else {
            return Err(AuthenticationError::Unauthorized);
        };
        let expires_at = credential.expires_at.map(|ends| ends.and_utc());
        if !user.enabled || expires_at.is_some_and(|ends| ends <= self.env.now()) {
            return Err(AuthenticationError::Unauthorized);
        }
        let bound = Bound { credential_id: credential.id.clone(), project_id: credential.project_id };
        let secret = Some(Secret::ApplicationCredential(credential.secret_hash));
        if let Some(newer) = newer {
            self.write_aside(move |conn| records::replace_hash(conn, &credential.id, &newer)).await?;
        }
        let methods = vec!["application_credential".into()];
        Ok(Proven { user, revision, methods, parent: None, expires_at, bound: Some(bound), secret })
    }

    /// Returns a secret of 64 random bytes in base64.
    fn random_secret(&self) -> String {
        let bytes: Vec<u8> = (0..4).flat_map(|_| self.env.uuid().into_bytes()).collect();
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
    }
}

fn find(conn: &mut Conn, reference: &ApplicationCredentialRef) -> Result<Option<(super::User, CredentialRecord)>, DbError> {
    let credential = match reference {
        ApplicationCredentialRef::Id(id) => records::by_id(conn, id)?,
        ApplicationCredentialRef::Name { name, user } => match find_user(conn, user)? {
            Some(user) => records::by_name(conn, &user.id, name)?,
            None => None,
        },
    };
    let Some(credential) = credential else { return Ok(None) };
    Ok(users::by_id(conn, &credential.user_id)?.map(|user| (user, credential)))
}

/// Stores a credential, if its user still has its roles.
fn store(conn: &mut Conn, credential: &ApplicationCredential) -> Result<Made, DbError> {
    let record = &credential.record;
    let held = effective_roles(conn, &record.user_id, &Target::Project(record.project_id.clone()))?;
    if !credential.roles.iter().all(|role| held.iter().any(|held| held.id == role.id)) {
        return Ok(Made::RoleLost);
    }
    if records::count(conn, &record.user_id)? >= MAX_PER_USER {
        return Ok(Made::TooMany);
    }
    let role_ids: Vec<String> = credential.roles.iter().map(|role| role.id.clone()).collect();
    records::insert(conn, record, &role_ids)?;
    Ok(Made::Stored)
}

fn with_roles(conn: &mut Conn, record: CredentialRecord) -> Result<ApplicationCredential, DbError> {
    let roles = records::roles_of(conn, &record.id)?;
    Ok(ApplicationCredential { record, roles })
}

/// Returns the requested roles of a token; all of its roles if the request names none. Invalid if the token lacks a requested role.
fn roles_among(held: &[Role], references: &[RoleRef]) -> Result<Vec<Role>, ServiceError> {
    if let Some(_missing) = references.iter().find(|reference| !held.iter().any(|role| reference.is(role))) {
        return Err(unassigned());
    }
    let is_referenced = |role: &&Role| references.is_empty() || references.iter().any(|reference| reference.is(role));
    Ok(held.iter().filter(is_referenced).cloned().collect())
}

fn unassigned() -> ServiceError {
    let why = "Could not validate application credential: Cannot create an application credential with unassigned role.";
    ServiceError::Invalid(why.into())
}

/// Forbids a restricted application credential what would let it make itself a successor.
pub(super) fn refuse_restricted(token: &Token) -> Result<(), ServiceError> {
    match &token.application_credential {
        Some(credential) if credential.restricted => {
            let why = "Using method 'application_credential' is not allowed for managing additional application credentials.";
            Err(ServiceError::Forbidden(why.into()))
        }
        _ => Ok(()),
    }
}
