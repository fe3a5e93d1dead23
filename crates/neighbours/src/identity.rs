//! The identity service: it says whose a token is.

use async_trait::async_trait;
use cellshift_domain::context::RequestContext;

use crate::ServiceError;

/// Validates tokens.
#[async_trait]
pub trait Authenticator: Send + Sync {
    /// Returns the caller of `token`, with an empty request id. `NotFound` if the token is unknown, expired or revoked; `Unavailable` if
    /// the service cannot judge it.
    async fn validate(&self, token: &str) -> Result<RequestContext, ServiceError>;
    /// True if a project with this id exists.
    async fn knows_project(&self, id: &str) -> Result<bool, ServiceError>;
}
