//! A snapshot of a healthy world, for tests that break one rule at a time. Server A runs on h1 in cell1 with a port and a volume; server R
//! was resized from h1 to h2 in cell2 and waits for confirm; nothing is in flight.

use std::collections::BTreeMap;

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use super::snapshot::{CellSnapshot, HostSnapshot, PlacementSnapshot, Snapshot};
use super::{Violation, judge};
use crate::db::api::ownership::Ownership;
use crate::db::cell::audit::CellRecords;
use crate::domain::block_device::BlockDevice;
use crate::domain::compute_node::ComputeNode;
use crate::domain::debt::Debt;
use crate::domain::flavor::Flavor;
use crate::domain::host_protocol::{GuestReport, HostClaim, HostReport};
use crate::domain::instance::Instance;
use crate::domain::instance_mapping::InstanceMapping;
use crate::domain::migration::{Migration, MigrationStatus, MigrationType};
use crate::domain::saga_record::{JournalEntry, Lease, SagaRecord};
use crate::domain::saga_state::SagaState;
use crate::domain::server::{PowerState, VmState};
use crate::services::network::{Port, PortBinding};
use crate::services::placement::{Allocations, Inventory, Provider};
use crate::services::volume::Attachment;

pub const A: Uuid = Uuid::from_u128(0xa);
pub const R: Uuid = Uuid::from_u128(0xb);
/// The move of R, and the saga that made it.
pub const MOVE: Uuid = Uuid::from_u128(0x30);
pub const NODE1: Uuid = Uuid::from_u128(0x11);
pub const NODE2: Uuid = Uuid::from_u128(0x12);

pub fn start() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + Duration::days(20_000)
}

pub fn port_of(server: Uuid) -> Uuid {
    Uuid::from_u128(server.as_u128() + 0x100)
}

pub fn volume_of(server: Uuid) -> Uuid {
    Uuid::from_u128(server.as_u128() + 0x200)
}

pub fn attachment_of(server: Uuid) -> Uuid {
    Uuid::from_u128(server.as_u128() + 0x300)
}

fn flavor(vcpus: i32) -> Flavor {
    Flavor { id: vcpus.to_string(), name: format!("m{vcpus}"), vcpus, memory_mb: 512 * vcpus, root_gb: 10, ..Flavor::default() }
}

fn instance(server: Uuid, host: &str, flavor: Flavor) -> Instance {
    Instance {
        host: Some(host.into()),
        node: Some(host.into()),
        vm_state: VmState::Active,
        task_state: None,
        power_state: PowerState::Running,
        image_ref: "image".into(),
        launched_at: Some(start()),
        ..Instance::new(server, "project", "user", "name", flavor, start())
    }
}

fn device(server: Uuid, attachment: Uuid) -> BlockDevice {
    BlockDevice {
        attachment_id: Some(attachment),
        ..BlockDevice::volume(Uuid::from_u128(server.as_u128() + 0x400), server, volume_of(server), start())
    }
}

fn node(uuid: Uuid, host: &str, used: &Flavor) -> ComputeNode {
    let used = used.resources(false);
    let narrow = |amount: i64| i32::try_from(amount).unwrap();
    ComputeNode {
        updated_at: Some(start() + Duration::hours(1)),
        vcpus: 16,
        memory_mb: 32_768,
        local_gb: 1000,
        vcpus_used: narrow(used.vcpu),
        memory_mb_used: narrow(used.memory_mb),
        local_gb_used: narrow(used.disk_gb),
        running_vms: 1,
        cpu_allocation_ratio: 4.0,
        ..ComputeNode::new(uuid, host, Uuid::from_u128(1), start())
    }
}

fn migration(status: MigrationStatus) -> Migration {
    Migration {
        id: 1,
        status,
        source_compute: "h1".into(),
        source_node: "h1".into(),
        dest_compute: Some("h2".into()),
        dest_node: Some("h2".into()),
        old_flavor_id: "1".into(),
        new_flavor_id: "2".into(),
        old_instance_type_id: 1,
        new_instance_type_id: 2,
        cross_cell_move: true,
        user_id: "user".into(),
        project_id: "project".into(),
        ..Migration::new(MOVE, R, MigrationType::Resize, start() + Duration::minutes(1))
    }
}

fn guest(server: Uuid, epoch: i64, defined: bool) -> GuestReport {
    GuestReport {
        server,
        defined,
        power_state: if defined { PowerState::Running } else { PowerState::Shutdown },
        rescued: false,
        started_epoch: epoch,
        fence: (epoch, 5),
        volumes: if defined { vec![volume_of(server)] } else { Vec::new() },
        ports: if defined { vec![port_of(server)] } else { Vec::new() },
        disks: Vec::new(),
        leftovers: Vec::new(),
    }
}

fn port(server: Uuid, bindings: &[(&str, &str)]) -> Port {
    let binding = |(host, status): &(&str, &str)| PortBinding {
        host: (*host).into(),
        status: (*status).into(),
        vnic_type: "normal".into(),
        vif_type: "ovs".into(),
        profile: serde_json::Value::Null,
        plugged: *status == "ACTIVE",
    };
    Port {
        id: port_of(server),
        name: String::new(),
        project_id: "project".into(),
        network_id: Uuid::from_u128(7),
        network_name: "net".into(),
        mac_address: "fa:16:3e:00:00:01".into(),
        fixed_ips: Vec::new(),
        device_id: server.to_string(),
        device_owner: "compute:nova".into(),
        server: Some(server),
        status: "ACTIVE".into(),
        admin_state_up: true,
        security_groups: Vec::new(),
        bindings: bindings.iter().map(binding).collect(),
        vnic_type: "normal".into(),
        physical_network: None,
        resource_request: None,
        tags: Vec::new(),
    }
}

fn attachment(id: Uuid, server: Uuid, host: Option<&str>) -> Attachment {
    Attachment {
        id,
        volume_id: volume_of(server),
        server,
        host: host.map(str::to_owned),
        status: if host.is_some() { "attached" } else { "reserved" }.into(),
        mountpoint: None,
        connection_info: serde_json::Value::Null,
        attached_at: None,
    }
}

fn allocation(consumer: Uuid, provider: Uuid, flavor: &Flavor) -> Allocations {
    Allocations {
        consumer,
        consumer_generation: Some(1),
        project_id: "project".into(),
        user_id: "user".into(),
        consumer_type: "INSTANCE".into(),
        allocations: BTreeMap::from([(provider, flavor.resources(false).by_class())]),
    }
}

fn provider(uuid: Uuid, name: &str, used: &[&Flavor]) -> Provider {
    let inventory = |total| Inventory { total, reserved: 0, min_unit: 1, max_unit: total, step_size: 1, allocation_ratio: 1.0 };
    let mut usages = BTreeMap::new();
    for (class, amount) in used.iter().flat_map(|flavor| flavor.resources(false).by_class()) {
        *usages.entry(class).or_default() += amount;
    }
    Provider {
        uuid,
        name: name.into(),
        generation: 1,
        inventories: [("VCPU", 16), ("MEMORY_MB", 32_768), ("DISK_GB", 1000)]
            .map(|(class, total)| (class.to_owned(), inventory(total)))
            .into(),
        usages,
        traits: Vec::new(),
        aggregates: Vec::new(),
    }
}

fn mapping(server: Uuid, cell: u128) -> InstanceMapping {
    InstanceMapping {
        instance_uuid: server,
        cell_uuid: Some(Uuid::from_u128(cell)),
        project_id: "project".into(),
        user_id: None,
        queued_for_delete: Some(false),
        delete_request: None,
        created_at: start(),
        updated_at: None,
    }
}

/// Makes journal entries as the runner does, from step, side and event. Each `begun` gets the next attempt.
pub fn journal(lines: &[(&str, &str, &str)]) -> Vec<JournalEntry> {
    let mut attempt = 0;
    let entry = |(seq, (step, side, event)): (i64, &(&str, &str, &str))| {
        attempt += i64::from(*event == "begun");
        let at = start() + Duration::seconds(seq);
        JournalEntry { seq, step: (*step).into(), side: (*side).into(), attempt, event: (*event).into(), error: None, at }
    };
    (0..).zip(lines).map(entry).collect()
}

pub fn saga(state: &str) -> SagaRecord {
    SagaRecord {
        id: MOVE,
        server: R,
        kind: "resize".into(),
        table_version: 1,
        state: SagaState::parse(state).unwrap(),
        step: state.into(),
        context: "{}".into(),
        error: None,
        cancellation: None,
        lease: Lease { owner: "controller".into(), epoch: 1 },
        created_at: start(),
        updated_at: start() + Duration::minutes(2),
    }
}

pub fn debt(server: Uuid, step: &str) -> Debt {
    Debt {
        kind: "confirm".into(),
        table_version: 1,
        saga: MOVE,
        owed_seq: 1,
        server,
        step: step.into(),
        side: "act".into(),
        context: "{}".into(),
        reason: "host h1: no answer".into(),
        tries: 4,
        needs_operator: false,
        created_at: start(),
    }
}

fn cells() -> BTreeMap<String, CellSnapshot> {
    let (one, two) = (flavor(1), flavor(2));
    let shown = Instance {
        vm_state: VmState::Resized,
        old_flavor: Some(one.clone()),
        new_flavor: Some(two.clone()),
        old_vm_state: Some(VmState::Active),
        ..instance(R, "h2", two.clone())
    };
    let hidden = Instance { hidden: true, ..instance(R, "h1", one.clone()) };
    let placeholder = Uuid::from_u128(0x3ff);
    let both = Flavor { vcpus: 2, memory_mb: 1024, root_gb: 20, ..Flavor::default() };
    let cell1 = CellRecords {
        instances: vec![instance(A, "h1", one), hidden],
        block_devices: vec![device(A, attachment_of(A)), device(R, placeholder)],
        migrations: vec![migration(MigrationStatus::PostMigrating)],
        compute_nodes: vec![node(NODE1, "h1", &both)],
        forced_actions: Vec::new(),
        fences: BTreeMap::from([(A, (1, 5)), (R, (2, 9))]),
    };
    let cell2 = CellRecords {
        instances: vec![shown],
        block_devices: vec![device(R, attachment_of(R))],
        migrations: vec![migration(MigrationStatus::Finished)],
        compute_nodes: vec![node(NODE2, "h2", &two)],
        forced_actions: Vec::new(),
        fences: BTreeMap::from([(R, (2, 9))]),
    };
    [("cell1", 0xc1, cell1), ("cell2", 0xc2, cell2)]
        .map(|(name, uuid, records)| (name.to_owned(), CellSnapshot { uuid: Uuid::from_u128(uuid), records }))
        .into()
}

fn hosts() -> BTreeMap<String, HostSnapshot> {
    let (one, two) = (flavor(1).resources(false), flavor(2).resources(false));
    let report = |host: &str, claims, guests| HostReport { host: host.into(), capacity: two, claims, guests, up_since: None, next: None };
    let claim = |server, room| (server, HostClaim { room, ..HostClaim::default() });
    let h1 = report("h1", vec![claim(A, one), claim(R, one)], vec![guest(A, 1, true), guest(R, 1, false)]);
    let h2 = report("h2", vec![claim(R, two)], vec![guest(R, 2, true)]);
    [("h1", "cell1", h1), ("h2", "cell2", h2)]
        .map(|(name, cell, report)| (name.to_owned(), HostSnapshot { cell: cell.into(), report }))
        .into()
}

/// Returns the healthy world.
pub fn healthy() -> Snapshot {
    let (one, two) = (flavor(1), flavor(2));
    let owner = |server, cell: &str, host: &str, epoch| Ownership { server, owner: Some((cell.into(), host.into())), epoch, attempt: 9 };
    let placement = PlacementSnapshot {
        providers: vec![provider(NODE1, "h1", &[&one, &one]), provider(NODE2, "h2", &[&two])],
        parents: BTreeMap::new(),
        allocations: vec![allocation(A, NODE1, &one), allocation(MOVE, NODE1, &one), allocation(R, NODE2, &two)],
        settled: true,
    };
    Snapshot {
        cells: cells(),
        cell_names: [(0xc1, "cell1"), (0xc2, "cell2")].map(|(uuid, name)| (Uuid::from_u128(uuid), name.to_owned())).into(),
        hosts: hosts(),
        host_cells: [("h1", "cell1"), ("h2", "cell2")].map(|(host, cell)| (host.to_owned(), cell.to_owned())).into(),
        mappings: vec![mapping(A, 0xc1), mapping(R, 0xc2)],
        ownership: BTreeMap::from([(A, owner(A, "cell1", "h1", 1)), (R, owner(R, "cell2", "h2", 2))]),
        sagas: vec![saga("done")],
        journals: BTreeMap::from([(MOVE, journal(&[("accept", "act", "begun"), ("accept", "act", "ok")]))]),
        ports: Some(vec![port(A, &[("h1", "ACTIVE")]), port(R, &[("h1", "INACTIVE"), ("h2", "ACTIVE")])]),
        attachments: Some(vec![
            attachment(attachment_of(A), A, Some("h1")),
            attachment(Uuid::from_u128(0x3ff), R, None),
            attachment(attachment_of(R), R, Some("h2")),
        ]),
        placement: Some(placement),
        temporary_images: Some(Vec::new()),
        at: start(),
        ..Snapshot::default()
    }
}

/// Returns the visible (or only) record of a server in a cell.
pub fn record<'a>(snapshot: &'a mut Snapshot, cell: &str, server: Uuid) -> &'a mut Instance {
    records(snapshot, cell).instances.iter_mut().find(|record| record.uuid == server).unwrap()
}

pub fn records<'a>(snapshot: &'a mut Snapshot, cell: &str) -> &'a mut CellRecords {
    &mut snapshot.cells.get_mut(cell).unwrap().records
}

pub fn host<'a>(snapshot: &'a mut Snapshot, name: &str) -> &'a mut HostReport {
    &mut snapshot.hosts.get_mut(name).unwrap().report
}

pub fn guest_of<'a>(snapshot: &'a mut Snapshot, name: &str, server: Uuid) -> &'a mut GuestReport {
    host(snapshot, name).guests.iter_mut().find(|guest| guest.server == server).unwrap()
}

/// Breaks the healthy world, and returns the audit's violations.
pub fn broken(breaking: impl FnOnce(&mut Snapshot)) -> Vec<Violation> {
    let mut snapshot = healthy();
    breaking(&mut snapshot);
    judge(&snapshot).violations
}

/// Breaks the healthy world, and expects exactly one violation: this invariant, with these words.
#[track_caller]
pub fn expect_one(invariant: &str, words: &str, breaking: impl FnOnce(&mut Snapshot)) {
    let violations = broken(breaking);
    assert!(
        violations.len() == 1 && violations[0].invariant == invariant && violations[0].to_string().contains(words),
        "{invariant} {words}, found:\n{}",
        lines(&violations)
    );
}

/// Expects the violation as [`expect_one`] does, but allows others.
#[track_caller]
pub fn expect_among(invariant: &str, words: &str, breaking: impl FnOnce(&mut Snapshot)) {
    let violations = broken(breaking);
    let matching = violations.iter().filter(|one| one.invariant == invariant && one.to_string().contains(words)).count();
    assert_eq!(matching, 1, "{invariant} {words}, found:\n{}", lines(&violations));
}

/// Changes the healthy world in a way that is no violation.
#[track_caller]
pub fn expect_none(breaking: impl FnOnce(&mut Snapshot)) {
    let violations = broken(breaking);
    assert!(violations.is_empty(), "nothing, found:\n{}", lines(&violations));
}

fn lines(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
