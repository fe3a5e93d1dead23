//! I14 for images: the images that a move uploads for its disks are deleted when the move is done or undone, and the image of a shelved server
//! when the server is shelved no more.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::explanations::Topic;
use super::report::{Findings, Violation};
use super::snapshot::Snapshot;
use crate::saga::steps::shelf::{self, SHELVED_SERVER};

/// The property that names the move of a temporary image.
pub const MADE_BY: &str = "cellshift_migration";

/// Finds violations of I14 in temporary images.
pub fn check(snapshot: &Snapshot) -> Vec<Violation> {
    let mut findings = Findings::of(snapshot);
    let servers: BTreeMap<Uuid, Uuid> = snapshot.sagas.iter().map(|saga| (saga.id, saga.server)).collect();
    for image in snapshot.temporary_images.iter().flatten() {
        let Some(saga) = image.properties.get(MADE_BY).and_then(|id| id.parse::<Uuid>().ok()) else { continue };
        let server = servers.get(&saga).copied().or_else(|| image.properties.get("instance_uuid")?.parse().ok());
        let in_flight = snapshot.is_in_flight(saga) || server.is_some_and(|server| snapshot.busy.contains(&server));
        if in_flight {
            continue;
        }
        let message = format!("it was made to carry the disks of migration {saga}, which is over; expected no such image");
        findings.about(server.unwrap_or_default(), Topic::Images, "I14", format!("image {}", image.id), message);
    }
    for image in snapshot.shelved_images.iter().flatten() {
        let server = image.properties.get(SHELVED_SERVER).and_then(|id| id.parse::<Uuid>().ok()).unwrap_or_default();
        if snapshot.busy.contains(&server) || snapshot.is_out_of_sight(server) {
            continue;
        }
        let is_recorded =
            snapshot.records().any(|(_, record)| record.uuid == server && shelf::image_of(&record.system_metadata) == Some(image.id));
        if !is_recorded {
            let message = format!("it was made for shelved server {server}, whose record does not name it; expected no such image");
            findings.about(server, Topic::Images, "I14", format!("image {}", image.id), message);
        }
    }
    findings.done()
}
