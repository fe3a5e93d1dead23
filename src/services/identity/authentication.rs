//! How a token is asked for and judged.

use base64::Engine;
use chrono::{DateTime, TimeDelta, Utc};

use super::embedded::{DOMAIN_ID, DOMAIN_NAME, ROLES};
use super::tokens::{IssuedToken, Payload, Scope, Token};
use super::{AuthenticationError, EmbeddedIdentity, Role, ServiceError, Target, password};
use crate::db::services::identity::{User, assignments, projects, roles, tokens as revoked, users};
use crate::db::{Conn, DbError};

/// How long a token is good.
const TOKEN_LIFETIME: TimeDelta = TimeDelta::hours(12);

/// A user, as a client names one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UserRef {
    Id(String),
    /// A name, in the domain of this id or name.
    Name {
        name: String,
        domain: String,
    },
}

/// A project, as a client names one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProjectRef {
    Id(String),
    /// A name, in the domain of this id or name.
    Name {
        name: String,
        domain: String,
    },
}

/// What a token shall be good for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScopeRequest {
    /// The user's default project when it has a role there, else unscoped.
    Default,
    Unscoped,
    Project(ProjectRef),
    /// A domain, by id or name.
    Domain(String),
    System,
}

impl EmbeddedIdentity {
    /// Issues a token to whom knows the user's password.
    pub async fn authenticate_password(
        &self,
        user: &UserRef,
        password: &str,
        scope: ScopeRequest,
    ) -> Result<IssuedToken, AuthenticationError> {
        let wanted = user.clone();
        let user = self.read(move |conn| find_user(conn, &wanted)).await?;
        let hash = user.as_ref().map_or_else(|| self.nobodys_hash.clone(), |user| user.password_hash.clone());
        let password = password.to_owned();
        let fits = self.env.run_blocking(move || password::fits(&password, &hash)).await;
        match user {
            Some(user) if fits && user.enabled => self.issue(user, scope, vec!["password".into()], Vec::new(), None).await,
            _ => Err(AuthenticationError::Unauthorized),
        }
    }

    /// Issues a token to whom holds another, usually for another scope. It expires when the other does.
    pub async fn authenticate_token(&self, token: &str, scope: ScopeRequest) -> Result<IssuedToken, AuthenticationError> {
        let old = self.validate_token(token).await.map_err(|error| match error {
            ServiceError::NotFound(_) => AuthenticationError::Unauthorized,
            other => AuthenticationError::Service(other),
        })?;
        let id = old.user_id.clone();
        let user = self.read(move |conn| users::by_id(conn, &id)).await?.ok_or(AuthenticationError::Unauthorized)?;
        let mut methods = old.methods.clone();
        if !methods.iter().any(|method| method == "token") {
            methods.push("token".into());
        }
        let parent = old.audit_ids.last().cloned();
        self.issue(user, scope, methods, parent.into_iter().collect(), Some(old.expires_at)).await
    }

    /// The token behind the string. `NotFound` when it is unknown, expired or revoked, or its user or scope is no more.
    pub async fn validate_token(&self, id: &str) -> Result<Token, ServiceError> {
        let now = self.env.now();
        let (known, generation) = {
            let cache = self.cache();
            (cache.get(id, now), cache.generation())
        };
        if let Some(token) = known {
            return Ok(token);
        }
        let invalid = || ServiceError::NotFound("This is not a recognized Fernet token".into());
        let payload = Payload::open(id, &self.keys).ok_or_else(invalid)?;
        if now.timestamp_micros() >= payload.expires_at {
            return Err(invalid());
        }
        let token = self.read(move |conn| read_token(conn, &payload)).await?.ok_or_else(invalid)?;
        self.cache().put(id, &token, now, generation);
        Ok(token)
    }

    /// Makes a token worthless. Those that were made from it stay good.
    pub async fn revoke_token(&self, id: &str) -> Result<(), ServiceError> {
        let token = self.validate_token(id).await?;
        let now = self.env.now().naive_utc();
        let Some(audit_id) = token.audit_ids.first().cloned() else { return Ok(()) };
        self.write(move |conn| revoked::revoke(conn, &audit_id, token.expires_at.naive_utc(), now)).await
    }

    async fn issue(
        &self,
        user: User,
        scope: ScopeRequest,
        methods: Vec<String>,
        parents: Vec<String>,
        expires_at: Option<DateTime<Utc>>,
    ) -> Result<IssuedToken, AuthenticationError> {
        let now = self.env.now();
        let audit_id = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(self.env.uuid().as_bytes());
        let (id, must_have_role) = (user.id.clone(), scope != ScopeRequest::Default);
        let target = self.read(move |conn| find_target(conn, &user, scope)).await?.ok_or(AuthenticationError::Unauthorized)?;
        let mut payload = Payload {
            user_id: id,
            scope: target.map(|target| target.as_text()).unwrap_or_default(),
            methods,
            issued_at: now.timestamp_micros(),
            expires_at: expires_at.unwrap_or(now + TOKEN_LIFETIME).timestamp_micros(),
            audit_ids: std::iter::once(audit_id).chain(parents).collect(),
        };
        let wanted = payload.clone();
        let mut token = self.read(move |conn| read_token(conn, &wanted)).await?;
        if token.is_none() && !must_have_role && !payload.scope.is_empty() {
            // A default project in which the user has no role (any more) leaves the token unscoped.
            payload.scope.clear();
            let wanted = payload.clone();
            token = self.read(move |conn| read_token(conn, &wanted)).await?;
        }
        let token = token.ok_or(AuthenticationError::Unauthorized)?;
        Ok(IssuedToken { id: payload.seal(&self.keys)?, token })
    }
}

fn is_the_domain(domain: &str) -> bool {
    domain == DOMAIN_ID || domain == DOMAIN_NAME
}

fn find_user(conn: &mut Conn, user: &UserRef) -> Result<Option<User>, DbError> {
    match user {
        UserRef::Id(id) => users::by_id(conn, id),
        UserRef::Name { name, domain } if is_the_domain(domain) => users::by_name(conn, name),
        UserRef::Name { .. } => Ok(None),
    }
}

/// Where the token shall be good (`Some(None)`: unscoped); `None` when there is no such place.
fn find_target(conn: &mut Conn, user: &User, scope: ScopeRequest) -> Result<Option<Option<Target>>, DbError> {
    Ok(match scope {
        ScopeRequest::Unscoped => Some(None),
        ScopeRequest::Default => Some(user.default_project_id.clone().map(Target::Project)),
        ScopeRequest::System => Some(Some(Target::System)),
        ScopeRequest::Domain(domain) => is_the_domain(&domain).then_some(Some(Target::Domain)),
        ScopeRequest::Project(ProjectRef::Id(id)) => Some(Some(Target::Project(id))),
        ScopeRequest::Project(ProjectRef::Name { name, domain }) if is_the_domain(&domain) => {
            projects::by_name(conn, &name)?.map(|project| Some(Target::Project(project.id)))
        }
        ScopeRequest::Project(_) => None,
    })
}

/// Gives a payload its names and roles as they are now; none when it is worth nothing.
fn read_token(conn: &mut Conn, payload: &Payload) -> Result<Option<Token>, DbError> {
    let Some(audit_id) = payload.audit_ids.first() else { return Ok(None) };
    if revoked::is_revoked(conn, audit_id)? {
        return Ok(None);
    }
    let user = match users::by_id(conn, &payload.user_id)? {
        Some(user) if user.enabled && user.password_changed_at.and_utc().timestamp_micros() <= payload.issued_at => user,
        _ => return Ok(None),
    };
    let target = payload.target();
    let scope = match &target {
        None => Scope::Unscoped,
        Some(Target::System) => Scope::System,
        Some(Target::Domain) => Scope::Domain,
        Some(Target::Project(id)) => match projects::by_id(conn, id)? {
            Some(project) if project.enabled => Scope::Project(project),
            _ => return Ok(None),
        },
    };
    let roles = match &target {
        Some(target) => effective_roles(conn, &user.id, target)?,
        None => Vec::new(),
    };
    if target.is_some() && roles.is_empty() {
        return Ok(None);
    }
    let time = |micros| DateTime::from_timestamp_micros(micros).ok_or_else(|| DbError::Defect("a token's time is out of range".into()));
    Ok(Some(Token {
        user_id: user.id,
        user_name: user.name,
        scope,
        roles,
        methods: payload.methods.clone(),
        issued_at: time(payload.issued_at)?,
        expires_at: time(payload.expires_at)?,
        audit_ids: payload.audit_ids.clone(),
    }))
}

/// A user's roles at a place, with those that they imply, by name.
pub(super) fn effective_roles(conn: &mut Conn, user_id: &str, target: &Target) -> Result<Vec<Role>, DbError> {
    let granted = assignments::roles_of(conn, user_id, target)?;
    let mut names: std::collections::BTreeSet<String> = granted.into_iter().map(|role| role.name).collect();
    let chain = &ROLES[..4];
    if let Some(strongest) = chain.iter().position(|role| names.contains(*role)) {
        names.extend(chain[strongest..].iter().map(|role| (*role).to_owned()));
    }
    Ok(roles::list(conn)?.into_iter().filter(|role| names.contains(&role.name)).collect())
}
