//! The transfers of bytes between a host and what lies outside of it. Operations declare the ones that they have their hosts make, and a
//! controller compares those that hosts ask for (INVARIANTS S12).

use std::fmt;

use uuid::Uuid;

use super::host_protocol::Asker;

/// A transfer of bytes, which one host makes for the operation of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostTransfer {
    /// The host that reads or stores.
    pub host: Asker,
    /// The bytes, and their direction.
    pub bytes: HostBytes,
}

/// The bytes of a transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostBytes {
    /// The host reads an image.
    ReadImage(Uuid),
    /// The host stores the bytes of an image that its operation has made.
    StoreImage(Uuid),
    /// The host reads what another host of its cell has exported of the server.
    ReadExport {
        /// The name of the other host.
        source: String,
    },
}

impl fmt::Display for HostTransfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Asker { cell, host } = &self.host;
        match &self.bytes {
            HostBytes::ReadImage(image) => write!(f, "host {cell}/{host} read image {image}"),
            HostBytes::StoreImage(image) => write!(f, "host {cell}/{host} store image {image}"),
            HostBytes::ReadExport { source } => write!(f, "host {cell}/{host} read the export of host {source}"),
        }
    }
}
