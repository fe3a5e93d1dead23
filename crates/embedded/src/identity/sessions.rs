//! The sessions of people in the operators' page.

use async_trait::async_trait;
use cellshift_neighbours::identity::{Account, Login, Session, Sessions};

use super::{
    AuthenticationError, Credential, DomainRef, EmbeddedIdentity, IssuedToken, ProjectRef, Scope, ScopeRequest, ServiceError, UserRef,
};

#[async_trait]
impl Sessions for EmbeddedIdentity {
    async fn log_in(&self, login: Login) -> Result<Session, AuthenticationError> {
        let Login { user, password, project } = login;
        let of = |domain: Option<String>| domain.map(DomainRef::Name).unwrap_or_default();
        let user = UserRef::Name { name: user.name, domain: of(user.domain) };
        let scope = ScopeRequest::Project(ProjectRef::Name { name: project.name, domain: of(project.domain) });
        session(self.authenticate(vec![Credential::Password { user, password }], scope).await?)
    }

    async fn exchange(&self, token: &str) -> Result<Session, AuthenticationError> {
        let project = match self.validate_token(token).await.map_err(unknown)?.scope {
            Scope::Project { project, .. } => ProjectRef::Id(project.id),
            _ => return Err(without_project()),
        };
        let issued = self.authenticate_token(token, ScopeRequest::Project(project)).await?;
        self.revoke_token(token).await.map_err(unknown)?;
        session(issued)
    }

    async fn log_out(&self, token: &str) -> Result<(), ServiceError> {
        self.revoke_token(token).await
    }
}

fn session(issued: IssuedToken) -> Result<Session, AuthenticationError> {
    let IssuedToken { id, token } = issued;
    let Scope::Project { project, .. } = token.scope else { return Err(without_project()) };
    Ok(Session {
        token: id,
        user: Account { id: token.user_id, name: token.user_name },
        project: Account { id: project.id, name: project.name },
        expires_at: token.expires_at,
    })
}

fn without_project() -> AuthenticationError {
    ServiceError::Forbidden("The page needs a token of a project.".into()).into()
}

/// Says of an unknown token no more than of a wrong password.
fn unknown(error: ServiceError) -> AuthenticationError {
    match error {
        ServiceError::NotFound(_) => AuthenticationError::Unauthorized,
        other => AuthenticationError::Service(other),
    }
}
