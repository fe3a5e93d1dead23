//! Tests of the bytes that hosts may move, by the journals of operations.

use serde_json::Value;

use super::*;
use crate::chaos::borders::{FaultyBorders, Outage, Outages};
use crate::db::api::debts::NewDebt;
use crate::db::api::operations::{Append, NewSaga};
use crate::db::fixture::end_of;
use crate::db::{Db, Schema};
use crate::domain::context::RequestContext;
use crate::domain::flavor::Flavor;
use crate::domain::host_protocol::Asker;
use crate::domain::host_transfer::HostBytes;
use crate::domain::instance::Instance;
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::quota_grant::CheckedRoom;
use crate::domain::request_spec::RequestSpec;
use crate::domain::saga_state::SagaState;
use crate::env::{Blocking, Env, RandomIds, SystemClock};
use crate::saga::context::{
    CreateImageRequest, CreateRequest, EvacuateRequest, LiveMigrateRequest, Place, RebuildRequest, Request, RescueRequest, ResizeRequest,
    ShelveRequest, image_of_operation,
};

const SAGA: Uuid = Uuid::from_u128(1);
const SERVER: Uuid = Uuid::from_u128(2);
const IMAGE: Uuid = Uuid::from_u128(3);
const OTHER: Uuid = Uuid::from_u128(4);

/// Returns facts from an empty database, in which faults can be made.
fn facts() -> HostFacts {
    let env = FaultyBorders::of(Env::new(Arc::new(SystemClock), Arc::new(RandomIds), Blocking::Inline));
    let api = ApiDb::new(Db::open("api", "", Schema::Api, &env).unwrap());
    let (operations, patience) = (Operations::new(api.db().clone()), Duration::from_secs(5));
    HostFacts { api, operations, cells: Vec::new(), patience, default_zone: "nova".into() }
}

/// Begins an operation with this context.
async fn begin(facts: &HostFacts, context: &Context) {
    let (kind, stored) = (context.kind.as_str(), serde_json::to_string(context).unwrap());
    facts.operations.begin(NewSaga::new(SAGA, SERVER, (kind, 1), "accept", stored, "test")).await.unwrap();
}

fn place(cell: &str, host: &str) -> Place {
    Place { cell: cell.into(), host: host.into(), node: host.into(), provider: Uuid::nil(), availability_zone: None }
}

fn by(place: &Place, bytes: HostBytes) -> HostTransfer {
    HostTransfer { host: Asker { cell: place.cell.clone(), host: place.host.clone() }, bytes }
}

fn operation(request: Request, source: Option<Place>, target: Option<Place>) -> Context {
    let mut context = Context::new(SAGA, RequestContext::default(), SERVER, request);
    (context.source, context.target) = (source, target);
    context
}

fn create() -> Request {
    let flavor = Flavor::default();
    Request::Create(Box::new(CreateRequest {
        instance: Box::new(InstanceBundle::new(Instance::new(SERVER, "demo", "alice", "web", flavor.clone(), Env::system().now()))),
        request_spec: Box::new(RequestSpec { image_id: Some(IMAGE), ..RequestSpec::new(SERVER, "demo", "alice", flavor) }),
        networks: Vec::new(),
        volumes: Vec::new(),
        host: None,
        config_drive: Value::Null,
        sealed: None,
        room: CheckedRoom::without_second_check(),
    }))
}

fn rebuild() -> Request {
    Request::Rebuild(Box::new(RebuildRequest {
        image_id: IMAGE,
        image_properties: BTreeMap::new(),
        reimages_root_volume: false,
        name: None,
        description: None,
        metadata: None,
        key_name: None,
        config_drive: Value::Null,
        sealed: None,
    }))
}

fn evacuate() -> Request {
    Request::Evacuate(Box::new(EvacuateRequest {
        host: None,
        bypasses_scheduler: false,
        forced: false,
        stays_off: false,
        image_id: Some(IMAGE),
        config_drive: Value::Null,
        sealed: None,
    }))
}

/// A move to this target, whose snapshot has been made.
fn resize(source: &Place, target: &Place) -> Context {
    let request = ResizeRequest { flavor: Box::new(Flavor::default()), migrate: true, host: None, cross_cell_allowed: true };
    let mut context = operation(Request::Resize(Box::new(request)), Some(source.clone()), Some(target.clone()));
    if let Context::Resize(resize) = &mut context {
        resize.snapshot = (source.cell != target.cell).then_some(IMAGE);
    }
    context
}

fn unshelve(target: &Place) -> Context {
    let mut context = operation(Request::Unshelve(Box::default()), None, Some(target.clone()));
    if let Context::Unshelve(unshelve) = &mut context {
        unshelve.image = Some(IMAGE);
    }
    context
}

/// The operations that move bytes, each in the middle and with the transfers that it has hosts make.
fn operations() -> Vec<(Context, Vec<HostTransfer>)> {
    let (source, target, elsewhere) = (place("cell1", "host1"), place("cell1", "host2"), place("cell2", "host3"));
    let (here, there) = (Some(source.clone()), Some(target.clone()));
    let read = |place| by(place, HostBytes::ReadImage(IMAGE));
    let store = |image| by(&source, HostBytes::StoreImage(image));
    let export = || by(&target, HostBytes::ReadExport { source: "host1".into() });
    let image = CreateImageRequest { name: "image".into(), metadata: BTreeMap::new(), backup: None };
    let shelve = operation(Request::Shelve(ShelveRequest { offload: true }), here.clone(), None);
    let shelved = shelve.derived_id("shelved");
    let rescue = Request::Rescue(Box::new(RescueRequest { image_id: IMAGE, config_drive: Value::Null, sealed: None }));
    let live = Request::LiveMigrate(LiveMigrateRequest { host: None, block_migration: None, forced: false, unchecked: false });
    vec![
        (operation(create(), None, there.clone()), vec![read(&target)]),
        (operation(rebuild(), here.clone(), None), vec![read(&source)]),
        (operation(rescue, here.clone(), None), vec![read(&source)]),
        (operation(Request::CreateImage(Box::new(image)), here.clone(), None), vec![store(image_of_operation(SAGA))]),
        (shelve, vec![store(shelved)]),
        (unshelve(&elsewhere), vec![read(&elsewhere)]),
        (operation(evacuate(), here.clone(), there.clone()), vec![read(&target)]),
        (resize(&source, &elsewhere), vec![store(IMAGE), read(&elsewhere)]),
        (resize(&source, &target), vec![export()]),
        (operation(live, here, there), vec![export()]),
    ]
}

/// Transfers that differ from this one in the host, the host's cell, the image or source, or the direction.
fn others(transfer: &HostTransfer) -> Vec<HostTransfer> {
    let HostTransfer { host: Asker { cell, host }, bytes } = transfer.clone();
    let other_bytes = match bytes {
        HostBytes::ReadImage(image) => vec![HostBytes::ReadImage(OTHER), HostBytes::StoreImage(image)],
        HostBytes::StoreImage(image) => vec![HostBytes::StoreImage(OTHER), HostBytes::ReadImage(image)],
        HostBytes::ReadExport { .. } => vec![HostBytes::ReadExport { source: "host9".into() }, HostBytes::ReadImage(IMAGE)],
    };
    let with_bytes = other_bytes.into_iter().map(|bytes| HostTransfer { bytes, ..transfer.clone() });
    let hosts = [Asker { cell: cell.clone(), host: "host9".into() }, Asker { cell: "cell9".into(), host }];
    with_bytes.chain(hosts.map(|host| HostTransfer { host, ..transfer.clone() })).collect()
}

#[tokio::test]
async fn an_operation_in_flight_allows_its_own_transfers_alone() {
    for (context, transfers) in operations() {
        let facts = facts();
        begin(&facts, &context).await;
        for transfer in &transfers {
            assert_eq!(facts.may_move(SERVER, transfer).await, Some(true), "{}: {transfer}", context.kind);
            assert_eq!(facts.may_move(OTHER, transfer).await, Some(false), "{}: {transfer}", context.kind);
            for other in others(transfer) {
                assert_eq!(facts.may_move(SERVER, &other).await, Some(false), "{}: {other}", context.kind);
            }
        }
    }
}

#[test]
fn each_operation_that_copies_disks_moves_bytes() {
    let (source, target) = (Some(place("cell1", "host1")), Some(place("cell1", "host2")));
    let others = [Request::Start, Request::Revert, Request::ShelveOffload, Request::Heal, Request::Unrescue, Request::Delete];
    let others = others.map(|request| operation(request, source.clone(), target.clone()));
    for context in operations().into_iter().map(|(context, _)| context).chain(others) {
        let part = context.part();
        assert_eq!(!part.transfers().is_empty(), part.rules().copies_disks, "{}", context.kind);
    }
}

#[tokio::test]
async fn a_server_on_a_volume_moves_no_image_of_its_root_disk() {
    for (mut context, transfers) in operations() {
        context.volume_backed = true;
        let may_move = match &context {
            Context::Create(_) | Context::Rebuild(_) | Context::CreateImage(_) | Context::Shelve(_) | Context::Unshelve(_) => Vec::new(),
            // The other disks travel, and a rescue makes a disk of its own. The request of an evacuation names no image.
            _ => transfers,
        };
        assert_eq!(context.part().transfers(), may_move, "{}", context.kind);
    }
}

#[tokio::test]
async fn an_operation_that_has_ended_allows_nothing() {
    let (facts, (context, transfers)) = (facts(), operations().remove(0));
    let (operations, transfer) = (&facts.operations, &transfers[0]);
    begin(&facts, &context).await;
    let unwinding = Append { ends: false, ..end_of(SAGA, SERVER, SagaState::Unwinding) };
    operations.append(unwinding).await.unwrap();
    assert_eq!(facts.may_move(SERVER, transfer).await, Some(true), "a late request of it may be at work");
    let (step, side, reason) = ("prepare_guest".into(), "act".into(), "no answer".into());
    let debt = NewDebt { owed_seq: 1, step, side, context: "{}".into(), reason };
    operations.append(Append { owed: vec![debt], ..end_of(SAGA, SERVER, SagaState::Unwound) }).await.unwrap();
    assert_eq!(facts.may_move(SERVER, transfer).await, Some(false));
    let debt = operations.debts(Some(SERVER)).await.unwrap().remove(0);
    assert!(operations.hold(&debt, "test", true).await.unwrap().is_some());
    assert_eq!(operations.holder(SERVER).await.unwrap(), Some(SAGA));
    assert_eq!(facts.may_move(SERVER, transfer).await, Some(false), "a payment moves no bytes");
}

#[tokio::test]
async fn an_unreadable_journal_neither_allows_nor_refuses() {
    let (facts, (_, transfers)) = (facts(), operations().remove(0));
    facts.operations.begin(NewSaga::new(SAGA, SERVER, ("create", 1), "accept", "{}".into(), "test")).await.unwrap();
    assert_eq!(facts.may_move(SERVER, &transfers[0]).await, None, "another release wrote it");
    assert_eq!(facts.may_move(OTHER, &transfers[0]).await, Some(false));
    facts.api.db().set_outage(Outage::Refuses);
    assert_eq!(facts.may_move(OTHER, &transfers[0]).await, None);
}
