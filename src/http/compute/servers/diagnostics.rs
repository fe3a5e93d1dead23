//! `GET /servers/{id}/diagnostics`: a guest's fields from the records, because no driver reports counters yet.

use actix_web::http::StatusCode;
use actix_web::web;
use serde_json::{Value, json};

use super::{ComputeApi, access};
use crate::actors::cell_registry::ServerRecord;
use crate::domain::server::VmState;
use crate::http::auth::Caller;
use crate::http::compute::answer::{Answer, conflict, ok};
use crate::http::error::{ApiError, ErrorForm};
use crate::http::microversion::ApiVersion;

/// Answers `GET /servers/{id}/diagnostics`.
pub async fn show(api: web::Data<ComputeApi>, Caller(caller): Caller, version: ApiVersion, id: web::Path<String>) -> Answer {
    let server = api.load(&caller, &id, "os_compute_api:os-server-diagnostics").await?;
    if server.instance.host.is_none() {
        return Err(conflict(format!("Instance {id} is not ready")));
    }
    if server.instance.vm_state != VmState::Active {
        return Err(access::wrong_state(&server.instance, "get_diagnostics", "vm_state", server.instance.vm_state.as_str()));
    }
    if version.at_least(48) {
        // The standard form consists of counters and names that no driver reports.
        let message = "Unable to get diagnostics, functionality not implemented";
        return Err(ApiError::new(ErrorForm::Compute, StatusCode::NOT_IMPLEMENTED, message));
    }
    ok(&free_form(&server))
}

/// Returns the form before 2.48, in which each driver chooses its fields.
fn free_form(server: &ServerRecord) -> Value {
    let flavor = &server.instance.flavor;
    json!({"memory": i64::from(flavor.memory_mb) * 1024, "vcpus": flavor.vcpus, "vnics": server.network.0.len()})
}
