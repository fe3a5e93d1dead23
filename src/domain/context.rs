//! Who asks: the identity and request that every API call acts for.

use serde::{Deserialize, Serialize};

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
