//! Flavors as clients see them at each microversion.

use actix_web::HttpRequest;
use serde_json::{Value, json};

use crate::domain::flavor::FlavorRecord;
use crate::http::auth::Caller;
use crate::http::compute::answer::links;
use crate::http::compute::catalog::Catalog;
use crate::http::microversion::ApiVersion;

/// True if the answer has extra specs: from 2.61 on, for callers who may read them.
pub fn shows_extra_specs(api: &Catalog, caller: &Caller, version: ApiVersion) -> bool {
    version.at_least(61) && api.may(caller, "os_compute_api:os-flavor-extra-specs:index")
}

/// Returns a flavor's entry in a brief list.
pub fn brief(request: &HttpRequest, version: ApiVersion, record: &FlavorRecord) -> Value {
    let flavor = &record.flavor;
    let mut view = json!({"id": flavor.id, "name": flavor.name, "links": links(request, "flavors", &flavor.id)});
    if version.at_least(55) {
        view["description"] = json!(flavor.description);
    }
    view
}

/// Returns the whole flavor.
pub fn full(request: &HttpRequest, version: ApiVersion, record: &FlavorRecord, extra_specs: bool) -> Value {
    let flavor = &record.flavor;
    let mut view = brief(request, version, record);
    view["ram"] = json!(flavor.memory_mb);
    view["disk"] = json!(flavor.root_gb);
    view["vcpus"] = json!(flavor.vcpus);
    view["swap"] = if flavor.swap_mb == 0 && version.at_most(74) { json!("") } else { json!(flavor.swap_mb) };
    view["OS-FLV-EXT-DATA:ephemeral"] = json!(flavor.ephemeral_gb);
    view["os-flavor-access:is_public"] = json!(flavor.is_public);
    if version.at_most(101) {
        view["OS-FLV-DISABLED:disabled"] = json!(flavor.disabled);
        view["rxtx_factor"] = json!(record.rxtx_factor);
    }
    if extra_specs {
        view["extra_specs"] = json!(flavor.extra_specs);
    }
    view
}
