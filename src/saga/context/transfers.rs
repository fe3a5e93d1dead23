//! The transfers of bytes that operations have their hosts make. A host gets no ticket for any other one (INVARIANTS S12).

use uuid::Uuid;

use super::{Place, ServerFacts};
use crate::domain::host_protocol::Asker;
use crate::domain::host_transfer::{HostBytes, HostTransfer};

/// The method of a part whose operation has no host read or store bytes.
macro_rules! moves_no_bytes {
    () => {
        fn transfers(&self) -> Vec<$crate::domain::host_transfer::HostTransfer> {
            Vec::new()
        }
    };
}
pub(super) use moves_no_bytes;

/// Returns the transfer by which the host reads the image. None until both are known.
pub(super) fn image_read(host: Option<&Place>, image: Option<Uuid>) -> Option<HostTransfer> {
    Some(transfer(host?, HostBytes::ReadImage(image?)))
}

/// Returns the transfer by which the host stores the image that the operation makes. None until both are known.
pub(super) fn image_stored(host: Option<&Place>, image: Option<Uuid>) -> Option<HostTransfer> {
    Some(transfer(host?, HostBytes::StoreImage(image?)))
}

/// Returns the transfer by which the target reads the export of the source. None until both are known, and for a target in another cell.
pub(super) fn export_read(facts: &ServerFacts) -> Option<HostTransfer> {
    let (source, target) = (facts.source.as_ref()?, facts.target.as_ref()?);
    (!facts.crosses_cells()).then(|| transfer(target, HostBytes::ReadExport { source: source.host.clone() }))
}

fn transfer(host: &Place, bytes: HostBytes) -> HostTransfer {
    HostTransfer { host: Asker { cell: host.cell.clone(), host: host.host.clone() }, bytes }
}
