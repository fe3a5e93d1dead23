//! Instance mappings: the cell of each server.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::delete_request::DeleteRequest;

/// A server's cell, project, user and queued delete.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InstanceMapping {
    pub instance_uuid: Uuid,
    /// None while the server is only a build request.
    pub cell_uuid: Option<Uuid>,
    pub project_id: String,
    pub user_id: Option<String>,
    /// True if the delete was asked for. None means unknown: lists show the server, quotas do not trust the row (docs/DOWN-CELLS.md).
    pub queued_for_delete: Option<bool>,
    /// The queued delete, if the delete could not begin when it was asked for.
    pub delete_request: Option<DeleteRequest>,
    pub created_at: DateTime<Utc>,
    pub updated_at: Option<DateTime<Utc>>,
}

impl InstanceMapping {
    /// True if a delete is queued that is not in sight: users asked for it while the cell did not answer, so they no longer see the server.
    pub fn is_hidden(&self) -> bool {
        self.delete_request.as_ref().is_some_and(|request| !request.in_sight)
    }

    /// True if a queued delete in sight follows the operation that holds the server: users see the server as being deleted.
    pub fn is_leaving(&self) -> bool {
        self.delete_request.as_ref().is_some_and(|request| request.in_sight)
    }
}
