//! Who asks: the identity and request that every API call acts for.

use serde::{Deserialize, Serialize};

/// Every role that means something to the program itself, strongest first: each of the first four implies those after it. `service`
/// is what other services authenticate with and implies none. Roles are compared exactly: `ADMIN` is another role, if there is one.
pub const ROLES: [&str; 5] = ["admin", "manager", "member", "reader", "service"];

/// A caller, as a valid token names it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RequestContext {
    /// `req-` and an id; answers, logs and instance actions carry it.
    pub request_id: String,
    pub user_id: String,
    pub user_name: String,
    pub project_id: String,
    pub project_name: String,
    /// Role names, implied ones included (admin implies manager, member and reader).
    pub roles: Vec<String>,
    /// The token was scoped to the domain, not to a project.
    #[serde(default)]
    pub domain_scope: bool,
    /// The token was scoped to the system, not to a project.
    pub system_scope: bool,
}

impl RequestContext {
    /// True when the caller has this role, given or implied.
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.iter().any(|held| held == role)
    }

    /// True for an administrator, who sees and changes what belongs to every project.
    pub fn is_admin(&self) -> bool {
        self.has_role("admin")
    }
}
