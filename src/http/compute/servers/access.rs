//! Finds the server of a request and checks the caller's rights. All handlers on one server begin with this.

use std::sync::Arc;

use uuid::Uuid;

use super::ComputeApi;
use super::view::Visible;
use crate::cell_registry::{Located, LookupError, ServerRecord};
use crate::db::DbError;
use crate::domain::context::RequestContext;
use crate::domain::instance::Instance;
use crate::domain::policy::Target;
use crate::domain::reason;
use crate::http::compute::answer::{conflict, not_found};
use crate::http::error::ApiError;
use crate::saga::context::{Context, Request};
use crate::saga::refusal::Refusal;

/// Makes a 404 for a server that does not exist or that the caller may not know of.
pub fn no_such_server(id: &str) -> ApiError {
    not_found(format!("Instance {id} could not be found."))
}

/// Converts an operation's refusal into an HTTP error.
pub fn refused(refusal: Refusal) -> ApiError {
    use crate::http::compute::answer::{bad_request, forbidden, unavailable};
    match refusal {
        Refusal::NotFound(why) => not_found(why),
        Refusal::Conflict(why) => conflict(why),
        Refusal::Invalid(why) => bad_request(why),
        Refusal::Forbidden(why) => forbidden(why),
        Refusal::Unavailable(why) => unavailable(why),
        overtaken @ Refusal::Overtaken(_) => unavailable(reason!("{overtaken}")),
    }
}

/// Returns the server's owner for policy checks.
pub fn target(instance: &Instance) -> Target<'_> {
    Target { project_id: &instance.project_id, user_id: &instance.user_id }
}

impl ComputeApi {
    /// Returns the server from the cell of its mapping. 404 if there is none that the caller may know of; 503 if its cell does not answer.
    pub async fn locate(&self, caller: &RequestContext, id: &str) -> Result<Located, ApiError> {
        let uuid = Uuid::parse_str(id).map_err(|_| no_such_server(id))?;
        server_for(caller, id, self.registry.find_server(uuid).await, |located| &located.instance)
    }

    /// Returns the server with its details, if the rule allows the caller to see it.
    pub async fn load(&self, caller: &RequestContext, id: &str, rule: &str) -> Result<Arc<ServerRecord>, ApiError> {
        let uuid = Uuid::parse_str(id).map_err(|_| no_such_server(id))?;
        self.may_see(caller, id, rule, self.registry.server(uuid).await)
    }

    /// Checks whether the rule allows the caller to see a found server.
    pub fn may_see(
        &self,
        caller: &RequestContext,
        id: &str,
        rule: &str,
        lookup: Result<Arc<ServerRecord>, LookupError>,
    ) -> Result<Arc<ServerRecord>, ApiError> {
        let server = server_for(caller, id, lookup, |server| &server.instance)?;
        self.policy.authorize(rule, caller, &target(&server.instance))?;
        Ok(server)
    }

    /// Returns the server, if the rule allows the caller to act on it.
    pub async fn locate_for(&self, caller: &RequestContext, id: &str, rule: &str) -> Result<Located, ApiError> {
        let located = self.locate(caller, id).await?;
        self.policy.authorize(rule, caller, &target(&located.instance))?;
        Ok(located)
    }

    /// Finds the server as [`ComputeApi::locate_for`] does. 409 if the server is locked and the caller is no administrator.
    pub async fn locate_unlocked(&self, caller: &RequestContext, id: &str, rule: &str) -> Result<Located, ApiError> {
        let located = self.locate_for(caller, id, rule).await?;
        if located.instance.locked && !caller.is_admin() {
            return Err(conflict(format!("Instance {id} is locked")));
        }
        Ok(located)
    }

    /// Returns which fields of a server the caller may see.
    pub fn visible(&self, caller: &RequestContext, target: &Target<'_>) -> Visible {
        let may = |rule: &str| self.policy.check(rule, caller, target);
        Visible {
            extended_attributes: may("os_compute_api:os-extended-server-attributes"),
            host_status: may("os_compute_api:servers:show:host_status"),
            host_status_unknown: may("os_compute_api:servers:show:host_status:unknown-only"),
            extra_specs: may("os_compute_api:os-flavor-extra-specs:index"),
            fault_details: caller.is_admin(),
        }
    }

    /// Starts an operation on the server. Its id is also the id of the move's migration.
    pub async fn begin(&self, caller: &RequestContext, server: &Instance, request: Request) -> Result<Uuid, ApiError> {
        let mut context = Context::new(self.env.uuid(), caller.clone(), server.uuid, request);
        context.project_id = server.project_id.clone();
        context.user_id = server.user_id.clone();
        context.display_name = server.display_name.clone();
        self.operations.begin(context).await.map_err(refused)
    }
}

/// True if the caller may know of the server: administrators know all, others those of their project.
pub fn may_know(caller: &RequestContext, instance: &Instance) -> bool {
    knows_project(caller, &instance.project_id)
}

/// True if the caller may know of the project's servers.
pub fn knows_project(caller: &RequestContext, project_id: &str) -> bool {
    caller.is_admin() || caller.project_id == project_id
}

/// Returns a found server to a caller who may know of it. Otherwise 404, as for a server that does not exist; 503 if its cell does not
/// answer.
pub fn server_for<T>(
    caller: &RequestContext,
    id: &str,
    lookup: Result<T, LookupError>,
    instance: impl Fn(&T) -> &Instance,
) -> Result<T, ApiError> {
    match lookup {
        Ok(server) if may_know(caller, instance(&server)) => Ok(server),
        Err(LookupError::Silent(silent)) if knows_project(caller, &silent.mapping.project_id) && !silent.is_gone() => {
            Err(LookupError::Silent(silent).into())
        }
        Ok(_) | Err(LookupError::Silent(_) | LookupError::Db(DbError::NotFound(_))) => Err(no_such_server(id)),
        Err(LookupError::Db(error)) => Err(error.into()),
    }
}

/// Answers 409 with Nova's message if the server has a task.
pub fn require_no_task(instance: &Instance, action: &str) -> Result<(), ApiError> {
    match instance.task_state {
        None => Ok(()),
        Some(task) => Err(wrong_state(instance, action, "task_state", task.as_str())),
    }
}

/// Makes a 409 with Nova's message.
pub fn wrong_state(instance: &Instance, action: &str, attribute: &str, value: &str) -> ApiError {
    conflict(format!("Cannot '{action}' instance {} while it is in {attribute} {value}", instance.uuid))
}
