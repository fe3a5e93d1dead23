//! The body of `POST /servers`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::device::{Device, LegacyDevice};
use crate::domain::guest_secrets::InjectedFile;
use crate::http::compute::body::rules::{IpAddress, rules};
use crate::http::compute::body::{Body, Flag, SecretText, number};
use crate::http::compute::servers::rules::{
    Base64, Description, DiskConfig, FlavorReference, Fqdn, Hostname, Ipv4, Ipv6, MAX_ENTRIES, MetadataMap, ServerName,
    TrustedCertificates, server_name, tag, user_data,
};
use crate::http::compute::servers::tags::TagList;

/// `POST /servers`.
pub static CREATE: Body<CreateBody> = Body::whole(&[1, 19, 32, 33, 37, 42, 52, 57, 63, 67, 74, 90, 94]);

rules! {
    /// The id of an image, or an empty text.
    ImageReference = json!({"oneOf": [{"type": "string", "format": "uuid"}, {"type": "string", "maxLength": 0}]});
    /// A number of servers, or its digits.
    PositiveInteger = json!({"type": ["integer", "string"], "pattern": "^[1-9][0-9]{0,8}$", "minimum": 1, "maximum": 999_999_999, "minLength": 1});
    /// Base64 that becomes the guest's user data.
    UserData = user_data();
    /// The id of a port, or null.
    PortId = json!({"oneOf": [{"type": "string", "format": "uuid"}, {"type": "null"}]});
    /// The id of a network.
    NetworkId = json!({"versions": [[1, {"type": "string"}], [37, {"type": "string", "format": "uuid"}]]});
    /// The tag of an interface: tags came with 2.32, were lost with 2.37 and came back with 2.42.
    InterfaceTag = json!({"versions": [[32, tag()], [37, null], [42, tag()]]});
    /// Hints for the scheduler. Operators may add filters with hints of their own.
    HintMap = hint_map();
}

/// The whole body.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateBody {
    pub server: NewServer,
    #[serde(default, rename = "os:scheduler_hints")]
    #[schemars(with = "HintMap")]
    pub hints: Option<BTreeMap<String, Value>>,
    #[serde(default, rename = "OS-SCH-HNT:scheduler_hints")]
    #[schemars(with = "HintMap")]
    pub old_hints: Option<BTreeMap<String, Value>>,
}

/// A new server.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewServer {
    #[schemars(with = "ServerName")]
    pub name: String,
    #[serde(rename = "flavorRef")]
    #[schemars(with = "FlavorReference")]
    pub flavor: Value,
    #[serde(default, rename = "imageRef")]
    #[schemars(with = "ImageReference")]
    pub image: String,
    #[serde(default)]
    #[schemars(with = "Description", extend("since" = 19))]
    pub description: Option<String>,
    #[serde(default)]
    #[schemars(with = "Hostname")]
    pub hostname: Option<String>,
    #[serde(default, rename = "adminPass")]
    #[schemars(with = "String")]
    pub admin_pass: Option<SecretText>,
    #[serde(default)]
    #[schemars(with = "MetadataMap")]
    pub metadata: BTreeMap<String, String>,
    #[serde(default)]
    #[schemars(with = "TagList", extend("since" = 52))]
    pub tags: Vec<String>,
    #[serde(default)]
    #[schemars(with = "NetworkForms", extend("required_since" = 37))]
    pub networks: Option<NetworkEntries>,
    #[serde(default)]
    #[schemars(extend("maxItems" = MAX_ENTRIES))]
    pub block_device_mapping: Vec<LegacyDevice>,
    #[serde(default)]
    #[schemars(extend("maxItems" = MAX_ENTRIES))]
    pub block_device_mapping_v2: Vec<Device>,
    #[serde(default)]
    #[schemars(with = "ServerName")]
    pub key_name: Option<String>,
    #[serde(default)]
    #[schemars(with = "UserData")]
    pub user_data: Option<SecretText>,
    #[serde(default)]
    #[schemars(extend("until" = 57, "maxItems" = MAX_ENTRIES))]
    pub personality: Vec<File>,
    #[serde(default)]
    pub config_drive: Flag,
    #[serde(default)]
    #[schemars(with = "ServerName")]
    pub availability_zone: Option<String>,
    #[serde(default)]
    #[schemars(with = "Fqdn", extend("since" = 74))]
    pub host: Option<String>,
    #[serde(default)]
    #[schemars(with = "Fqdn", extend("since" = 74))]
    pub hypervisor_hostname: Option<String>,
    #[serde(default)]
    #[schemars(with = "Vec<GroupName>", extend("maxItems" = MAX_ENTRIES))]
    pub security_groups: Option<Vec<GroupName>>,
    #[serde(default, deserialize_with = "number")]
    #[schemars(with = "PositiveInteger")]
    pub min_count: Option<i64>,
    #[serde(default, deserialize_with = "number")]
    #[schemars(with = "PositiveInteger")]
    pub max_count: Option<i64>,
    #[serde(default)]
    pub return_reservation_id: Flag,
    #[serde(default, rename = "OS-DCF:diskConfig")]
    #[schemars(with = "DiskConfig")]
    pub disk_config: Option<String>,
    #[serde(default, rename = "accessIPv4")]
    #[schemars(with = "Ipv4")]
    pub access_ip_v4: Option<String>,
    #[serde(default, rename = "accessIPv6")]
    #[schemars(with = "Ipv6")]
    pub access_ip_v6: Option<String>,
    #[serde(default)]
    #[schemars(with = "TrustedCertificates", extend("since" = 63))]
    pub trusted_image_certificates: Option<Vec<String>>,
}

/// The interfaces of a new server: a list, or from 2.37 on a word.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum NetworkEntries {
    Word(String),
    List(Vec<NetworkEntry>),
}

/// The schemas of the forms of [`NetworkEntries`].
struct NetworkForms;

impl JsonSchema for NetworkForms {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NetworkForms".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let network = generator.subschema_for::<NetworkEntry>();
        let list = json!({"type": "array", "items": network, "maxItems": MAX_ENTRIES});
        crate::http::compute::body::rules::rule(json!({"versions": [[1, list], [37, {"oneOf": [list, {"enum": ["none", "auto"]}]}]]}))
    }
}

/// A requested interface.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkEntry {
    #[serde(default)]
    #[schemars(with = "NetworkId")]
    pub uuid: Option<String>,
    #[serde(default)]
    #[schemars(with = "PortId")]
    pub port: Option<String>,
    #[serde(default)]
    #[schemars(with = "IpAddress")]
    pub fixed_ip: Option<String>,
    #[serde(default)]
    #[schemars(with = "InterfaceTag")]
    pub tag: Option<String>,
}

/// A security group by its name or id.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupName {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ServerName")]
    pub name: Option<String>,
}

/// A file that is put into the guest.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    #[serde(default)]
    path: String,
    #[serde(default)]
    #[schemars(with = "Base64")]
    contents: SecretText,
}

impl From<File> for InjectedFile {
    fn from(file: File) -> InjectedFile {
        InjectedFile { path: file.path, contents: file.contents.0 }
    }
}

fn hint_map() -> Value {
    let uuid = json!({"type": "string", "format": "uuid"});
    let servers = json!({"type": "array", "items": uuid, "maxItems": MAX_ENTRIES});
    json!({
        "type": "object",
        "properties": {
            "group": {"oneOf": [uuid, servers]},
            "different_host": {"oneOf": [uuid, servers]},
            "same_host": {"type": ["string", "array"], "items": uuid, "maxItems": MAX_ENTRIES},
            "query": {"type": ["string", "object"]},
            "target_cell": server_name(),
            "different_cell": {"type": ["string", "array"], "items": {"type": "string"}, "maxItems": MAX_ENTRIES},
            "build_near_host_ip": {"type": "string", "oneOf": [{"format": "ipv4"}, {"format": "ipv6"}]},
            "cidr": {"type": "string", "pattern": "^/[0-9a-f.:]+$"},
        },
    })
}
