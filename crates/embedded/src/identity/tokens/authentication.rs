//! Issues tokens and validates them.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine;
use cellshift_store::{Conn, DbError};
use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};

use super::{DomainName, IssuedToken, Payload, Scope, Token, TokenCredential};
use super::{records as revoked, revocations};
use crate::identity::application_credentials::records as credentials;
use crate::identity::assignments::records as assignments;
use crate::identity::domains::records as domains;
use crate::identity::keys::KeySet;
use crate::identity::password::Fit;
use crate::identity::projects::records as projects;
use crate::identity::roles::records as roles;
use crate::identity::users::{failures, records as users};
use crate::identity::{AuthenticationError, Domain, DomainRef, EmbeddedIdentity, Lockout, ROLES, Role, ServiceError, Target, User, state};

/// The lifetime of a token.
pub(in crate::identity) const TOKEN_LIFETIME: TimeDelta = TimeDelta::hours(12);

/// A user as a client names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UserRef {
    Id(String),
    /// A name in a domain.
    Name {
        name: String,
        domain: DomainRef,
    },
}

/// A project as a client names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProjectRef {
    Id(String),
    /// A name in a domain.
    Name {
        name: String,
        domain: DomainRef,
    },
}

/// The scope that a client requests for a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScopeRequest {
    /// The user's default project if the user has a role there, else unscoped.
    Default,
    Unscoped,
    Project(ProjectRef),
    Domain(DomainRef),
    System,
}

/// A proof of a client's identity.
#[derive(Clone)]
pub enum Credential {
    Password { user: UserRef, password: String },
    Token(String),
    ApplicationCredential { credential: ApplicationCredentialRef, secret: String },
}

/// An application credential as a client names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ApplicationCredentialRef {
    Id(String),
    /// A name among the user's credentials.
    Name {
        name: String,
        user: UserRef,
    },
}

/// An authenticated user, and the revision from which on a revocation ends the new token.
pub struct Proven {
    pub(in crate::identity) user: User,
    pub(in crate::identity) revision: i64,
    pub(in crate::identity) methods: Vec<String>,
    /// The first audit id of the token that the client showed, if any.
    pub(in crate::identity) parent: Option<String>,
    /// The time at which the proof itself ends.
    pub(in crate::identity) expires_at: Option<DateTime<Utc>>,
    pub(in crate::identity) bound: Option<Bound>,
    pub(in crate::identity) secret: Option<Secret>,
}

/// The stored hash of the only secret behind a proof. While it is stored, the proof is as good as at the time of the check.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::identity) enum Secret {
    Password(String),
    ApplicationCredential(String),
}

/// The application credential behind a proof: its tokens are for its project alone.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::identity) struct Bound {
    pub(in crate::identity) credential_id: String,
    pub(in crate::identity) project_id: String,
}

impl EmbeddedIdentity {
    /// Issues a token for a user and password.
    pub async fn authenticate_password(
        &self,
        user: &UserRef,
        password: &str,
        scope: ScopeRequest,
    ) -> Result<IssuedToken, AuthenticationError> {
        self.authenticate(vec![Credential::Password { user: user.clone(), password: password.to_owned() }], scope).await
    }

    /// Issues a token for another token, usually with another scope. It expires when the other token does.
    pub async fn authenticate_token(&self, token: &str, scope: ScopeRequest) -> Result<IssuedToken, AuthenticationError> {
        self.authenticate(vec![Credential::Token(token.to_owned())], scope).await
    }

    /// Issues a token for credentials that must all prove the same user.
    pub async fn authenticate(&self, credentials: Vec<Credential>, scope: ScopeRequest) -> Result<IssuedToken, AuthenticationError> {
        let mut whole: Option<Proven> = None;
        for credential in credentials {
            let proven = match credential {
                Credential::Password { user, password } => self.prove_password(user, &password).await?,
                Credential::Token(token) => self.prove_token(&token).await?,
                Credential::ApplicationCredential { credential, secret } => self.prove_application_credential(credential, &secret).await?,
            };
            whole = Some(match whole {
                None => proven,
                Some(before) => before.and(proven).ok_or(AuthenticationError::Unauthorized)?,
            });
        }
        self.issue(whole.ok_or(AuthenticationError::Unauthorized)?, scope).await
    }

    /// Checks a password. `Unauthorized` if it is wrong, or the user may not log in.
    pub async fn prove_password(&self, user: UserRef, password: &str) -> Result<Proven, AuthenticationError> {
        let (user, revision) = self.check_password(user, password).await?;
        let secret = Some(Secret::Password(user.password_hash.clone()));
        Ok(Proven { user, revision, methods: vec!["password".into()], parent: None, expires_at: None, bound: None, secret })
    }

    async fn prove_token(&self, token: &str) -> Result<Proven, AuthenticationError> {
        // Reads the revision before it judges the token: a revocation before it is found now, and a revocation after it ends the new token.
        let revision = self.read(state::revision).await?;
        let old = self.judge(token).await.map_err(|error| match error {
            ServiceError::NotFound(_) => AuthenticationError::Unauthorized,
            other => AuthenticationError::Service(other),
        })?;
        let id = old.user_id.clone();
        let user = self.read(move |conn| users::by_id(conn, &id)).await?.ok_or(AuthenticationError::Unauthorized)?;
        let mut methods = old.methods.clone();
        if !methods.iter().any(|method| method == "token") {
            methods.push("token".into());
        }
        let bound = match (old.application_credential, old.scope) {
            (Some(credential), Scope::Project { project, .. }) => Some(Bound { credential_id: credential.id, project_id: project.id }),
            _ => None,
        };
        Ok(Proven { user, revision, methods, parent: old.audit_ids.last().cloned(), expires_at: Some(old.expires_at), bound, secret: None })
    }

    /// Returns the user of a password, with the revision from before the check. Counts wrong passwords if a lockout is configured. The
    /// answer takes equally long if the user is unknown, disabled or locked out, or the password is wrong.
    pub(in crate::identity) async fn check_password(&self, user: UserRef, password: &str) -> Result<(User, i64), AuthenticationError> {
        // Takes the turn before any look-up, so that a burst of guesses cannot be judged by an outdated count.
        let turn = self.passwords.turn().await?;
        let look_up = self.read(move |conn| {
            let revision = state::revision(conn)?;
            let Some(user) = find_user(conn, &user)? else { return Ok((revision, None)) };
            let failures = failures::of_user(conn, &user.id)?;
            Ok((revision, Some((user, failures))))
        });
        let (revision, account) = look_up.await?;
        let (user, failures) = match account {
            Some((user, failures)) if !self.is_locked_out(failures) => (Some(user), failures),
            _ => (None, (0, None)),
        };
        let hash = user.as_ref().map(|user| user.password_hash.clone());
        let fit = self.passwords.compare(&turn, password, hash).await?;
        match (user, fit) {
            (Some(user), Fit::Yes(newer)) if user.enabled => {
                self.note_success(&user, failures.0, newer).await?;
                Ok((user, revision))
            }
            (user, fit) => {
                let mistaken = user.filter(|_| matches!(fit, Fit::No));
                self.note_failure(mistaken).await?;
                Err(AuthenticationError::Unauthorized)
            }
        }
    }

    fn is_locked_out(&self, (failures, last): (i32, Option<NaiveDateTime>)) -> bool {
        let (Some(lockout), Some(last)) = (self.lockout, last) else { return false };
        u32::try_from(failures).unwrap_or(0) >= lockout.attempts && last >= self.counted_since(lockout)
    }

    /// Returns the moment from which on wrong passwords count.
    fn counted_since(&self, lockout: Lockout) -> NaiveDateTime {
        let forever = lockout.duration.is_zero();
        let span = TimeDelta::from_std(lockout.duration).ok().filter(|_| !forever);
        span.and_then(|span| self.env.now().naive_utc().checked_sub_signed(span)).unwrap_or(DateTime::UNIX_EPOCH.naive_utc())
    }

    /// Counts a wrong password if a lockout is configured. Without a user it takes equally long and counts nothing.
    async fn note_failure(&self, user: Option<User>) -> Result<(), ServiceError> {
        let Some(lockout) = self.lockout else { return Ok(()) };
        let (now, since) = (self.env.now().naive_utc(), self.counted_since(lockout));
        self.write_aside(move |conn| match user {
            Some(user) => failures::count(conn, &user.id, now, since),
            None => state::rewrite(conn),
        })
        .await
    }

    async fn note_success(&self, user: &User, failures: i32, newer_hash: Option<String>) -> Result<(), ServiceError> {
        if failures == 0 && newer_hash.is_none() {
            return Ok(());
        }
        let (id, before) = (user.id.clone(), user.password_hash.clone());
        self.write_aside(move |conn| {
            failures::forget(conn, &id)?;
            match newer_hash {
                Some(newer) => users::replace_hash(conn, &id, &before, &newer),
                None => Ok(()),
            }
        })
        .await
    }

    /// Validates a token string. `NotFound` if the token is unknown, expired or revoked, or its user or scope no longer exists.
    pub async fn validate_token(&self, id: &str) -> Result<Token, ServiceError> {
        let keys = self.keys.current().await;
        self.learn_revision(&keys).await?;
        if let Some(token) = self.cache.lock().get(id, self.env.now()) {
            return Ok(token);
        }
        self.judge(id).await
    }

    /// Judges a token by the stored records, and caches the result.
    async fn judge(&self, id: &str) -> Result<Token, ServiceError> {
        let now = self.env.now();
        let invalid = || ServiceError::NotFound("This is not a recognized Fernet token".into());
        let keys = self.keys.current().await;
        let payload = Payload::open(id, &keys).ok_or_else(invalid)?;
        if now.timestamp_micros() >= payload.expires_at {
            return Err(invalid());
        }
        let (revision, token) = self.read(move |conn| read_token(conn, &payload)).await?;
        let token = token.ok_or_else(invalid)?;
        self.cache.lock().put(id, &token, now, (revision, &keys));
        Ok(token)
    }

    /// Reads the accounts' revision unless it was read a moment ago. One request reads, and the others wait for it.
    async fn learn_revision(&self, keys: &Arc<KeySet>) -> Result<(), ServiceError> {
        if self.cache.lock().is_fresh(keys) {
            return Ok(());
        }
        let _asking = self.asking.lock().await;
        if self.cache.lock().is_fresh(keys) {
            return Ok(());
        }
        let question = self.cache.lock().ask();
        let revision = self.read(state::revision).await?;
        self.cache.lock().learn(revision, question, keys);
        self.follow_keys(keys).await;
        Ok(())
    }

    /// Revokes a token. Tokens that were made from it stay valid.
    pub async fn revoke_token(&self, id: &str) -> Result<(), ServiceError> {
        let token = self.validate_token(id).await?;
        let now = self.env.now().naive_utc();
        let Some(audit_id) = token.audit_ids.first().cloned() else { return Ok(()) };
        self.write(move |conn| revoked::revoke(conn, &audit_id, token.expires_at.naive_utc(), now)).await
    }

    /// Issues a token to a user who has proven who they are. `Unauthorized` without a right in the scope, or if a used password or application
    /// credential is no longer the stored one.
    pub async fn issue(&self, proven: Proven, scope: ScopeRequest) -> Result<IssuedToken, AuthenticationError> {
        let now = self.env.now();
        let Proven { user, revision, methods, parent, expires_at, bound, secret } = proven;
        let audit_id = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(self.env.uuid().as_bytes());
        let (id, must_have_role) = (user.id.clone(), scope != ScopeRequest::Default || bound.is_some());
        let target = self.target_of(user, scope, bound.as_ref()).await?;
        let payload = Payload {
            user_id: id,
            scope: target.map(|target| target.as_text()).unwrap_or_default(),
            methods,
            issued_at: now.timestamp_micros(),
            expires_at: expires_at.map_or(now + TOKEN_LIFETIME, |ends| ends.min(now + TOKEN_LIFETIME)).timestamp_micros(),
            audit_ids: std::iter::once(audit_id).chain(parent).collect(),
            revision,
            credential_id: bound.map(|bound| bound.credential_id),
        };
        let (mut payload, mut token) = self.read(move |conn| read_new_token(conn, payload, secret.as_ref())).await?;
        if token.is_none() && !must_have_role && !payload.scope.is_empty() {
            // The user has no role (any more) in the default project, so the token is unscoped.
            payload.scope.clear();
            let text = payload.clone();
            (_, token) = self.read(move |conn| read_token(conn, &text)).await?;
        }
        let token = token.ok_or(AuthenticationError::Unauthorized)?;
        let keys = self.keys.current().await;
        Ok(IssuedToken { id: payload.seal(&keys)?, token })
    }
}

impl Proven {
    /// Combines two proofs of the same user: the earlier revision, the earlier expiry and the only application credential count.
    fn and(mut self, other: Proven) -> Option<Proven> {
        if self.user.id != other.user.id {
            return None;
        }
        for method in other.methods {
            if !self.methods.contains(&method) {
                self.methods.push(method);
            }
        }
        let bound = match (self.bound, other.bound) {
            (Some(one), Some(two)) if one != two => return None,
            (one, two) => one.or(two),
        };
        let ends = [self.expires_at, other.expires_at].into_iter().flatten().min();
        let revision = self.revision.min(other.revision);
        let (parent, secret) = (self.parent.or(other.parent), None);
        Some(Proven { user: other.user, revision, methods: self.methods, parent, expires_at: ends, bound, secret })
    }
}

pub(in crate::identity) fn find_user(conn: &mut Conn, user: &UserRef) -> Result<Option<User>, DbError> {
    match user {
        UserRef::Id(id) => users::by_id(conn, id),
        UserRef::Name { name, domain } => match domains::named(conn, domain)? {
            Some(domain) => users::by_name(conn, &domain.id, name),
            None => Ok(None),
        },
    }
}

impl EmbeddedIdentity {
    /// Returns the new token's scope; none if unscoped. Unauthorized if there is no such scope, or if it is not the bound project.
    async fn target_of(&self, user: User, scope: ScopeRequest, bound: Option<&Bound>) -> Result<Option<Target>, AuthenticationError> {
        let Some(bound) = bound else {
            return self.read(move |conn| find_target(conn, &user, scope)).await?.ok_or(AuthenticationError::Unauthorized);
        };
        let own = Some(Target::Project(bound.project_id.clone()));
        if scope == ScopeRequest::Default {
            return Ok(own);
        }
        let target = self.read(move |conn| find_target(conn, &user, scope)).await?;
        if target == Some(own.clone()) { Ok(own) } else { Err(AuthenticationError::Unauthorized) }
    }
}

/// Finds the token's scope (`Some(None)`: unscoped). None if there is no such scope.
fn find_target(conn: &mut Conn, user: &User, scope: ScopeRequest) -> Result<Option<Option<Target>>, DbError> {
    Ok(match scope {
        ScopeRequest::Unscoped => Some(None),
        ScopeRequest::Default => Some(user.default_project_id.clone().map(Target::Project)),
        ScopeRequest::System => Some(Some(Target::System)),
        ScopeRequest::Domain(domain) => domains::named(conn, &domain)?.map(|domain| Some(Target::Domain(domain.id))),
        ScopeRequest::Project(ProjectRef::Id(id)) => Some(Some(Target::Project(id))),
        ScopeRequest::Project(ProjectRef::Name { name, domain }) => match domains::named(conn, &domain)? {
            Some(domain) => projects::by_name(conn, &domain.id, &name)?.map(|project| Some(Target::Project(project.id))),
            None => None,
        },
    })
}

/// Judges a payload by the stored records, and returns the revision that was read before them.
fn read_token(conn: &mut Conn, payload: &Payload) -> Result<(i64, Option<Token>), DbError> {
    let revision = state::revision(conn)?;
    // A token with a future revision was issued before a backup was restored.
    let token = if payload.revision <= revision { token_of(conn, payload)? } else { None };
    Ok((revision, token))
}

/// Checks the payload of a new token against the stored records. A revocation since the check of the user's secret ends older tokens only: if
/// the secret is still stored, the new token has the present revision.
fn read_new_token(conn: &mut Conn, mut payload: Payload, secret: Option<&Secret>) -> Result<(Payload, Option<Token>), DbError> {
    // Before the look at the secret: a change of the secret that comes later ends the token.
    let revision = state::revision(conn)?;
    let is_stored = match secret {
        None => false,
        Some(Secret::Password(hash)) => users::by_id(conn, &payload.user_id)?.is_some_and(|user| user.password_hash == *hash),
        Some(Secret::ApplicationCredential(hash)) => {
            let stored = payload.credential_id.as_deref().map(|id| credentials::by_id(conn, id)).transpose()?.flatten();
            stored.is_some_and(|credential| credential.secret_hash == *hash)
        }
    };
    if is_stored {
        payload.revision = revision;
    }
    let (_, token) = read_token(conn, &payload)?;
    Ok((payload, token))
}

/// Completes a payload with the present names and roles. None if the token is void.
fn token_of(conn: &mut Conn, payload: &Payload) -> Result<Option<Token>, DbError> {
    let Some(audit_id) = payload.audit_ids.first() else { return Ok(None) };
    let target = payload.target();
    if revoked::is_revoked(conn, audit_id)? || revocations::is_ended(conn, &payload.user_id, target.as_ref(), payload.revision)? {
        return Ok(None);
    }
    // A token of an older release has no revision; for it, compare the time of the last password change instead.
    let in_time = |user: &User| payload.revision > 0 || user.password_changed_at.and_utc().timestamp_micros() <= payload.issued_at;
    let user = match users::by_id(conn, &payload.user_id)? {
        Some(user) if user.enabled && in_time(&user) => user,
        _ => return Ok(None),
    };
    let Some(user_domain) = served_domain(conn, &user.domain_id)? else { return Ok(None) };
    let Some(scope) = scope_of(conn, target.as_ref())? else { return Ok(None) };
    let mut roles = match &target {
        Some(target) => effective_roles(conn, &user.id, target)?,
        None => Vec::new(),
    };
    let mut application_credential = None;
    if let Some(id) = &payload.credential_id {
        let Some(credential) = credentials::by_id(conn, id)? else { return Ok(None) };
        if credential.user_id != user.id || target != Some(Target::Project(credential.project_id)) {
            return Ok(None);
        }
        let delegated = implied(credentials::roles_of(conn, id)?);
        roles.retain(|role| delegated.contains(&role.name));
        application_credential = Some(TokenCredential { id: id.clone(), name: credential.name, restricted: !credential.unrestricted });
    }
    if target.is_some() && roles.is_empty() {
        return Ok(None);
    }
    let time = |micros| DateTime::from_timestamp_micros(micros).ok_or_else(|| DbError::Defect("a token's time is out of range".into()));
    Ok(Some(Token {
        user_id: user.id,
        user_name: user.name,
        user_domain,
        scope,
        roles,
        methods: payload.methods.clone(),
        issued_at: time(payload.issued_at)?,
        expires_at: time(payload.expires_at)?,
        audit_ids: payload.audit_ids.clone(),
        application_credential,
    }))
}

/// Returns the names of a scope. None if it does not exist or is disabled, or its domain is.
fn scope_of(conn: &mut Conn, target: Option<&Target>) -> Result<Option<Scope>, DbError> {
    Ok(match target {
        None => Some(Scope::Unscoped),
        Some(Target::System) => Some(Scope::System),
        Some(Target::Domain(id)) => served_domain(conn, id)?.map(Scope::Domain),
        Some(Target::Project(id)) => match projects::by_id(conn, id)? {
            Some(project) if project.enabled => served_domain(conn, &project.domain_id)?.map(|domain| Scope::Project { project, domain }),
            _ => None,
        },
    })
}

/// Returns an enabled domain.
fn served_domain(conn: &mut Conn, id: &str) -> Result<Option<DomainName>, DbError> {
    let domain = domains::by_id(conn, id)?.filter(|domain| domain.enabled);
    Ok(domain.map(|Domain { id, name, .. }| DomainName { id, name }))
}

/// Returns a user's roles in a scope, with implied roles and those by groups, ordered by name.
pub(in crate::identity) fn effective_roles(conn: &mut Conn, user_id: &str, target: &Target) -> Result<Vec<Role>, DbError> {
    let names = implied(assignments::held(conn, user_id, target)?);
    Ok(roles::list(conn)?.into_iter().filter(|role| names.contains(&role.name)).collect())
}

/// Returns the names of these roles and of those that they imply.
pub(in crate::identity) fn implied(granted: Vec<Role>) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = granted.into_iter().map(|role| role.name).collect();
    let chain = &ROLES[..4];
    if let Some(strongest) = chain.iter().position(|role| names.contains(*role)) {
        names.extend(chain[strongest..].iter().map(|role| (*role).to_owned()));
    }
    names
}
