//! The block devices in a request and in an image, in both of their forms.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::compute::body::rules::{ShortText, UuidText, rules};
use crate::http::compute::body::{Anything, Flag, number, schema_of};
use crate::http::compute::servers::rules::{MAX_ENTRIES, tag};
use crate::http::schema::{Schema, as_bool};
use crate::saga::context::DeviceForm;

/// The block devices that an image describes, in a request's newest form. The further properties are those of Nova's record of a device.
pub static IMAGE_DEVICES: Schema = Schema::fixed(|_| {
    let mut device = schema_of::<Device>(u16::MAX);
    device["additionalProperties"] = json!(true);
    json!({"type": "array", "items": device, "maxItems": MAX_ENTRIES})
});

rules! {
    /// A size in GiB.
    VolumeSize = json!({"type": ["integer", "string"], "pattern": "^[0-9]{1,9}$", "minimum": 1, "maximum": 2_147_483_647});
    /// The name of a device in the guest.
    DeviceName = json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9._/-]*$"});
    /// The words of a volume driver about a connection, which have no effect.
    ConnectionInfo = json!({"type": "string", "maxLength": 16_777_215});
    /// The id of the source.
    SourceId = json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9._-]*$"});
    /// The kinds of sources.
    SourceType = json!({"enum": ["volume", "image", "snapshot", "blank"]});
    /// The kinds of disks.
    DestinationType = json!({"enum": ["local", "volume"]});
    /// The place in the boot order.
    BootIndex = json!({"type": ["integer", "string", "null"], "pattern": "^-?[0-9]{1,9}$"});
    /// The tag of a device: tags came with 2.32, were lost with 2.33 and came back with 2.42.
    DeviceTag = json!({"versions": [[32, tag()], [33, null], [42, tag()]]});
    /// The type of a volume that is to be made, or null.
    VolumeType = json!({"type": ["string", "null"], "maxLength": 255});
}

/// A device in the old form.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct LegacyDevice {
    #[serde(flatten)]
    pub common: CommonFields,
}

/// A device in the newer form.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct Device {
    #[serde(flatten)]
    pub common: CommonFields,
    #[serde(default)]
    #[schemars(with = "UuidText")]
    image_id: Option<String>,
    #[serde(default)]
    #[schemars(with = "SourceId")]
    uuid: Option<String>,
    #[serde(default)]
    #[schemars(with = "SourceType")]
    pub source_type: Option<String>,
    #[serde(default)]
    #[schemars(with = "DestinationType")]
    pub destination_type: Option<String>,
    #[serde(default, deserialize_with = "number")]
    #[schemars(with = "BootIndex")]
    pub boot_index: Option<i64>,
    #[serde(default)]
    #[schemars(with = "ShortText")]
    pub guest_format: Option<String>,
    #[serde(default)]
    #[schemars(with = "ShortText")]
    device_type: Option<String>,
    #[serde(default)]
    #[schemars(with = "ShortText")]
    disk_bus: Option<String>,
    #[serde(default)]
    #[schemars(with = "DeviceTag")]
    pub tag: Option<String>,
    #[serde(default)]
    #[schemars(with = "VolumeType", extend("since" = 67))]
    volume_type: Option<String>,
}

/// The fields of both forms.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct CommonFields {
    #[serde(default)]
    #[schemars(with = "ShortText")]
    pub virtual_name: Option<String>,
    #[serde(default)]
    #[schemars(with = "UuidText")]
    pub volume_id: Option<String>,
    #[serde(default)]
    #[schemars(with = "UuidText")]
    pub snapshot_id: Option<String>,
    #[serde(default, deserialize_with = "number")]
    #[schemars(with = "VolumeSize")]
    volume_size: Option<i64>,
    #[serde(default)]
    #[schemars(with = "DeviceName")]
    pub device_name: Option<String>,
    #[serde(default)]
    pub delete_on_termination: Flag,
    #[serde(default)]
    #[schemars(with = "Anything")]
    no_device: Value,
    #[serde(default, rename = "connection_info")]
    #[schemars(with = "ConnectionInfo")]
    _connection_info: Option<String>,
}

impl CommonFields {
    /// Returns the size in GiB.
    pub fn size_gb(&self) -> Option<i32> {
        self.volume_size.and_then(|size| i32::try_from(size).ok())
    }

    /// True if the entry says that there is no device.
    pub fn is_no_device(&self) -> bool {
        as_bool(&self.no_device) || self.no_device.is_object()
    }
}

impl Device {
    /// Returns the id of the source: the general one, or the one of this kind of source.
    pub fn source_id(&self, source: &str) -> Option<&str> {
        let of_kind = match source {
            "volume" => &self.common.volume_id,
            "snapshot" => &self.common.snapshot_id,
            "image" => &self.image_id,
            _ => &None,
        };
        self.uuid.as_deref().or(of_kind.as_deref())
    }

    /// Returns the requested volume type. An empty name requests the default.
    pub fn volume_type(&self) -> Option<&str> {
        self.volume_type.as_deref().filter(|name| !name.is_empty())
    }

    /// Returns how the guest sees the device.
    pub fn form(&self) -> DeviceForm {
        let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        DeviceForm { disk_bus: text(&self.disk_bus), device_type: text(&self.device_type), guest_format: text(&self.guest_format) }
    }

    /// True if the device takes the place of an image's root disk.
    pub fn is_root(&self) -> bool {
        self.boot_index == Some(0) && !as_bool(&self.common.no_device)
    }
}
