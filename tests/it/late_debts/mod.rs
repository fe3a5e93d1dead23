//! Debts that are paid late, after the server has gone on. Each test owes everything that a table may owe, once for each way in which a
//! server may go on. A payment must take away nothing that is in use
//! again, and bring nothing back (INVARIANTS S5). A run on PostgreSQL takes a part of the ways (see `CELLSHIFT_FAULTS_FURTHER` in
//! `tests/it/faults`).

mod mended;

use std::collections::BTreeSet;

use cellshift::chaos::point::{Moment, StepFault};
use cellshift::config::{Config, Seconds};
use cellshift::db::api::debts::NewDebt;
use cellshift::db::api::operations::Append;
use cellshift::domain::saga_record::{SagaFilter, SagaRecord};
use cellshift::saga::context::{Context, Place};
use cellshift::saga::step::{Class, Step, Table, Undo};
use cellshift::saga::tables::{self, table_of};
use serde_json::json;
use uuid::Uuid;

use crate::client::id_of;
use crate::cloud::difference;
use crate::faults;
use crate::faults::view::{View, view};
use crate::stage::{Stage, play, play_default};

/// An action of a user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    /// A move to another cell, or back to the first.
    Across,
    Back,
    /// A move to the other host of its cell.
    Within,
    Confirm,
    Revert,
    /// An evacuation from its host, which is forced down meanwhile.
    Evacuate,
    /// A live migration to the other host of its cell.
    Live,
    Shelve,
    /// A shelved server leaves its host.
    Offload,
    Unshelve,
    /// An unshelve onto a host of cell2.
    UnshelveAcross,
    Start,
    Stop,
    Reboot,
    /// An image of the root disk.
    Snapshot,
    /// A snapshot of a server whose root disk is a volume.
    SnapshotOfVolumes,
    Pause,
    Unpause,
    Suspend,
    Resume,
    Rescue,
    Unrescue,
    Rebuild,
    /// A rebuild of a server whose root disk is a volume.
    Reimage,
    HardReboot,
    Attach,
    Detach,
    /// An attach of a port that the server does not have.
    Plug,
    Unplug,
    /// The server's port gets another address.
    AddAddress,
    /// The server's port loses its newest address.
    DropAddress,
    /// A delete for good.
    Delete,
    SoftDelete,
    Restore,
}

use Act::{
    Across, AddAddress, Attach, Back, Confirm, Delete, Detach, DropAddress, Evacuate, HardReboot, Live, Offload, Pause, Plug, Reboot,
    Rebuild, Reimage, Rescue, Restore, Resume, Revert, Shelve, Snapshot, SnapshotOfVolumes, SoftDelete, Start, Stop, Suspend, Unpause,
    Unplug, Unrescue, Unshelve, UnshelveAcross, Within,
};

impl Act {
    /// An action before which a move's debts are paid.
    fn builds_upon_debts(self) -> bool {
        matches!(
            self,
            Across | Back | Within | Confirm | Revert | Evacuate | Live | Shelve | Offload | Unshelve | UnshelveAcross | Plug | Unplug
        )
    }
}

/// The part of an operation's steps that is owed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owed {
    /// The undos: the operation was undone.
    Undos,
    /// The clean-ups: the operation was done.
    CleanUps,
    /// The undos at a candidate: the operation was done after that candidate had refused.
    AtOtherCandidate,
}

/// An operation that owes, and the ways in which its server goes on.
struct Story {
    /// The name of the owing saga in the register.
    saga: &'static str,
    before: &'static [Act],
    owing: Act,
    owed: Owed,
    /// Refused after its effect, so that the whole operation is undone.
    refused: Option<&'static str>,
    ways: &'static [&'static [Act]],
}

/// A server with a volume, and a spare volume and a spare port.
#[derive(Clone, Copy)]
struct Subject {
    server: Uuid,
    spare: Uuid,
    port: Uuid,
}

impl Subject {
    fn alone(server: Uuid) -> Subject {
        Subject { server, spare: Uuid::nil(), port: Uuid::nil() }
    }
}

async fn subject(stage: &Stage, owing: Act) -> Subject {
    let new = match owing {
        Reimage | SnapshotOfVolumes => stage.volume_server(),
        UnshelveAcross => stage.server().flavor("m1.tiny").with("availability_zone", json!("cell1")),
        _ => stage.server(),
    };
    let server = stage.create(new).await;
    let volume = stage.member.make_volume().await;
    stage.member.attach(server, volume).await.expect(200);
    stage.at_rest(server, "ACTIVE").await;
    let port = crate::interfaces::spare_port(stage).await;
    Subject { server, spare: stage.member.make_volume().await, port }
}

/// Performs the action, and waits for its end.
async fn act(stage: &Stage, subject: Subject, act: Act) {
    let Subject { server, spare, port } = subject;
    let member = &stage.member;
    match act {
        Across => member.resize(server, "gen2.small").await.expect(202),
        Back => member.resize(server, "gen1.small").await.expect(202),
        Within => {
            let now = member.show(server).await["flavor"]["original_name"].as_str().unwrap_or_default().to_owned();
            let generation = now.split('.').next().unwrap_or_default();
            member.resize(server, &format!("{generation}.{}", if now.ends_with("small") { "large" } else { "small" })).await.expect(202)
        }
        Confirm => member.confirm(server).await.expect(204),
        Revert => member.revert(server).await.expect(202),
        Evacuate => {
            let host = stage.admin.show(server).await["OS-EXT-SRV-ATTR:host"].as_str().unwrap_or_default().to_owned();
            stage.force_down(&host, true).await;
            let answer = stage.admin.act(server, json!({"evacuate": {}})).await.expect(200);
            stage.ended(server).await;
            stage.paid(server).await;
            stage.force_down(&host, false).await;
            answer
        }
        Live => {
            let anywhere = json!({"os-migrateLive": {"host": null, "block_migration": "auto"}});
            stage.admin.speaking("2.68").act(server, anywhere).await.expect(202)
        }
        Shelve => member.act(server, json!({"shelve": null})).await.expect(202),
        Offload => stage.admin.act(server, json!({"shelveOffload": null})).await.expect(202),
        Unshelve => member.act(server, json!({"unshelve": null})).await.expect(202),
        UnshelveAcross => {
            let there = json!({"unshelve": {"availability_zone": null, "host": "cell2-host1"}});
            stage.admin.speaking("2.91").act(server, there).await.expect(202)
        }
        Start => member.act(server, json!({"os-start": null})).await.expect(202),
        Reboot => member.act(server, json!({"reboot": {"type": "SOFT"}})).await.expect(202),
        Stop => member.act(server, json!({"os-stop": null})).await.expect(202),
        Snapshot | SnapshotOfVolumes => member.act(server, json!({"createImage": {"name": "keepsake"}})).await.expect(202),
        Pause => member.act(server, json!({"pause": null})).await.expect(202),
        Unpause => member.act(server, json!({"unpause": null})).await.expect(202),
        Suspend => member.act(server, json!({"suspend": null})).await.expect(202),
        Resume => member.act(server, json!({"resume": null})).await.expect(202),
        Rescue => member.act(server, json!({"rescue": null})).await.expect(200),
        Unrescue => member.act(server, json!({"unrescue": null})).await.expect(202),
        Rebuild => member.act(server, json!({"rebuild": {"imageRef": stage.image}})).await.expect(202),
        Reimage => member.speaking("2.93").act(server, json!({"rebuild": {"imageRef": stage.image}})).await.expect(202),
        HardReboot => member.act(server, json!({"reboot": {"type": "HARD"}})).await.expect(202),
        // The answer comes at the end of the operation.
        Attach => member.attach(server, spare).await,
        Detach => member.detach(server, spare).await.expect(202),
        // The answer tells whether it was done.
        Plug => member.post(&format!("/servers/{server}/os-interface"), json!({"interfaceAttachment": {"port_id": port}})).await,
        Unplug => member.delete(&format!("/servers/{server}/os-interface/{port}")).await.expect(202),
        AddAddress => {
            let port = stage.world().network.ports_of(server).await.expect("ports").remove(0);
            member.speaking("2.43").act(server, json!({"addFixedIp": {"networkId": port.network_id}})).await.expect(202)
        }
        DropAddress => {
            let port = stage.world().network.ports_of(server).await.expect("ports").remove(0);
            let newest = &port.fixed_ips.last().expect("an address").ip_address;
            member.speaking("2.43").act(server, json!({"removeFixedIp": {"address": newest}})).await.expect(202)
        }
        Delete => member.act(server, json!({"forceDelete": null})).await.expect(202),
        SoftDelete => member.delete(&format!("/servers/{server}")).await.expect(204),
        Restore => member.act(server, json!({"restore": null})).await.expect(202),
    };
    stage.ended(server).await;
}

/// Returns the server's last operation.
async fn last_operation(stage: &Stage, server: Uuid) -> SagaRecord {
    let filter = SagaFilter { server: Some(server), limit: 1, ..SagaFilter::default() };
    stage.world().operations.list(filter).await.expect("the journal answers").remove(0)
}

/// Returns the sides that the operation may owe, in the order in which it would owe them.
fn sides(table: &Table, owed: Owed) -> Vec<(&'static Step, &'static str)> {
    let steps = table.steps;
    match owed {
        Owed::CleanUps => steps.iter().filter(|step| step.class == Class::Cleanup).map(|step| (step, "act")).collect(),
        Owed::Undos => {
            let undone = |step: &&Step| step.class == Class::Reversible && step.undo.work().is_some();
            // The first step is tried until it is done.
            steps[1..].iter().filter(undone).map(|step| (step, "undo")).rev().collect()
        }
        Owed::AtOtherCandidate => {
            steps.iter().filter(|step| matches!(step.undo, Undo::AtCandidate(_))).map(|step| (step, "undo")).rev().collect()
        }
    }
}

/// Returns the other host of the place's cell.
async fn other_host(stage: &Stage, place: &Place) -> Place {
    let nodes = stage.cell(&place.cell).compute_nodes().await.expect("nodes");
    let node = nodes.into_iter().find(|node| node.host != place.host).expect("another host");
    let providers = stage.world().placement.providers().await.expect("providers");
    let provider = providers.into_iter().find(|provider| provider.name == node.hypervisor_hostname).expect("its provider").uuid;
    Place { host: node.host, node: node.hypervisor_hostname, provider, ..place.clone() }
}

/// Returns the view of the server, and the moves that each cell knows of.
async fn whole_view(stage: &Stage, server: Uuid) -> View {
    let mut view = view(&stage.running.tree, server).await;
    for cell in ["cell0", "cell1", "cell2"] {
        let record = stage.record(cell, server).await.map(|record| (record.host, record.hidden, record.vm_state, record.flavor.name));
        let moves: Vec<_> = stage.migrations(cell, server).await.into_iter().map(|it| format!("{} {}", it.uuid, it.status)).collect();
        view.insert(format!("records in {cell}"), format!("{record:?}, moves {moves:?}"));
    }
    let attachments = stage.world().volumes.attachments_of(server).await.expect("attachments");
    let ids: BTreeSet<Uuid> = attachments.into_iter().map(|attachment| attachment.id).collect();
    view.insert("attachment ids".to_owned(), format!("{ids:?}"));
    view
}

/// Records a debt.
async fn owe(stage: &Stage, owing: &SagaRecord, context: &Context, number: i64, (step, side): (&Step, &str)) {
    let record = stage.world().operations.saga(owing.id).await.expect("the journal answers").expect("the operation");
    let debt = NewDebt {
        owed_seq: 1000 + number,
        step: step.name.to_string(),
        side: side.to_owned(),
        context: serde_json::to_string(context).expect("a context"),
        reason: "a test says so".to_owned(),
    };
    let append = Append {
        saga: owing.id,
        server: context.server,
        lease_epoch: record.lease.epoch,
        entries: Vec::new(),
        state: record.state,
        step: record.step,
        context: None,
        error: record.error,
        begins: false,
        ends: false,
        owed: vec![debt],
        heeds_cancellation: false,
        follow_up: None,
    };
    stage.world().operations.append(append).await.expect("a debt");
}

/// Records a debt and pays it; the view must not change.
async fn owe_and_pay(stage: &Stage, way: &[Act], owing: &SagaRecord, context: &Context, number: i64, (step, side): (&Step, &str)) {
    let server = context.server;
    let before = whole_view(stage, server).await;
    owe(stage, owing, context, number, (step, side)).await;
    let paid = async || {
        stage.running.tree.conductor.pay_debts().await;
        let debts = stage.debts(server).await;
        let failed = debts.iter().find(|debt| debt.tries > 0);
        assert!(failed.is_none(), "{way:?}: {failed:#?}");
        debts.is_empty()
    };
    stage.until("the debt is paid", paid).await;
    let changed = difference(&before, &whole_view(stage, server).await);
    assert!(changed.is_empty(), "after {way:?}, {side} of {}: {changed:#?}", step.name.as_str());
}

/// Owes and pays everything that the last operation may owe, after `way`.
async fn go_on(stage: &Stage, subject: Subject, owed: Owed, way: &[Act]) {
    let owing = last_operation(stage, subject.server).await;
    let mut context: Context = serde_json::from_str(&owing.context).expect("a context");
    if owed == Owed::AtOtherCandidate {
        context.target = Some(other_host(stage, context.target().expect("a target")).await);
    }
    for next in way {
        act(stage, subject, *next).await;
    }
    let waited_for = way.iter().any(|act| act.builds_upon_debts());
    let sides = sides(&table_of(&context), owed);
    assert!(!sides.is_empty(), "{} owes nothing", owing.kind);
    for (number, side) in (0..).zip(sides).filter(|(_, (step, _))| !(waited_for && step.next_move_waits)) {
        owe_and_pay(stage, way, &owing, &context, number, side).await;
    }
}

fn tell(story: &'static Story) {
    let stays_on_its_host = ["shelve", "shelve_offload", "unshelve_in_place"].contains(&story.saga);
    let can_come_back = ["soft_delete", "restore"].contains(&story.saga);
    let configure = move |config: &mut Config| {
        config.compute.shelved_offload_time = if stays_on_its_host { -1 } else { 0 };
        config.compute.reclaim_instance_interval = Seconds::whole(if can_come_back { 3600 } else { 0 });
    };
    play(configure, move |stage| async move {
        for way in faults::a_part_on_postgres(story.ways.to_vec()) {
            let subject = subject(&stage, story.owing).await;
            for before in story.before {
                act(&stage, subject, *before).await;
            }
            if let Some(refused) = story.refused {
                stage.arm(move |point| match point.moment {
                    Moment::AfterEffect if point.step == refused && point.side == "act" => StepFault::Refuse,
                    _ => StepFault::None,
                });
            }
            act(&stage, subject, story.owing).await;
            stage.disarm();
            let owing = last_operation(&stage, subject.server).await;
            let context: Context = serde_json::from_str(&owing.context).expect("a context");
            let registered = tables::ALL.iter().find(|(name, _)| *name == story.saga).expect("a saga").1;
            let names = |table: Table| table.steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>();
            assert_eq!(names(table_of(&context)), names(registered), "the saga {}", story.saga);
            assert_eq!(owing.state.as_str(), if story.refused.is_some() { "unwound" } else { "done" });
            go_on(&stage, subject, story.owed, way).await;
            if way.last() != Some(&Delete) && story.owing != Delete {
                act(&stage, subject, Delete).await;
            }
        }
    });
}

macro_rules! stories {
    ($($name:ident: $story:expr;)*) => {
        const STORIES: &[&Story] = &[$(&$story),*];

        $(#[test]
        fn $name() {
            const STORY: &Story = &$story;
            tell(STORY);
        })*
    };
}

const AFTER_A_MOVE_THAT_CAME_BACK: &[&[Act]] = &[
    &[],
    &[Stop],
    &[Rebuild],
    &[Across],
    &[Across, Confirm],
    &[Across, Revert],
    &[Across, Confirm, Back, Confirm],
    &[Within],
    &[Within, Confirm],
    &[Within, Revert],
    &[Delete],
];
const AFTER_A_GUEST_THAT_DID_NOT_OBEY: &[&[Act]] = &[&[], &[HardReboot], &[HardReboot, Stop], &[HardReboot, Across], &[Delete]];
const AFTER_A_SHELVE_THAT_FAILED: &[&[Act]] = &[&[], &[HardReboot], &[HardReboot, Stop], &[Shelve], &[Across], &[Delete]];
const AFTER_AN_OFFLOAD: &[&[Act]] = &[&[], &[Unshelve], &[Unshelve, Stop], &[Unshelve, Within], &[Unshelve, Shelve], &[Delete]];
const AFTER_A_REVERT_THAT_FAILED: &[&[Act]] = &[&[], &[Confirm], &[Revert], &[Revert, Within], &[Delete]];

stories! {
    a_move_to_another_cell_that_came_back:
        Story { saga: "cross_cell_resize", before: &[], owing: Across, owed: Owed::Undos, refused: Some("prepare_at_target"), ways: AFTER_A_MOVE_THAT_CAME_BACK };
    a_move_within_a_cell_that_came_back:
        Story { saga: "same_cell_resize", before: &[], owing: Within, owed: Owed::Undos, refused: Some("prepare_at_target"), ways: AFTER_A_MOVE_THAT_CAME_BACK };
    a_move_to_another_cell:
        Story { saga: "cross_cell_resize", before: &[], owing: Across, owed: Owed::CleanUps, refused: None, ways: &[&[], &[Confirm], &[Revert, Across], &[Delete]] };
    a_move_within_a_cell:
        Story { saga: "same_cell_resize", before: &[], owing: Within, owed: Owed::CleanUps, refused: None, ways: &[&[], &[Confirm, Within], &[Revert, Within], &[Delete]] };
    a_candidate_of_a_move:
        Story { saga: "cross_cell_resize", before: &[], owing: Across, owed: Owed::AtOtherCandidate, refused: None,
            ways: &[&[], &[Confirm], &[Confirm, Within], &[Confirm, Within, Confirm], &[Confirm, Within, Revert], &[Revert, Across], &[Delete]] };
    a_revert_across_cells_that_failed:
        Story { saga: "revert", before: &[Across], owing: Revert, owed: Owed::Undos, refused: Some("activate_source_ports"), ways: AFTER_A_REVERT_THAT_FAILED };
    a_revert_within_a_cell_that_failed:
        Story { saga: "revert", before: &[Within], owing: Revert, owed: Owed::Undos, refused: Some("activate_source_ports"), ways: AFTER_A_REVERT_THAT_FAILED };
    a_revert_across_cells:
        Story { saga: "revert", before: &[Across], owing: Revert, owed: Owed::CleanUps, refused: None, ways: &[&[], &[Stop], &[Across], &[Across, Confirm], &[Within], &[Delete]] };
    a_revert_within_a_cell:
        Story { saga: "revert", before: &[Within], owing: Revert, owed: Owed::CleanUps, refused: None, ways: &[&[], &[Stop], &[Within], &[Within, Confirm], &[Across], &[Delete]] };
    a_confirm_across_cells:
        Story { saga: "confirm", before: &[Across], owing: Confirm, owed: Owed::CleanUps, refused: None,
            ways: &[&[], &[Stop], &[Back], &[Back, Confirm], &[Back, Revert], &[Within], &[Delete]] };
    a_confirm_within_a_cell:
        Story { saga: "confirm", before: &[Within], owing: Confirm, owed: Owed::CleanUps, refused: None,
            ways: &[&[], &[Within], &[Within, Confirm], &[Within, Revert], &[Across], &[Delete]] };
    an_evacuation_that_came_back:
        Story { saga: "evacuate", before: &[], owing: Evacuate, owed: Owed::Undos, refused: Some("prepare_at_target"), ways: AFTER_A_MOVE_THAT_CAME_BACK };
    an_evacuation:
        Story { saga: "evacuate", before: &[], owing: Evacuate, owed: Owed::CleanUps, refused: None,
            ways: &[&[], &[Stop], &[Within], &[Within, Confirm], &[Within, Revert], &[Evacuate], &[Across], &[Across, Confirm], &[Delete]] };
    a_live_migration_that_came_back:
        Story { saga: "live_migration", before: &[], owing: Live, owed: Owed::Undos, refused: Some("copy_guest"), ways: AFTER_A_MOVE_THAT_CAME_BACK };
    a_live_migration:
        Story { saga: "live_migration", before: &[], owing: Live, owed: Owed::CleanUps, refused: None,
            ways: &[&[], &[Stop], &[Live], &[Within], &[Within, Confirm], &[Within, Revert], &[Across], &[Delete]] };
    a_shelve_that_failed:
        Story { saga: "shelve", before: &[], owing: Shelve, owed: Owed::Undos, refused: Some("upload_shelved_image"), ways: AFTER_A_SHELVE_THAT_FAILED };
    a_shelve_and_offload_that_failed:
        Story { saga: "shelve_and_offload", before: &[], owing: Shelve, owed: Owed::Undos, refused: Some("upload_shelved_image"), ways: AFTER_A_SHELVE_THAT_FAILED };
    a_shelve_and_offload:
        Story { saga: "shelve_and_offload", before: &[], owing: Shelve, owed: Owed::CleanUps, refused: None, ways: AFTER_AN_OFFLOAD };
    an_offload:
        Story { saga: "shelve_offload", before: &[Shelve], owing: Offload, owed: Owed::CleanUps, refused: None, ways: AFTER_AN_OFFLOAD };
    an_unshelve_in_place_that_failed:
        Story { saga: "unshelve_in_place", before: &[Shelve], owing: Unshelve, owed: Owed::Undos, refused: Some("start_guest"),
            ways: &[&[], &[Unshelve], &[Unshelve, Stop], &[Offload], &[Delete]] };
    an_unshelve_in_place:
        Story { saga: "unshelve_in_place", before: &[Shelve], owing: Unshelve, owed: Owed::CleanUps, refused: None, ways: &[&[], &[Shelve], &[Delete]] };
    an_unshelve_that_failed:
        Story { saga: "unshelve", before: &[Shelve], owing: Unshelve, owed: Owed::Undos, refused: Some("prepare_at_target"),
            ways: &[&[], &[Unshelve], &[Unshelve, Within], &[Delete]] };
    an_unshelve:
        Story { saga: "unshelve", before: &[Shelve], owing: Unshelve, owed: Owed::CleanUps, refused: None,
            ways: &[&[], &[Stop], &[Shelve], &[Within], &[Across, Confirm], &[Delete]] };
    an_unshelve_across_cells_that_failed:
        Story { saga: "cross_cell_unshelve", before: &[Shelve], owing: UnshelveAcross, owed: Owed::Undos, refused: Some("prepare_at_target"),
            ways: &[&[], &[Unshelve], &[Unshelve, Within], &[Unshelve, Across], &[UnshelveAcross], &[UnshelveAcross, Back], &[Delete]] };
    an_unshelve_across_cells:
        Story { saga: "cross_cell_unshelve", before: &[Shelve], owing: UnshelveAcross, owed: Owed::CleanUps, refused: None,
            ways: &[&[], &[Stop], &[Shelve], &[Shelve, Unshelve], &[Back], &[Back, Confirm], &[Back, Revert], &[Back, Confirm, Across], &[Delete]] };
    a_candidate_of_an_unshelve_across_cells:
        Story { saga: "cross_cell_unshelve", before: &[Shelve], owing: UnshelveAcross, owed: Owed::AtOtherCandidate, refused: None,
            ways: &[&[], &[Shelve, Unshelve], &[Within, Confirm], &[Back], &[Delete]] };
    a_rescue_that_failed:
        Story { saga: "rescue", before: &[], owing: Rescue, owed: Owed::Undos, refused: Some("start_guest"),
            ways: &[&[], &[Rescue], &[Rescue, Unrescue], &[HardReboot], &[Stop], &[Across], &[Delete]] };
    an_unrescue_that_failed:
        Story { saga: "unrescue", before: &[Rescue], owing: Unrescue, owed: Owed::Undos, refused: Some("stop_guest"),
            ways: &[&[], &[Unrescue], &[Unrescue, Stop], &[Unrescue, Across], &[Delete]] };
    a_rebuild_that_failed:
        Story { saga: "rebuild", before: &[], owing: Rebuild, owed: Owed::Undos, refused: Some("start_guest"), ways: &[&[HardReboot], &[HardReboot, Stop], &[HardReboot, Across], &[Delete]] };
    a_rebuild_of_a_root_volume_that_failed:
        Story { saga: "rebuild_of_root_volume", before: &[], owing: Reimage, owed: Owed::Undos, refused: Some("start_guest"), ways: &[&[HardReboot], &[HardReboot, Stop], &[Reimage], &[Delete]] };
    an_attach_that_failed:
        Story { saga: "attach_volume", before: &[], owing: Attach, owed: Owed::Undos, refused: Some("connect_volume"),
            ways: &[&[], &[Attach], &[Attach, Detach], &[Attach, Across], &[Attach, Across, Confirm], &[Delete]] };
    an_attach_of_an_interface_that_failed:
        Story { saga: "attach_interface", before: &[], owing: Plug, owed: Owed::Undos, refused: Some("plug_interface"),
            ways: &[&[], &[Stop], &[Plug], &[Plug, Unplug], &[Plug, Across], &[Plug, Across, Confirm], &[Delete]] };
    a_detach_of_an_interface_that_failed:
        Story { saga: "detach_interface", before: &[Plug], owing: Unplug, owed: Owed::Undos, refused: Some("unplug_interface"),
            ways: &[&[], &[Stop], &[Unplug], &[Unplug, Plug], &[Across], &[Across, Confirm], &[Delete]] };
    an_address_that_was_not_added:
        Story { saga: "add_fixed_ip", before: &[], owing: AddAddress, owed: Owed::Undos, refused: Some("take_address"),
            ways: &[&[], &[AddAddress], &[AddAddress, DropAddress], &[Across], &[Across, Confirm], &[Delete]] };
    an_address_that_was_not_removed:
        Story { saga: "remove_fixed_ip", before: &[AddAddress], owing: DropAddress, owed: Owed::Undos, refused: Some("drop_address"),
            ways: &[&[], &[DropAddress], &[DropAddress, AddAddress], &[Across], &[Across, Confirm], &[Delete]] };
    a_start_that_failed:
        Story { saga: "start", before: &[Stop], owing: Start, owed: Owed::Undos, refused: Some("start_guest"), ways: AFTER_A_GUEST_THAT_DID_NOT_OBEY };
    a_stop_that_failed:
        Story { saga: "stop", before: &[], owing: Stop, owed: Owed::Undos, refused: Some("stop_guest"), ways: AFTER_A_GUEST_THAT_DID_NOT_OBEY };
    a_reboot_that_failed:
        Story { saga: "soft_reboot", before: &[], owing: Reboot, owed: Owed::Undos, refused: Some("reboot_guest"), ways: AFTER_A_GUEST_THAT_DID_NOT_OBEY };
    a_pause_that_failed:
        Story { saga: "pause", before: &[], owing: Pause, owed: Owed::Undos, refused: Some("pause_guest"), ways: AFTER_A_GUEST_THAT_DID_NOT_OBEY };
    an_unpause_that_failed:
        Story { saga: "unpause", before: &[Pause], owing: Unpause, owed: Owed::Undos, refused: Some("resume_guest"), ways: AFTER_A_GUEST_THAT_DID_NOT_OBEY };
    a_suspend_that_failed:
        Story { saga: "suspend", before: &[], owing: Suspend, owed: Owed::Undos, refused: Some("suspend_guest"), ways: AFTER_A_GUEST_THAT_DID_NOT_OBEY };
    a_resume_that_failed:
        Story { saga: "resume", before: &[Suspend], owing: Resume, owed: Owed::Undos, refused: Some("resume_guest"), ways: AFTER_A_GUEST_THAT_DID_NOT_OBEY };
    a_snapshot_that_failed:
        Story { saga: "create_image", before: &[], owing: Snapshot, owed: Owed::Undos, refused: Some("upload_image"),
            ways: &[&[], &[HardReboot], &[HardReboot, Stop], &[Delete]] };
    an_image_of_volumes_that_failed:
        Story { saga: "create_image_of_volumes", before: &[], owing: SnapshotOfVolumes, owed: Owed::Undos, refused: Some("take_snapshots"),
            ways: &[&[], &[SnapshotOfVolumes], &[HardReboot, Stop], &[Delete]] };
    a_soft_delete:
        Story { saga: "soft_delete", before: &[], owing: SoftDelete, owed: Owed::CleanUps, refused: None,
            ways: &[&[], &[SoftDelete], &[Restore], &[Restore, Stop], &[Restore, Within], &[Restore, Across, Confirm], &[Delete]] };
    a_soft_delete_of_a_resized_server:
        Story { saga: "soft_delete", before: &[Across], owing: SoftDelete, owed: Owed::CleanUps, refused: None,
            ways: &[&[], &[Restore], &[Restore, Back], &[Restore, Back, Confirm], &[Delete]] };
    a_restore_that_failed:
        Story { saga: "restore", before: &[SoftDelete], owing: Restore, owed: Owed::Undos, refused: Some("start_guest"),
            ways: &[&[], &[Restore], &[Restore, Stop], &[Restore, SoftDelete], &[Restore, Across], &[Delete]] };
    a_delete:
        Story { saga: "delete", before: &[], owing: Delete, owed: Owed::CleanUps, refused: None, ways: &[&[]] };
}

/// The server came to its second candidate, and goes to its first one later.
#[test]
fn a_candidate_of_a_create() {
    play_default(|stage| async move {
        let ways: [&[Act]; 6] = [&[], &[Within], &[Within, Confirm], &[Within, Revert], &[Across, Confirm], &[Delete]];
        for way in ways {
            let server = stage.create(stage.server()).await;
            let subject = Subject::alone(server);
            go_on(&stage, subject, Owed::AtOtherCandidate, way).await;
            if way.last() != Some(&Delete) {
                act(&stage, subject, Delete).await;
            }
        }
    });
}

/// The server lies in cell0, and can be shown and deleted.
#[test]
fn a_create_that_failed() {
    play_default(|stage| async move {
        for way in [&[] as &[Act], &[Delete]] {
            stage.arm(|point| match point.moment {
                Moment::AfterEffect if point.step == "prepare_guest" && point.side == "act" => StepFault::Refuse,
                _ => StepFault::None,
            });
            let server = id_of(&stage.server().ask(&stage.member).await.expect(202).body["server"]);
            stage.at_rest(server, "ERROR").await;
            stage.disarm();
            let subject = Subject::alone(server);
            go_on(&stage, subject, Owed::Undos, way).await;
            if way.is_empty() {
                act(&stage, subject, Delete).await;
            }
        }
    });
}

#[test]
fn every_saga_that_may_owe_has_its_story() {
    // A create that failed has no further way, and the tests of guaranteed ports tell of a heal.
    let stories: BTreeSet<&str> = STORIES.iter().map(|story| story.saga).chain(["create", "heal"]).collect();
    let owes = |table: &Table| [Owed::Undos, Owed::CleanUps].into_iter().any(|owed| !sides(table, owed).is_empty());
    let owing: BTreeSet<&str> = tables::ALL.iter().filter(|(_, table)| owes(table)).map(|(name, _)| *name).collect();
    assert_eq!(stories, owing);
}
