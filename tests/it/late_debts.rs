//! What an operation owes is paid at any time after it, however far its server has gone on since. Here everything that a table may
//! owe is owed, once for each way in which a server may go on; paying it takes nothing that is in use again, and brings nothing
//! back (architecture §5, rule 5).

use cellshift::chaos::point::{Fault, Moment};
use cellshift::db::api::debts::NewDebt;
use cellshift::db::api::operations::{Append, SagaFilter, SagaRecord};
use cellshift::saga::context::{Context, Place};
use cellshift::saga::step::{Class, Step, Undo};
use cellshift::saga::tables::table_of;
use serde_json::json;
use uuid::Uuid;

use crate::client::id_of;
use crate::stage::{Stage, play_default};

/// What a user does with the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    /// To another cell, or back to the first.
    Across,
    Back,
    /// To the other host of its cell.
    Within,
    Confirm,
    Revert,
    Stop,
    Rebuild,
    HardReboot,
    Attach,
    Detach,
    Delete,
}

use Act::{Across, Attach, Back, Confirm, Delete, Detach, HardReboot, Rebuild, Revert, Stop, Within};

impl Act {
    /// One before which a move's debts are paid.
    fn builds_upon_debts(self) -> bool {
        matches!(self, Across | Back | Within | Confirm | Revert)
    }
}

/// Of which of an operation's steps something is owed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owed {
    /// It was undone.
    Undos,
    /// It was done.
    CleanUps,
    /// It was done after a candidate had refused: that candidate's undos.
    AtOtherCandidate,
}

/// An operation that owes, and how its server goes on.
struct Story {
    before: &'static [Act],
    owing: Act,
    owed: Owed,
    /// Refused after its effect, so that all is undone.
    refused: Option<&'static str>,
    ways: &'static [&'static [Act]],
}

/// A server with a volume of its own, and one to spare.
#[derive(Clone, Copy)]
struct Subject {
    server: Uuid,
    spare: Uuid,
}

async fn subject(stage: &Stage) -> Subject {
    let server = stage.create(stage.server()).await;
    let volume = stage.member.make_volume().await;
    stage.member.attach(server, volume).await.expect(200);
    stage.at_rest(server, "ACTIVE").await;
    Subject { server, spare: stage.member.make_volume().await }
}

/// Does it, and waits for its end, well or not.
async fn act(stage: &Stage, subject: Subject, act: Act) {
    let Subject { server, spare } = subject;
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
        Stop => member.act(server, json!({"os-stop": null})).await.expect(202),
        Rebuild => member.act(server, json!({"rebuild": {"imageRef": stage.image}})).await.expect(202),
        HardReboot => member.act(server, json!({"reboot": {"type": "HARD"}})).await.expect(202),
        // The answer comes when it has ended.
        Attach => member.attach(server, spare).await,
        Detach => member.detach(server, spare).await.expect(202),
        Delete => member.delete(&format!("/servers/{server}")).await.expect(204),
    };
    let waiting = stage.running.tree.conductor.until_at_rest(server);
    tokio::time::timeout(crate::client::PATIENCE, waiting).await.expect("the operation ends").expect("the journal answers");
}

/// The server's last operation.
async fn last_operation(stage: &Stage, server: Uuid) -> SagaRecord {
    let filter = SagaFilter { server: Some(server), limit: 1, ..SagaFilter::default() };
    stage.world().operations.list(filter).await.expect("the journal answers").remove(0)
}

/// The sides that it may owe, in the order in which it would have come to owe them.
fn sides(context: &Context, owed: Owed) -> Vec<(&'static Step, &'static str)> {
    let steps = table_of(context).steps;
    match owed {
        Owed::CleanUps => steps.iter().filter(|step| step.class == Class::Cleanup).map(|step| (step, "act")).collect(),
        Owed::Undos => {
            let undone = |step: &&Step| step.class == Class::Reversible && step.undo.work().is_some();
            // The first is tried until it is done.
            steps[1..].iter().filter(undone).map(|step| (step, "undo")).rev().collect()
        }
        Owed::AtOtherCandidate => {
            steps.iter().filter(|step| matches!(step.undo, Undo::AtCandidate(_))).map(|step| (step, "undo")).rev().collect()
        }
    }
}

/// The host of the same cell that is not the place's.
async fn other_host(stage: &Stage, place: &Place) -> Place {
    let nodes = stage.cell(&place.cell).compute_nodes().await.expect("nodes");
    let node = nodes.into_iter().find(|node| node.host != place.host).expect("another host");
    let providers = stage.world().placement.providers().await.expect("providers");
    let provider = providers.into_iter().find(|provider| provider.name == node.hypervisor_hostname).expect("its provider").uuid;
    Place { host: node.host, node: node.hypervisor_hostname, provider, ..place.clone() }
}

/// All that is known of the server, in lines.
async fn known(stage: &Stage, server: Uuid) -> Vec<String> {
    let mut shown = stage.admin.get(&format!("/servers/{server}")).await.body["server"].clone();
    if let Some(shown) = shown.as_object_mut() {
        shown.remove("updated");
    }
    let mut lines: Vec<String> = serde_json::to_string_pretty(&shown).expect("JSON").lines().map(str::to_owned).collect();
    for cell in ["cell0", "cell1", "cell2"] {
        let record = stage.record(cell, server).await.map(|record| (record.host, record.hidden, record.vm_state, record.flavor.name));
        lines.push(format!("record in {cell}: {record:?}"));
        lines.extend(stage.migrations(cell, server).await.into_iter().map(|it| format!("migration in {cell}: {} {}", it.uuid, it.status)));
    }
    for host in ["cell1-host1", "cell1-host2", "cell2-host1", "cell2-host2"] {
        let guest = stage.guest(host, server).await;
        lines.push(format!("guest on {host}: {:?}", guest.map(|guest| (guest.defined, guest.power_state, guest.volumes))));
    }
    lines.push(format!("allocations: {:?}", stage.allocations(server).await));
    lines.push(format!("bindings: {:?}", stage.bindings(server).await));
    lines.push(format!("attachments: {:?}", stage.attachments(server).await));
    lines
}

/// It is owed from now on, and then it is paid; nothing changes by that.
async fn owe_and_pay(stage: &Stage, way: &[Act], owing: &SagaRecord, context: &Context, number: i64, (step, side): (&Step, &str)) {
    let server = context.server;
    let before = known(stage, server).await;
    let record = stage.world().operations.saga(owing.id).await.expect("the journal answers").expect("the operation");
    let debt = NewDebt {
        owed_seq: 1000 + number,
        step: step.name.to_owned(),
        side: side.to_owned(),
        context: serde_json::to_string(context).expect("a context"),
        reason: "a test says so".to_owned(),
    };
    let append = Append {
        saga: owing.id,
        server,
        lease_epoch: record.lease.epoch,
        entries: Vec::new(),
        state: record.state,
        step: record.step,
        context: None,
        error: record.error,
        begins: false,
        ends: false,
        owed: vec![debt],
    };
    stage.world().operations.append(append).await.expect("a debt");
    let paid = async || {
        stage.running.tree.conductor.pay_debts().await;
        let debts = stage.world().operations.debts(Some(server)).await.expect("debts");
        let failed = debts.iter().find(|debt| debt.tries > 0);
        assert!(failed.is_none(), "{way:?}: {failed:#?}");
        debts.is_empty()
    };
    stage.until("the debt is paid", paid).await;
    let after = known(stage, server).await;
    let new: Vec<&String> = after.iter().filter(|line| !before.contains(line)).collect();
    let gone: Vec<&String> = before.iter().filter(|line| !after.contains(line)).collect();
    assert!(new.is_empty() && gone.is_empty(), "after {way:?}, {side} of {}: from {gone:#?} to {new:#?}", step.name);
}

/// Everything that the last operation may owe is owed and paid, after `way`.
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
    let sides = sides(&context, owed);
    assert!(!sides.is_empty(), "{} owes nothing", owing.kind);
    for (number, side) in (0..).zip(sides).filter(|(_, (step, _))| !(waited_for && step.next_move_waits)) {
        owe_and_pay(stage, way, &owing, &context, number, side).await;
    }
}

fn tell(story: &'static Story) {
    play_default(|stage| async move {
        for way in story.ways {
            let subject = subject(&stage).await;
            for before in story.before {
                act(&stage, subject, *before).await;
            }
            if let Some(refused) = story.refused {
                stage.arm(move |point| match point.moment {
                    Moment::AfterEffect if point.step == refused && point.side == "act" => Fault::Refuse,
                    _ => Fault::None,
                });
            }
            act(&stage, subject, story.owing).await;
            stage.disarm();
            let state = last_operation(&stage, subject.server).await.state;
            assert_eq!(state, if story.refused.is_some() { "unwound" } else { "done" });
            go_on(&stage, subject, story.owed, way).await;
            if way.last() != Some(&Delete) && story.owing != Delete {
                act(&stage, subject, Delete).await;
            }
        }
    });
}

macro_rules! stories {
    ($($name:ident: $story:expr;)*) => {$(
        #[test]
        fn $name() {
            const STORY: &Story = &$story;
            tell(STORY);
        }
    )*};
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
const AFTER_A_REVERT_THAT_FAILED: &[&[Act]] = &[&[], &[Confirm], &[Revert], &[Revert, Within], &[Delete]];

stories! {
    a_move_to_another_cell_that_came_back:
        Story { before: &[], owing: Across, owed: Owed::Undos, refused: Some("prepare_at_target"), ways: AFTER_A_MOVE_THAT_CAME_BACK };
    a_move_within_a_cell_that_came_back:
        Story { before: &[], owing: Within, owed: Owed::Undos, refused: Some("prepare_at_target"), ways: AFTER_A_MOVE_THAT_CAME_BACK };
    a_move_to_another_cell:
        Story { before: &[], owing: Across, owed: Owed::CleanUps, refused: None, ways: &[&[], &[Confirm], &[Revert, Across], &[Delete]] };
    a_move_within_a_cell:
        Story { before: &[], owing: Within, owed: Owed::CleanUps, refused: None, ways: &[&[], &[Confirm, Within], &[Revert, Within], &[Delete]] };
    a_candidate_of_a_move:
        Story { before: &[], owing: Across, owed: Owed::AtOtherCandidate, refused: None,
            ways: &[&[], &[Confirm], &[Confirm, Within], &[Confirm, Within, Confirm], &[Confirm, Within, Revert], &[Revert, Across], &[Delete]] };
    a_revert_across_cells_that_failed:
        Story { before: &[Across], owing: Revert, owed: Owed::Undos, refused: Some("activate_source_ports"), ways: AFTER_A_REVERT_THAT_FAILED };
    a_revert_within_a_cell_that_failed:
        Story { before: &[Within], owing: Revert, owed: Owed::Undos, refused: Some("activate_source_ports"), ways: AFTER_A_REVERT_THAT_FAILED };
    a_revert_across_cells:
        Story { before: &[Across], owing: Revert, owed: Owed::CleanUps, refused: None, ways: &[&[], &[Stop], &[Across], &[Across, Confirm], &[Within], &[Delete]] };
    a_revert_within_a_cell:
        Story { before: &[Within], owing: Revert, owed: Owed::CleanUps, refused: None, ways: &[&[], &[Stop], &[Within], &[Within, Confirm], &[Across], &[Delete]] };
    a_confirm_across_cells:
        Story { before: &[Across], owing: Confirm, owed: Owed::CleanUps, refused: None,
            ways: &[&[], &[Stop], &[Back], &[Back, Confirm], &[Back, Revert], &[Within], &[Delete]] };
    a_confirm_within_a_cell:
        Story { before: &[Within], owing: Confirm, owed: Owed::CleanUps, refused: None,
            ways: &[&[], &[Within], &[Within, Confirm], &[Within, Revert], &[Across], &[Delete]] };
    a_rebuild_that_failed:
        Story { before: &[], owing: Rebuild, owed: Owed::Undos, refused: Some("start_guest"), ways: &[&[HardReboot], &[HardReboot, Stop], &[HardReboot, Across], &[Delete]] };
    an_attach_that_failed:
        Story { before: &[], owing: Attach, owed: Owed::Undos, refused: Some("connect_volume"),
            ways: &[&[], &[Attach], &[Attach, Detach], &[Attach, Across], &[Attach, Across, Confirm], &[Delete]] };
    a_delete:
        Story { before: &[], owing: Delete, owed: Owed::CleanUps, refused: None, ways: &[&[]] };
}

/// The server came to its second candidate, and goes to its first later on.
#[test]
fn a_candidate_of_a_create() {
    play_default(|stage| async move {
        let ways: [&[Act]; 6] = [&[], &[Within], &[Within, Confirm], &[Within, Revert], &[Across, Confirm], &[Delete]];
        for way in ways {
            let server = stage.create(stage.server()).await;
            let subject = Subject { server, spare: Uuid::nil() };
            go_on(&stage, subject, Owed::AtOtherCandidate, way).await;
            if way.last() != Some(&Delete) {
                act(&stage, subject, Delete).await;
            }
        }
    });
}

/// It lies in cell0, to be looked at and deleted.
#[test]
fn a_create_that_failed() {
    play_default(|stage| async move {
        for way in [&[] as &[Act], &[Delete]] {
            stage.arm(|point| match point.moment {
                Moment::AfterEffect if point.step == "prepare_guest" && point.side == "act" => Fault::Refuse,
                _ => Fault::None,
            });
            let server = id_of(&stage.server().ask(&stage.member).await.expect(202).body["server"]);
            stage.at_rest(server, "ERROR").await;
            stage.disarm();
            let subject = Subject { server, spare: Uuid::nil() };
            go_on(&stage, subject, Owed::Undos, way).await;
            if way.is_empty() {
                act(&stage, subject, Delete).await;
            }
        }
    });
}

/// Its user mends the server before the move has given it back all that it owes: the guest is defined by then, and each volume is
/// connected by the attachment that the record named in the middle of the move.
#[test]
fn a_server_that_was_mended_before_the_debt_was_paid() {
    play_default(|stage| async move {
        let mut stood = false;
        for _ in 0..10 {
            let Subject { server, .. } = subject(&stage).await;
            let host = stage.runs_on(server).await;
            stage.arm(|point| match (point.step, point.side, point.moment) {
                ("activate_target_ports", "act", Moment::BeforeEffect) | ("release_source_guest", "undo", Moment::BeforeEffect) => {
                    Fault::Refuse
                }
                _ => Fault::None,
            });
            stage.member.resize(server, "gen2.small").await.expect(202);
            stage.at_rest(server, "ERROR").await;
            stage.disarm();
            stage.member.act(server, json!({"reboot": {"type": "HARD"}})).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
            // A conductor may have paid it first, in its own time.
            stood |= !stage.world().operations.debts(Some(server)).await.expect("debts").is_empty();
            let paid = || async { stage.world().operations.debts(Some(server)).await.expect("debts").is_empty() };
            stage.until("the debt is paid", paid).await;
            assert_eq!(stage.runs_on(server).await, host);
            let connected: Vec<_> = stage.attachments(server).await.into_values().collect();
            assert_eq!(connected, [host.into_iter().map(Some).collect()]);
            stage.cross(server).await;
            stage.member.revert(server).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
            if stood {
                return;
            }
        }
        panic!("a conductor always came first");
    });
}
