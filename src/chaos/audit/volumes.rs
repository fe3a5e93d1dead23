//! I14 for volumes: each volume of a server has one connected attachment, and a second, empty one only while a move waits for confirm
//! (INVARIANTS D5).

use uuid::Uuid;

use super::explanations::Topic;
use super::report::{Findings, Violation, list};
use super::snapshot::{Phase, Resting, Snapshot};
use crate::domain::block_device::BlockDevice;
use crate::domain::counted::counted;
use crate::domain::server::VmState;
use crate::services::volume::Attachment;

/// Finds violations of I14 in volume attachments.
pub fn check(snapshot: &Snapshot) -> Vec<Violation> {
    let mut findings = Findings::of(snapshot);
    let Some(attachments) = &snapshot.attachments else { return findings.done() };
    let resting = snapshot.resting();
    for server in &resting {
        let own: Vec<&Attachment> = attachments.iter().filter(|attachment| attachment.server == server.id()).collect();
        let devices = devices_of(snapshot, server);
        for device in &devices {
            attachments_fit_the_phase(server, device, &own, &mut findings);
        }
        for stray in own.iter().filter(|attachment| !devices.iter().any(|device| device.volume_id == Some(attachment.volume_id))) {
            let message =
                format!("it holds volume {} for server {}, expected none: the server has no such volume", stray.volume_id, server.id());
            findings.about(server.id(), Topic::Volumes, "I14", format!("attachment {}", stray.id), message);
        }
    }
    for orphan in attachments.iter().filter(|attachment| !snapshot.is_known(attachment.server)) {
        let message = format!("it holds volume {} for server {}, expected none: there is no such server", orphan.volume_id, orphan.server);
        findings.about(orphan.server, Topic::Volumes, "I14", format!("attachment {}", orphan.id), message);
    }
    findings.done()
}

/// Returns the volumes of a server's visible record.
pub(super) fn devices_of<'a>(snapshot: &'a Snapshot, server: &Resting) -> Vec<&'a BlockDevice> {
    let Some(cell) = snapshot.cells.get(server.cell) else { return Vec::new() };
    let id: Uuid = server.id();
    cell.records.block_devices.iter().filter(|device| device.instance_uuid == id && device.is_volume()).collect()
}

fn attachments_fit_the_phase(server: &Resting, device: &BlockDevice, own: &[&Attachment], findings: &mut Findings) {
    let Some(volume) = device.volume_id else { return };
    let subject = format!("volume {volume}");
    let mut wrong = |message: String| findings.about(server.id(), Topic::Volumes, "I14", &subject, message);
    let of_volume: Vec<&&Attachment> = own.iter().filter(|attachment| attachment.volume_id == volume).collect();
    let Some(main) = of_volume.iter().find(|attachment| Some(attachment.id) == device.attachment_id) else {
        let held = list(of_volume.iter().map(|attachment| attachment.id));
        let attachment = device.attachment_id.map_or_else(|| "none".to_owned(), |id| id.to_string());
        return wrong(format!("its attachments for server {} are {held}, expected {attachment} as the server's record says", server.id()));
    };
    let host = server.host().unwrap_or_default();
    if server.record.vm_state == VmState::ShelvedOffloaded {
        // The offload leaves it reserved, an attach since then attached.
        if main.host.is_some() || !["reserved", "attached"].contains(&main.status.as_str()) {
            let there = main.host.as_deref().unwrap_or("no host");
            wrong(format!("attachment {} is {} to {there}, expected one without a host: the server has none", main.id, main.status));
        }
    } else if (main.host.as_deref() != Some(host) || main.status != "attached") && !server.is_broken() {
        let there = main.host.as_deref().unwrap_or("no host");
        wrong(format!(
            "attachment {} is {} to {there}, expected attached to {host}, where server {} is",
            main.id,
            main.status,
            server.id()
        ));
    }
    let others: Vec<&&&Attachment> = of_volume.iter().filter(|attachment| attachment.id != main.id).collect();
    match server.phase {
        Phase::Verify(migration) => {
            let empty = others.iter().filter(|attachment| attachment.host.is_none()).count();
            // A volume attached after the move needs no placeholder; only a revert makes one for it.
            let least = usize::from(device.created_at <= migration.created_at);
            if others.len() != empty || empty > 1 || empty < least {
                let message = format!(
                    "besides attachment {} server {} has {}, of which {empty} without a host, expected one without a host that holds it for a revert",
                    main.id,
                    server.id(),
                    counted(others.len(), "other")
                );
                wrong(message);
            }
        }
        Phase::Settled | Phase::Nowhere => {
            if !others.is_empty() {
                let extra = list(others.iter().map(|attachment| attachment.id));
                wrong(format!("besides attachment {} server {} has {extra}, expected one attachment", main.id, server.id()));
            }
        }
    }
}
