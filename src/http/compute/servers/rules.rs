//! The rules that the bodies of several requests on servers share, and the limits of what those may contain.

use serde_json::{Value, json};

use crate::http::compute::body::rules::rules;

/// The maximum number of a server's tags.
pub const MAX_TAGS: usize = 50;

/// The maximum number of interfaces, block devices, security groups or files in a request, and of servers in a hint, because each is looked
/// up.
pub const MAX_ENTRIES: usize = 128;

rules! {
    /// The name of a server, or of a thing that a server has.
    pub ServerName = server_name();
    /// A description, or null.
    pub Description = json!({"type": ["string", "null"], "maxLength": 255, "format": "printable"});
    /// A text of 1 to 255 characters, or null.
    pub WordOrNull = json!({"type": ["string", "null"], "minLength": 1, "maxLength": 255});
    /// A fully qualified domain name.
    pub Fqdn = fqdn();
    /// A guest's host name, from 2.90 on. It may have dots from 2.94 on.
    pub Hostname = json!({"versions": [
        [90, {"type": "string", "pattern": "^[a-zA-Z0-9]+[a-zA-Z0-9-]*[a-zA-Z0-9]+$", "minLength": 2, "maxLength": 63}],
        [94, fqdn()],
    ]});
    /// A tag of a server or of a device.
    pub Tag = tag();
    /// Users' metadata.
    pub MetadataMap = metadata_map();
    /// The id of a flavor, or a URL that ends with it.
    pub FlavorReference = json!({"type": ["string", "integer"], "minLength": 1});
    /// How the guest's disk is partitioned.
    pub DiskConfig = json!({"enum": ["AUTO", "MANUAL"]});
    /// An address of IPv4.
    pub Ipv4 = json!({"type": "string", "format": "ipv4"});
    /// An address of IPv6.
    pub Ipv6 = json!({"type": "string", "format": "ipv6"});
    /// Base64.
    pub Base64 = json!({"type": "string", "format": "base64"});
    /// Certificates that an image must be signed with, or null.
    pub TrustedCertificates = json!({
        "type": ["array", "null"], "minItems": 1, "maxItems": 50, "uniqueItems": true,
        "items": {"type": "string", "minLength": 1},
    });
}

/// Returns the schema of [`ServerName`].
pub fn server_name() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 255, "format": "name"})
}

/// Returns the schema of [`Tag`].
pub fn tag() -> Value {
    json!({"type": "string", "pattern": "^[^,/]*$", "minLength": 1, "maxLength": 60})
}

/// Returns the schema of [`MetadataMap`].
pub fn metadata_map() -> Value {
    json!({
        "type": "object",
        "patternProperties": {"^[a-zA-Z0-9-_:. ]{1,255}$": {"type": "string", "maxLength": 255}},
        "additionalProperties": false,
    })
}

/// Returns the schema of base64 that becomes a guest's user data.
pub fn user_data() -> Value {
    json!({"type": "string", "format": "base64", "maxLength": 65535})
}

fn fqdn() -> Value {
    json!({"type": "string", "pattern": "^[a-zA-Z0-9-._]*$", "minLength": 1, "maxLength": 255})
}
