//! The identity and the request behind each API call.

use serde::{Deserialize, Serialize};

use super::trace::TraceContext;

/// The roles that the program itself knows, strongest first. Each of the first four implies those after it; `service`, with which other
/// services authenticate, implies none. Roles are compared exactly, so `ADMIN` is another role.
pub const ROLES: [&str; 5] = ["admin", "manager", "member", "reader", "service"];

/// The caller that a valid token names.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RequestContext {
    /// `req-` and an id. Answers, logs and instance actions contain it.
    pub request_id: String,
    pub user_id: String,
    pub user_name: String,
    pub project_id: String,
    pub project_name: String,
    /// Role names with implied roles (admin implies manager, member and reader).
    pub roles: Vec<String>,
    /// The domain of the project; empty without a project, and in records of older releases.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub project_domain_id: String,
    /// The domain that the token is scoped to; empty if it is not scoped to a domain.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub domain_id: String,
    /// True if the token is scoped to the system, not to a project.
    pub system_scope: bool,
    /// The request's span, if traces are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
}

impl RequestContext {
    /// True if the caller has this role, given or implied.
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.iter().any(|held| held == role)
    }

    /// True for an administrator, who may see and change all projects' resources.
    pub fn is_admin(&self) -> bool {
        self.has_role("admin")
    }
}
