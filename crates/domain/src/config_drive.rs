//! The configuration that a guest reads at its first boot, apart from its secrets.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;

/// The contents of a config drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigDrive<'a> {
    pub uuid: Uuid,
    pub name: &'a str,
    pub hostname: Option<&'a str>,
    pub launch_index: i32,
    pub availability_zone: Option<&'a str>,
    pub metadata: &'a BTreeMap<String, String>,
    /// The name and the public key of the key pair.
    pub key: Option<(&'a str, &'a str)>,
}

impl ConfigDrive<'_> {
    /// Returns the contents in the form that hosts write.
    pub fn to_json(&self) -> Value {
        let keys = self.key.map_or_else(|| json!({}), |(name, key)| json!({ name: key }));
        json!({
            "uuid": self.uuid,
            "name": self.name,
            "hostname": self.hostname,
            "launch_index": self.launch_index,
            "availability_zone": self.availability_zone,
            "meta": self.metadata,
            "public_keys": keys,
        })
    }
}
