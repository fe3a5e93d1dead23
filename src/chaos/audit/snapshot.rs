//! The world as the audit read it once. The rules are pure functions of it.

use std::collections::{BTreeMap, BTreeSet};

use cellshift_embedded::lost_and_found::Lost;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::deep::Deep;
use super::explanations::{Topic, topics_of};
use crate::db::api::ownership::Ownership;
use crate::db::cell::audit::CellRecords;
use crate::domain::compute_node::ComputeNode;
use crate::domain::debt::Debt;
use crate::domain::host_protocol::{GuestReport, HostReport};
use crate::domain::instance::Instance;
use crate::domain::instance_mapping::InstanceMapping;
use crate::domain::migration::{Migration, MigrationStatus};
use crate::domain::saga_record::{JournalEntry, SagaRecord};
use crate::domain::server::VmState;
use crate::domain::server_group::ServerGroup;
use crate::services::image::Image;
use crate::services::network::Port;
use crate::services::placement::{Allocations, Provider};
use crate::services::stored_bytes::StoredBytes;
use crate::services::volume::Attachment;

/// A cell that answered.
#[derive(Clone, Debug, Default)]
pub struct CellSnapshot {
    pub uuid: Uuid,
    pub records: CellRecords,
}

/// A host that answered.
#[derive(Clone, Debug)]
pub struct HostSnapshot {
    pub cell: String,
    pub report: HostReport,
}

/// The answer of placement.
#[derive(Clone, Debug, Default)]
pub struct PlacementSnapshot {
    pub providers: Vec<Provider>,
    /// The parent of each provider below a host.
    pub parents: BTreeMap<Uuid, Uuid>,
    pub allocations: Vec<Allocations>,
    /// True if no provider changed during the reading, so that usage and allocations belong together.
    pub settled: bool,
}

/// The world as the audit found it.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The cells that answered, by name.
    pub cells: BTreeMap<String, CellSnapshot>,
    /// The names of all cells, also silent ones.
    pub cell_names: BTreeMap<Uuid, String>,
    /// The hosts that answered, by name (unique over cells, INVARIANTS C10).
    pub hosts: BTreeMap<String, HostSnapshot>,
    /// The cell of each mapped host, also of silent ones.
    pub host_cells: BTreeMap<String, String>,
    pub mappings: Vec<InstanceMapping>,
    pub build_requests: BTreeSet<Uuid>,
    /// The server groups.
    pub groups: Vec<ServerGroup>,
    /// The consumers that hold room for members of groups that move.
    pub reserved: BTreeSet<Uuid>,
    pub ownership: BTreeMap<Uuid, Ownership>,
    /// The saga that holds each server, before or after the reading.
    pub holders: BTreeMap<Uuid, Uuid>,
    /// The servers that an operation held at any time of the reading. Rules for rest do not apply to them.
    pub busy: BTreeSet<Uuid>,
    /// The busy servers whose operation stayed at one step.
    pub at_one_step: BTreeSet<Uuid>,
    pub sagas: Vec<SagaRecord>,
    pub journals: BTreeMap<Uuid, Vec<JournalEntry>>,
    pub debts: Vec<Debt>,
    /// None if the service did not answer; likewise the next fields.
    pub ports: Option<Vec<Port>>,
    pub attachments: Option<Vec<Attachment>>,
    pub placement: Option<PlacementSnapshot>,
    /// The images that a move made for its disks.
    pub temporary_images: Option<Vec<Image>>,
    /// The images of shelved servers' root disks.
    pub shelved_images: Option<Vec<Image>>,
    /// The files that had no record when the service started.
    pub lost_and_found: Vec<Lost>,
    /// The files of images and volumes with their records.
    pub image_files: Option<Vec<StoredBytes>>,
    pub volume_files: Option<Vec<StoredBytes>>,
    /// The findings in files; none if the audit did not read them.
    pub deep: Option<Deep>,
    /// The silent parts, with the reasons.
    pub unreachable: Vec<String>,
    pub at: DateTime<Utc>,
}

/// The phase of a server at rest.
#[derive(Clone, Copy, Debug)]
pub enum Phase<'a> {
    /// On its host, without a move to confirm.
    Settled,
    /// At the target of this move, waiting for confirm or revert.
    Verify(&'a Migration),
    /// The server never got a host, or left it when it was shelved.
    Nowhere,
}

/// A server that no operation holds, with its visible record.
#[derive(Clone, Copy, Debug)]
pub struct Resting<'a> {
    pub cell: &'a str,
    pub record: &'a Instance,
    pub phase: Phase<'a>,
}

impl Resting<'_> {
    pub fn id(&self) -> Uuid {
        self.record.uuid
    }

    /// Returns the server's host, if it has one.
    pub fn host(&self) -> Option<&str> {
        match self.phase {
            Phase::Nowhere => None,
            Phase::Settled | Phase::Verify(_) => self.record.host.as_deref(),
        }
    }

    /// Returns the host that keeps disks and room for a revert.
    pub fn source_host(&self) -> Option<&str> {
        match self.phase {
            Phase::Verify(migration) => Some(&migration.source_compute),
            Phase::Settled | Phase::Nowhere => None,
        }
    }

    /// True if the server is in ERROR: an operation failed and could not restore it, so the user must repair its guest and connections.
    pub fn is_broken(&self) -> bool {
        self.record.vm_state == VmState::Error
    }
}

impl Snapshot {
    /// Returns the servers at rest whose cell answered and has their visible record.
    pub fn resting(&self) -> Vec<Resting<'_>> {
        let mut servers = Vec::new();
        for mapping in &self.mappings {
            let Some(cell) = mapping.cell_uuid.and_then(|uuid| self.cell_names.get(&uuid)) else { continue };
            if self.is_leaving(mapping) || self.busy.contains(&mapping.instance_uuid) {
                continue;
            }
            if let Some(record) = self.record_in(cell, mapping.instance_uuid).filter(|record| !record.hidden) {
                servers.push(Resting { cell, record, phase: self.phase_of(cell, record) });
            }
        }
        servers
    }

    /// True if the server's delete was accepted, other than a soft delete that has ended: that server is still there.
    pub fn is_leaving(&self, mapping: &InstanceMapping) -> bool {
        let cell = mapping.cell_uuid.and_then(|uuid| self.cell_names.get(&uuid));
        let record = cell.and_then(|cell| self.record_in(cell, mapping.instance_uuid));
        mapping.queued_for_delete == Some(true) && record.is_none_or(|record| record.vm_state != VmState::SoftDeleted)
    }

    fn phase_of(&self, cell: &str, record: &Instance) -> Phase<'_> {
        if record.host.is_none() {
            return Phase::Nowhere;
        }
        match self.finished_move(cell, record.uuid) {
            Some(migration) if record.vm_state == VmState::Resized => Phase::Verify(migration),
            _ => Phase::Settled,
        }
    }

    /// Returns the move of a server that waits for confirm or revert in this cell.
    pub fn finished_move(&self, cell: &str, server: Uuid) -> Option<&Migration> {
        let migrations = &self.cells.get(cell)?.records.migrations;
        migrations.iter().rev().find(|migration| migration.instance_uuid == server && migration.status == MigrationStatus::Finished)
    }

    /// Returns a server's undeleted record in a cell, hidden or not.
    pub fn record_in(&self, cell: &str, server: Uuid) -> Option<&Instance> {
        self.cells.get(cell)?.records.instances.iter().find(|record| record.uuid == server)
    }

    /// Returns all undeleted records with their cells.
    pub fn records(&self) -> impl Iterator<Item = (&str, &Instance)> {
        self.cells.iter().flat_map(|(name, cell)| cell.records.instances.iter().map(move |record| (name.as_str(), record)))
    }

    /// True if the server exists for its user, or an operation holds it.
    pub fn is_known(&self, server: Uuid) -> bool {
        self.busy.contains(&server)
            || self.mappings.iter().any(|mapping| mapping.instance_uuid == server && !self.is_leaving(mapping))
            || self.records().any(|(_, record)| record.uuid == server && !record.hidden)
    }

    /// Returns the compute node of a host, if its cell answered.
    pub fn node_of(&self, host: &str) -> Option<&ComputeNode> {
        let cell = self.cells.get(self.host_cells.get(host)?)?;
        cell.records.compute_nodes.iter().find(|node| node.host == host)
    }

    /// Returns all hosts' reports about a server, with the host's name.
    pub fn guests_of(&self, server: Uuid) -> impl Iterator<Item = (&str, &GuestReport)> {
        self.hosts.iter().flat_map(move |(name, host)| {
            let of_server = host.report.guests.iter().filter(move |guest| guest.server == server);
            of_server.map(move |guest| (name.as_str(), guest))
        })
    }

    /// True if the server's cell is silent, so that nothing can be expected of the server.
    pub fn is_out_of_sight(&self, server: Uuid) -> bool {
        let mapping = self.mappings.iter().find(|mapping| mapping.instance_uuid == server);
        let home = mapping.and_then(|mapping| self.cell_names.get(&mapping.cell_uuid?));
        home.is_some_and(|home| !self.cells.contains_key(home))
    }

    /// True if a debt explains this part of the server.
    pub fn is_explained(&self, server: Uuid, topic: Topic) -> bool {
        self.debts.iter().any(|debt| debt.server == server && topics_of(&debt.step).contains(&topic))
    }

    /// True if an operation with this id holds its server. The move's migration, consumer and image have this id.
    pub fn is_in_flight(&self, operation: Uuid) -> bool {
        self.holders.values().any(|saga| *saga == operation)
            || self.sagas.iter().any(|saga| saga.id == operation && self.busy.contains(&saga.server))
    }
}
