//! What a server was asked to be: kept in the API database so that moves, recreation and a down cell need no guess.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::flavor::Flavor;

/// The request behind a server. The flavor is the current one: new after a successful resize, old after a revert.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RequestSpec {
    /// The server.
    pub instance_uuid: Uuid,
    /// Its project.
    pub project_id: String,
    /// Its owner.
    pub user_id: String,
    /// Its flavor.
    pub flavor: Flavor,
    /// The image it was made from; none when volume-backed.
    pub image_id: Option<Uuid>,
    /// The demands on hosts of that image, or of the image in the root volume ([`image_demands`]).
    #[serde(default)]
    pub image_properties: BTreeMap<String, String>,
    /// Root disk on a volume.
    pub is_bfv: bool,
    /// The zone named at creation; such a server stays in it (INVARIANTS C7).
    pub availability_zone: Option<String>,
    /// The server group it belongs to.
    pub instance_group: Option<Uuid>,
    /// `os:scheduler_hints`.
    pub scheduler_hints: BTreeMap<String, serde_json::Value>,
    /// How many servers the request asked for.
    pub num_instances: i32,
    /// A port of the server carries a resource request (QoS).
    #[serde(default)]
    pub has_resource_request: bool,
}

/// Image properties that say which hosts can run a guest of the image.
pub const IMAGE_DEMANDS: [&str; 5] = ["hw_architecture", "img_hv_type", "hw_vm_mode", "img_hv_requested_version", "hw_maxphysaddr_bits"];

/// The properties of an image that the scheduler reads, each under its present name: images of old carry others.
pub fn image_demands(properties: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let old = [("architecture", "hw_architecture"), ("hypervisor_type", "img_hv_type"), ("vm_mode", "hw_vm_mode")];
    let renamed = old.iter().filter_map(|(old, new)| Some(((*new).to_owned(), properties.get(*old)?.clone())));
    let named = IMAGE_DEMANDS.iter().filter_map(|name| Some(((*name).to_owned(), properties.get(*name)?.clone())));
    renamed.chain(named).collect()
}
