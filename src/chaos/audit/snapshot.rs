//! Everything that the rules look at, read once: the rules are pure functions of it.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::deep::Deep;
use super::explanations::{Topic, topics_of};
use crate::db::api::debts::Debt;
use crate::db::api::instance_mappings::InstanceMapping;
use crate::db::api::operations::{JournalEntry, SagaRecord};
use crate::db::api::ownership::Ownership;
use crate::db::cell::audit::CellRecords;
use crate::db::cell::compute_nodes::ComputeNode;
use crate::db::cell::instances::Instance;
use crate::db::cell::migrations::Migration;
use crate::domain::host_protocol::{GuestReport, HostReport};
use crate::domain::migration::MigrationStatus;
use crate::domain::server::VmState;
use crate::services::image::Image;
use crate::services::lost_and_found::Lost;
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

/// What placement said.
#[derive(Clone, Debug, Default)]
pub struct PlacementSnapshot {
    pub providers: Vec<Provider>,
    pub allocations: Vec<Allocations>,
    /// No provider changed while it was read, so that its usage and the allocations belong together.
    pub settled: bool,
}

/// The world as the audit found it.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// By name; only those that answered.
    pub cells: BTreeMap<String, CellSnapshot>,
    /// Names of all cells, answering or not.
    pub cell_names: BTreeMap<Uuid, String>,
    /// By name (unique over cells, INVARIANTS C10); only those that answered.
    pub hosts: BTreeMap<String, HostSnapshot>,
    /// The cell of every mapped host, answering or not.
    pub host_cells: BTreeMap<String, String>,
    pub mappings: Vec<InstanceMapping>,
    pub build_requests: BTreeSet<Uuid>,
    pub ownership: BTreeMap<Uuid, Ownership>,
    /// The saga that holds a server, before or after the reading.
    pub holders: BTreeMap<Uuid, Uuid>,
    /// Servers that an operation held at any time of the reading: rules for rest do not hold for them.
    pub busy: BTreeSet<Uuid>,
    /// Those of them whose operation was at one step all the while.
    pub at_one_step: BTreeSet<Uuid>,
    pub sagas: Vec<SagaRecord>,
    pub journals: BTreeMap<Uuid, Vec<JournalEntry>>,
    pub debts: Vec<Debt>,
    /// None when the service did not answer; so below.
    pub ports: Option<Vec<Port>>,
    pub attachments: Option<Vec<Attachment>>,
    pub placement: Option<PlacementSnapshot>,
    /// Images that a move made to carry disks.
    pub temporary_images: Option<Vec<Image>>,
    /// Files that no record knew when the service started.
    pub lost_and_found: Vec<Lost>,
    /// The files of images and volumes with their records.
    pub image_files: Option<Vec<StoredBytes>>,
    pub volume_files: Option<Vec<StoredBytes>>,
    /// The findings in files; none in an audit that does not read them.
    pub deep: Option<Deep>,
    /// Who did not answer, with the reason.
    pub unreachable: Vec<String>,
    pub at: DateTime<Utc>,
}

/// Where a server at rest stands.
#[derive(Clone, Copy, Debug)]
pub enum Phase<'a> {
    /// On its host, with no move to confirm.
    Settled,
    /// At the target of this move, waiting for confirm or revert.
    Verify(&'a Migration),
    /// It never got a host.
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

    /// Its host, unless it never got one.
    pub fn host(&self) -> Option<&str> {
        match self.phase {
            Phase::Nowhere => None,
            Phase::Settled | Phase::Verify(_) => self.record.host.as_deref(),
        }
    }

    /// The host that keeps what a revert needs.
    pub fn source_host(&self) -> Option<&str> {
        match self.phase {
            Phase::Verify(migration) => Some(&migration.source_compute),
            Phase::Settled | Phase::Nowhere => None,
        }
    }

    /// An operation failed and could not restore it: what its guest and its connections are like is for the user to mend.
    pub fn is_broken(&self) -> bool {
        self.record.vm_state == VmState::Error
    }
}

impl Snapshot {
    /// The servers at rest whose cell answered and has a visible record of them where the mapping says.
    pub fn resting(&self) -> Vec<Resting<'_>> {
        let mut found = Vec::new();
        for mapping in &self.mappings {
            let Some(cell) = mapping.cell_uuid.and_then(|uuid| self.cell_names.get(&uuid)) else { continue };
            if mapping.queued_for_delete == Some(true) || self.busy.contains(&mapping.instance_uuid) {
                continue;
            }
            if let Some(record) = self.record_in(cell, mapping.instance_uuid).filter(|record| !record.hidden) {
                found.push(Resting { cell, record, phase: self.phase_of(cell, record) });
            }
        }
        found
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

    /// The move of a server that waits for confirm or revert in this cell.
    pub fn finished_move(&self, cell: &str, server: Uuid) -> Option<&Migration> {
        let migrations = &self.cells.get(cell)?.records.migrations;
        migrations.iter().rev().find(|migration| migration.instance_uuid == server && migration.status == MigrationStatus::Finished)
    }

    /// A server's undeleted record in a cell, hidden or not.
    pub fn record_in(&self, cell: &str, server: Uuid) -> Option<&Instance> {
        self.cells.get(cell)?.records.instances.iter().find(|record| record.uuid == server)
    }

    /// Every undeleted record with its cell.
    pub fn records(&self) -> impl Iterator<Item = (&str, &Instance)> {
        self.cells.iter().flat_map(|(name, cell)| cell.records.instances.iter().map(move |record| (name.as_str(), record)))
    }

    /// True for a server that exists for its user, or on which an operation works, as far as anyone can tell.
    pub fn is_known(&self, server: Uuid) -> bool {
        self.busy.contains(&server)
            || self.mappings.iter().any(|mapping| mapping.instance_uuid == server && mapping.queued_for_delete != Some(true))
            || self.records().any(|(_, record)| record.uuid == server && !record.hidden)
    }

    /// The compute node of a host, if its cell answered.
    pub fn node_of(&self, host: &str) -> Option<&ComputeNode> {
        let cell = self.cells.get(self.host_cells.get(host)?)?;
        cell.records.compute_nodes.iter().find(|node| node.host == host)
    }

    /// Everything that hosts report of a server, with the host's name.
    pub fn guests_of(&self, server: Uuid) -> impl Iterator<Item = (&str, &GuestReport)> {
        self.hosts.iter().flat_map(move |(name, host)| {
            let of_server = host.report.guests.iter().filter(move |guest| guest.server == server);
            of_server.map(move |guest| (name.as_str(), guest))
        })
    }

    /// The server's visible record is in a cell that does not answer: nothing can be expected of it.
    pub fn is_out_of_sight(&self, server: Uuid) -> bool {
        let mapping = self.mappings.iter().find(|mapping| mapping.instance_uuid == server);
        let home = mapping.and_then(|mapping| self.cell_names.get(&mapping.cell_uuid?));
        home.is_some_and(|home| !self.cells.contains_key(home))
    }

    /// True when a debt that stands is about this part of the server.
    pub fn is_explained(&self, server: Uuid, topic: Topic) -> bool {
        self.debts.iter().any(|debt| debt.server == server && topics_of(&debt.step).contains(&topic))
    }

    /// True when an operation that holds its server carries this id: a move's migration, its consumer, its image.
    pub fn is_in_flight(&self, operation: Uuid) -> bool {
        self.holders.values().any(|saga| *saga == operation)
            || self.sagas.iter().any(|saga| saga.id == operation && self.busy.contains(&saga.server))
    }
}
