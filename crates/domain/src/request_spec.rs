//! The request behind each server, stored in the API database, so that moves, rebuilds and answers without the cell need not guess.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::flavor::Flavor;

/// A server's request. The flavor is the present one: new after a successful resize, old after a revert.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RequestSpec {
    /// The server's id.
    pub instance_uuid: Uuid,
    /// The project's id.
    pub project_id: String,
    /// The owner's id.
    pub user_id: String,
    /// Its flavor.
    pub flavor: Flavor,
    /// The image of the root disk; none for a volume-backed server.
    pub image_id: Option<Uuid>,
    /// The image's demands on hosts, or those of the image in the root volume ([`image_demands`]).
    #[serde(default)]
    pub image_properties: BTreeMap<String, String>,
    /// True if the root disk is a volume.
    pub is_bfv: bool,
    /// The zone named at creation. The server stays in it (INVARIANTS C7).
    pub availability_zone: Option<String>,
    /// The server's group.
    pub instance_group: Option<Uuid>,
    /// `os:scheduler_hints`.
    pub scheduler_hints: BTreeMap<String, serde_json::Value>,
    /// The number of servers in the request.
    pub num_instances: i32,
    /// True if a port of the server has a resource request (QoS).
    #[serde(default)]
    pub has_resource_request: bool,
}

impl RequestSpec {
    /// Returns the request for one server of this flavor that demands nothing else: it has no image, and may be on any host.
    pub fn new(server: Uuid, project_id: &str, user_id: &str, flavor: Flavor) -> RequestSpec {
        RequestSpec {
            instance_uuid: server,
            project_id: project_id.to_owned(),
            user_id: user_id.to_owned(),
            flavor,
            image_id: None,
            image_properties: BTreeMap::new(),
            is_bfv: false,
            availability_zone: None,
            instance_group: None,
            scheduler_hints: BTreeMap::new(),
            num_instances: 1,
            has_resource_request: false,
        }
    }
}

/// The image properties that determine which hosts can run the image's guests.
pub const IMAGE_DEMANDS: [&str; 5] = ["hw_architecture", "img_hv_type", "hw_vm_mode", "img_hv_requested_version", "hw_maxphysaddr_bits"];

/// Returns the image properties that the scheduler reads, under their present names: old images have other names.
pub fn image_demands(properties: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let old = [("architecture", "hw_architecture"), ("hypervisor_type", "img_hv_type"), ("vm_mode", "hw_vm_mode")];
    let renamed = old.iter().filter_map(|(old, new)| Some(((*new).to_owned(), properties.get(*old)?.clone())));
    let demands = IMAGE_DEMANDS.iter().filter_map(|name| Some(((*name).to_owned(), properties.get(*name)?.clone())));
    renamed.chain(demands).collect()
}
