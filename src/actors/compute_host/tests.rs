//! A host by its messages: what its files hold and what it answers, when requests are late, repeated, at once, broken off.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr};
use async_trait::async_trait;
use cellshift_host::link::suite::{self, Connection, Harness};
use cellshift_host::link::{HostEnd, HostLink};
use uuid::Uuid;

use super::{ComputeHost, MailboxLink};
use crate::actors::supervision::Shutdown;
use crate::actors::tests::fixture::{DEADLINE, HostFixture, IMAGE, crash, files_below, options, until, world, world_on};
use crate::domain::fence::Fence;
use crate::domain::flavor::Resources;
use crate::domain::guest::{DiskManifest, DiskSource};
use crate::domain::host_protocol::{HostAnswer, HostCommand, HostQuery, HostReply, HostRequest};
use crate::domain::host_trial::HostTrial;
use crate::domain::server::PowerState;
use crate::env::Env;
use crate::services::network::{HostKey, NetworkService};
use crate::virt::{HostUnreachable, Operation};

const H1: &str = "cell1-host1";
const H2: &str = "cell1-host2";
const SERVER: Uuid = Uuid::from_u128(1);
const STOP: HostCommand = HostCommand::StopGuest { grace_ms: 1000 };

/// Actors that carry messages to the end of a test.
struct Mailboxes;

struct Mailbox {
    address: Addr<ComputeHost>,
    link: MailboxLink,
}

#[async_trait(?Send)]
impl Harness for Mailboxes {
    async fn connect(&self, end: Arc<dyn HostEnd>) -> Box<dyn Connection> {
        let address = ComputeHost::carrying(end, 64).start();
        Box::new(Mailbox { link: MailboxLink::new(address.clone(), &Env::system()), address })
    }
}

#[async_trait(?Send)]
impl Connection for Mailbox {
    fn link(&self) -> &dyn HostLink {
        &self.link
    }

    async fn cut(&self) {
        self.address.do_send(Shutdown);
        until("the actor ends", || async { !self.address.connected() }).await;
    }
}

#[actix::test]
async fn a_mailbox_keeps_the_promises_of_a_link() {
    suite::all(&Mailboxes).await;
}

fn prepare(world: &HostFixture, disks: DiskSource) -> HostCommand {
    HostCommand::PrepareGuest { spec: Box::new(world.spec(SERVER, disks)) }
}

fn exported(reply: HostReply) -> DiskManifest {
    match reply {
        HostReply::Exported { manifest } => manifest,
        other => panic!("{other:?}"),
    }
}

#[actix::test]
async fn a_guest_moves_to_another_cell_with_every_byte_of_its_disks() {
    move_a_guest(world().await).await;
}

#[actix::test]
async fn a_guest_moves_to_another_cell_in_a_real_service_too() {
    move_a_guest(world_on(Env::system()).await).await;
}

async fn move_a_guest(world: HostFixture) {
    let ((one, _a), (two, _b)) = (world.cell("cell1", options()).await, world.cell("cell2", options()).await);
    let (target, vif) = ("cell2-host1", world.port(SERVER, H1).await);
    let (volume, volume_path) = world.volume();
    let mut spec = world.spec(SERVER, DiskSource::Image { image_id: world.image().await });
    (spec.vifs, spec.volumes) = (vec![vif.clone()], vec![volume]);
    assert_eq!(world.ask(&one.hosts, H1, SERVER, HostCommand::PrepareGuest { spec: Box::new(spec.clone()) }).await, HostReply::Done);
    assert_eq!(world.only_guest(&one.hosts, H1).await.unwrap().power_state, PowerState::Shutdown);
    assert_eq!(world.ask(&one.hosts, H1, SERVER, HostCommand::StartGuest).await, HostReply::Done);
    assert_eq!(world.network.port(vif.port_id).await.unwrap().status, "ACTIVE");
    one.hosts.trial(H1, HostTrial::GuestWrite { server: SERVER, bytes: b"precious".to_vec() }, DEADLINE).await.unwrap().unwrap();
    assert!(matches!(world.ask(&one.hosts, H1, SERVER, HostCommand::ExportDisks).await, HostReply::Refused { .. }), "it runs");

    assert_eq!(world.ask(&one.hosts, H1, SERVER, STOP).await, HostReply::Stopped { was_running: true });
    let image_id = world.queued_image().await;
    let manifest = exported(world.ask(&one.hosts, H1, SERVER, HostCommand::UploadSnapshot { image_id }).await);
    let again = exported(world.ask(&one.hosts, H1, SERVER, HostCommand::UploadSnapshot { image_id }).await);
    assert_eq!(manifest, again, "an upload whose reply was lost is found to be there");
    assert_eq!(world.ask(&one.hosts, H1, SERVER, HostCommand::ReleaseGuest).await, HostReply::Done);
    let left = world.only_guest(&one.hosts, H1).await.unwrap();
    assert!(!left.defined && left.volumes.is_empty() && left.ports.is_empty());
    let names = ["disk", "disk.eph0", "disk.swap"];
    let before = names.map(|name| world.disk("cell1", H1, SERVER, name));
    assert!(before.iter().all(|disk| disk.windows(8).any(|bytes| bytes == b"precious")) && before[0].starts_with(IMAGE));

    world.network.create_binding(world.fence(SERVER, 1), vif.port_id, target, HostKey::AllocationIs(None)).await.unwrap();
    world.network.activate_binding(world.fence(SERVER, 1), vif.port_id, target).await.unwrap();
    spec.disks = DiskSource::Snapshot { image_id: Some(image_id), manifest };
    assert_eq!(world.ask(&two.hosts, target, SERVER, HostCommand::PrepareGuest { spec: Box::new(spec) }).await, HostReply::Done);
    assert_eq!(names.map(|name| world.disk("cell2", target, SERVER, name)), before);
    let start = HostRequest::new(world.fence(SERVER, 2), SERVER, HostCommand::StartGuest);
    assert_eq!(two.hosts.request(target, start, DEADLINE).await, Ok(HostReply::Done));
    let guest = world.only_guest(&two.hosts, target).await.unwrap();
    assert_eq!((guest.power_state, guest.started_epoch, guest.fence.0), (PowerState::Running, 2, 2));
    assert_eq!(world.network.port(vif.port_id).await.unwrap().status, "ACTIVE");
    let root = String::from_utf8(world.disk("cell2", target, SERVER, "disk")).unwrap();
    assert!(root.ends_with(&format!("guest {SERVER} record 3 boot\n")), "{root}");
    assert!(fs::read_to_string(volume_path).unwrap().ends_with(&format!("guest {SERVER} record 3 boot\n")));

    assert_eq!(world.ask(&one.hosts, H1, SERVER, HostCommand::RemoveGuest).await, HostReply::Done);
    assert_eq!(world.only_guest(&one.hosts, H1).await, None);
}

#[actix::test]
async fn a_released_guest_comes_back_on_its_own_disks() {
    let world = world().await;
    let (cell, _a) = world.cell("cell1", options()).await;
    world.run_guest(&cell.hosts, H1, SERVER).await;
    cell.hosts.trial(H1, HostTrial::GuestWrite { server: SERVER, bytes: b"precious".to_vec() }, DEADLINE).await.unwrap().unwrap();
    world.ask(&cell.hosts, H1, SERVER, STOP).await;
    let before = world.disk("cell1", H1, SERVER, "disk");
    for _ in 0..2 {
        assert_eq!(world.ask(&cell.hosts, H1, SERVER, HostCommand::ReleaseGuest).await, HostReply::Done);
    }
    let kept = prepare(&world, DiskSource::Kept);
    assert_eq!(world.ask(&cell.hosts, H1, SERVER, kept.clone()).await, HostReply::Done);
    assert_eq!(world.disk("cell1", H1, SERVER, "disk"), before);
    assert_eq!(world.ask(&cell.hosts, H1, SERVER, HostCommand::StartGuest).await, HostReply::Done);
    assert!(matches!(world.ask(&cell.hosts, H1, SERVER, kept.clone()).await, HostReply::Refused { .. }), "it runs");
    for _ in 0..2 {
        assert_eq!(world.ask(&cell.hosts, H1, SERVER, HostCommand::RemoveGuest).await, HostReply::Done);
    }
    assert!(matches!(world.ask(&cell.hosts, H1, SERVER, kept).await, HostReply::Refused { .. }), "the disks are gone");
    assert!(files_below(&world.cell_dir("cell1").join("hosts").join(H1).join("guests")).is_empty());
}

#[actix::test]
async fn disks_that_do_not_match_are_refused_and_nothing_is_left() {
    let world = world().await;
    let (cell, _a) = world.cell("cell1", options()).await;
    world.run_guest(&cell.hosts, H1, SERVER).await;
    world.ask(&cell.hosts, H1, SERVER, STOP).await;
    let manifest = exported(world.ask(&cell.hosts, H1, SERVER, HostCommand::ExportDisks).await);
    assert_eq!(world.only_guest(&cell.hosts, H1).await.unwrap().leftovers.len(), 1);
    let transfer = DiskSource::Transfer { migration: SERVER, source: Some(H1.into()), manifest: manifest.clone() };
    assert_eq!(world.ask(&cell.hosts, H2, SERVER, prepare(&world, transfer.clone())).await, HostReply::Done);
    assert_eq!(world.disk("cell1", H2, SERVER, "disk"), world.disk("cell1", H1, SERVER, "disk"));
    world.ask(&cell.hosts, H2, SERVER, HostCommand::RemoveGuest).await;

    let export = world.cell_dir("cell1").join("transfer").join(SERVER.to_string()).join("disk");
    let mut bytes = fs::read(&export).unwrap();
    bytes[3] ^= 1;
    fs::write(&export, bytes).unwrap();
    let wrong_image = DiskSource::Snapshot { image_id: Some(world.image().await), manifest };
    for source in [transfer, wrong_image, DiskSource::Image { image_id: Uuid::from_u128(99) }] {
        let reply = world.ask(&cell.hosts, H2, SERVER, prepare(&world, source)).await;
        assert!(matches!(reply, HostReply::Refused { .. }), "{reply:?}");
        assert_eq!(world.only_guest(&cell.hosts, H2).await, None);
    }
    world.ask(&cell.hosts, H1, SERVER, HostCommand::DropExport).await;
    assert!(world.only_guest(&cell.hosts, H1).await.unwrap().leftovers.is_empty());
    let image_id = world.image().await;
    let reply = world.ask(&cell.hosts, H1, SERVER, HostCommand::UploadSnapshot { image_id }).await;
    assert!(matches!(reply, HostReply::Refused { .. }), "the bytes that are there are not its disks': {reply:?}");
}

#[actix::test]
async fn a_fence_outlives_the_host_that_has_given_no_reply_under_it() {
    let world = world().await;
    let (cell, _a) = world.cell("cell1", options()).await;
    let late = world.request(SERVER, HostCommand::RemoveGuest);
    world.run_guest(&cell.hosts, H1, SERVER).await;
    // A refusal is not remembered, so the fence alone is.
    let kept = prepare(&world, DiskSource::Kept);
    assert!(matches!(world.ask(&cell.hosts, H1, SERVER, kept).await, HostReply::Refused { .. }), "the guest runs");
    cell.hosts_here.power_off(H1, true).await.unwrap();
    cell.hosts_here.power_on(H1).await.unwrap();
    let reply = cell.hosts.request(H1, late.clone(), DEADLINE).await;
    assert_eq!(reply, Ok(HostReply::Stale { epoch: 1, attempt: world.fence(SERVER, 1).attempt - 1 }));
}

#[actix::test]
async fn repeated_reboots_under_one_fence_are_one_reboot() {
    let world = world().await;
    let mut options = options();
    // So that the second comes while the first is at it.
    options.hosts.latencies.insert(Operation::PowerOff, Duration::from_millis(50));
    let (cell, _a) = world.cell("cell1", options).await;
    world.run_guest(&cell.hosts, H1, SERVER).await;
    let reboot = world.request(SERVER, HostCommand::RebootGuest { grace_ms: 0 });
    let ask = || cell.hosts.request(H1, reboot.clone(), DEADLINE);
    let (first, second) = futures::join!(ask(), ask());
    assert_eq!((first, second, ask().await), (Ok(HostReply::Done), Ok(HostReply::Done), Ok(HostReply::Done)));
    let disk = world.disk("cell1", H1, SERVER, "disk");
    let boots = String::from_utf8_lossy(&disk).lines().filter(|line| line.ends_with("boot")).count();
    assert_eq!(boots, 2, "its start and its reboot");
}

#[actix::test]
async fn a_line_of_one_ask_is_typed_once() {
    let world = world().await;
    let (cell, _a) = world.cell("cell1", options()).await;
    world.run_guest(&cell.hosts, H1, SERVER).await;
    for ask in [1, 2, 1, 2] {
        let query = HostQuery::TypeLine { server: SERVER, line: "uptime".into(), ask: Uuid::from_u128(ask) };
        assert_eq!(cell.hosts.query(H1, query, DEADLINE).await, Ok(HostAnswer::Typed));
    }
    let answer = cell.hosts.query(H1, HostQuery::Console { server: SERVER }, DEADLINE).await;
    let Ok(HostAnswer::Console(lines)) = answer else { panic!("{answer:?}") };
    assert_eq!(lines.matches("reads uptime").count(), 2, "{lines}");
}

#[actix::test]
async fn a_request_that_is_overtaken_in_the_queue_does_nothing() {
    let world = world().await;
    let mut options = options();
    options.hosts.latencies.insert(Operation::CopyDisks, Duration::from_secs(3600));
    let (cell, _a) = world.cell("cell1", options).await;
    let hosts = &cell.hosts;
    let source = DiskSource::Image { image_id: world.image().await };
    let slow = world.request(SERVER, prepare(&world, source));
    let claim = HostCommand::Claim { holder: SERVER, resources: Resources { vcpu: 1, memory_mb: 1, disk_gb: 1 }, functions: Vec::new() };
    let (waiting, last) = (world.request(SERVER, claim), world.request(SERVER, HostCommand::Fence));
    let highest = HostReply::Stale { epoch: 1, attempt: last.fence.attempt };
    // All three are there before the first learns that it is overtaken.
    let (slow, waiting, last) =
        futures::join!(hosts.request(H1, slow, DEADLINE), hosts.request(H1, waiting, DEADLINE), hosts.request(H1, last, DEADLINE));
    assert_eq!((slow, waiting), (Ok(highest.clone()), Ok(highest)));
    assert_eq!(last, Ok(HostReply::Stopped { was_running: false }));
    assert!(world.report(hosts, H1).await.claims.is_empty(), "the claim took no room");
}

#[actix::test]
async fn a_host_that_comes_back_has_nothing_of_broken_imports() {
    let world = world().await;
    let (cell, _a) = world.cell("cell1", options()).await;
    world.run_guest(&cell.hosts, H1, SERVER).await;
    let before = world.disk("cell1", H1, SERVER, "disk");
    let guests = world.cell_dir("cell1").join("hosts").join(H1).join("guests");
    for server in [SERVER, Uuid::from_u128(77)] {
        let incoming = guests.join(server.to_string()).join("incoming");
        fs::create_dir_all(&incoming).unwrap();
        fs::write(incoming.join("disk"), b"half of it").unwrap();
    }
    assert_eq!(world.report(&cell.hosts, H1).await.guests.iter().filter(|guest| !guest.leftovers.is_empty()).count(), 2);
    assert!(crash(&cell.hosts, H1).await);
    until("the host is back", || async { cell.hosts.query(H1, HostQuery::Report, DEADLINE).await.is_ok() }).await;
    assert!(world.only_guest(&cell.hosts, H1).await.unwrap().leftovers.is_empty());
    assert_eq!(world.disk("cell1", H1, SERVER, "disk"), before);
    assert!(!guests.join(Uuid::from_u128(77).to_string()).exists());
}

#[actix::test]
async fn late_requests_are_refused_and_repeats_get_their_reply() {
    let world = world().await;
    let (cell, _a) = world.cell("cell1", options()).await;
    let early = world.request(SERVER, HostCommand::StartGuest);
    world.run_guest(&cell.hosts, H1, SERVER).await;
    let stop = world.request(SERVER, STOP);
    let stopped = Ok(HostReply::Stopped { was_running: true });
    assert_eq!(cell.hosts.request(H1, stop.clone(), DEADLINE).await, stopped);
    assert_eq!(cell.hosts.request(H1, stop.clone(), DEADLINE).await, stopped);
    let stale = HostReply::Stale { epoch: 1, attempt: stop.fence.attempt };
    assert_eq!(cell.hosts.request(H1, early.clone(), DEADLINE).await, Ok(stale.clone()));
    assert!(crash(&cell.hosts, H1).await);
    until("the host is back", || async { cell.hosts.query(H1, HostQuery::Report, DEADLINE).await.is_ok() }).await;
    assert_eq!(cell.hosts.request(H1, early.clone(), DEADLINE).await, Ok(stale));
    assert_eq!(cell.hosts.request(H1, stop.clone(), DEADLINE).await, stopped);
    // The same operation's next attempt still learns that the guest ran; another operation does not.
    assert_eq!(world.ask(&cell.hosts, H1, SERVER, STOP).await, HostReply::Stopped { was_running: true });
    let other = HostRequest { operation: Uuid::from_u128(5), ..world.request(SERVER, STOP) };
    assert_eq!(cell.hosts.request(H1, other, DEADLINE).await, Ok(HostReply::Stopped { was_running: false }));
    // A higher epoch with a lower attempt is higher; a removed guest's fence stays.
    let remove = HostRequest::new(Fence { server: SERVER, epoch: 2, attempt: 0 }, SERVER, HostCommand::RemoveGuest);
    assert_eq!(cell.hosts.request(H1, remove, DEADLINE).await, Ok(HostReply::Done));
    assert!(matches!(world.ask(&cell.hosts, H1, SERVER, HostCommand::StartGuest).await, HostReply::Stale { epoch: 2, .. }));
}

#[actix::test]
async fn a_higher_fence_cancels_work_and_delays_no_other_server() {
    let world = world().await;
    let mut options = options();
    options.hosts.latencies.insert(Operation::CopyDisks, Duration::from_secs(3600));
    let (cell, _a) = world.cell("cell1", options).await;
    let source = DiskSource::Image { image_id: world.image().await };
    let slow = world.request(SERVER, prepare(&world, source));
    let hosts = &cell.hosts;
    let later = async {
        // A claim of another server is answered while the copy waits.
        let other = Uuid::from_u128(2);
        let claim = HostCommand::Claim { holder: other, resources: Resources { vcpu: 1, memory_mb: 1, disk_gb: 1 }, functions: Vec::new() };
        assert_eq!(world.ask(hosts, H1, other, claim).await, HostReply::Done);
        let removed = world.ask(hosts, H1, SERVER, HostCommand::RemoveGuest).await;
        assert_eq!(removed, HostReply::Done);
    };
    // The same request twice is one: both get the reply of the one that runs.
    let (first, second, ()) = futures::join!(hosts.request(H1, slow.clone(), DEADLINE), hosts.request(H1, slow, DEADLINE), later);
    assert!(matches!(first, Ok(HostReply::Stale { .. })), "{first:?}");
    assert_eq!(first, second);
    assert_eq!(world.only_guest(hosts, H1).await, None);
}

#[actix::test]
async fn room_is_claimed_once_and_never_beyond_the_capacity() {
    let world = world().await;
    let (cell, _a) = world.cell("cell1", options()).await;
    let (migration, other) = (Uuid::from_u128(7), Uuid::from_u128(2));
    let claim =
        |holder, memory_mb| HostCommand::Claim { holder, resources: Resources { vcpu: 1, memory_mb, disk_gb: 1 }, functions: Vec::new() };
    let hosts = &cell.hosts;
    for command in [claim(migration, 5000), claim(migration, 5000)] {
        assert_eq!(world.ask(hosts, H1, SERVER, command).await, HostReply::Done);
    }
    let refused = world.ask(hosts, H1, other, claim(other, 4000)).await;
    assert_eq!(refused, HostReply::Refused { reason: "the claim does not fit: 4000 MEMORY_MB are wanted and 3192 are free".into() });
    assert_eq!(world.ask(hosts, H1, other, claim(other, 3192)).await, HostReply::Done);
    let before = world.report(hosts, H1).await.claims;
    assert_eq!(
        before.iter().map(|(holder, amount)| (*holder, amount.room.memory_mb)).collect::<Vec<_>>(),
        [(migration, 5000), (other, 3192)]
    );
    cell.hosts_here.power_off(H1, true).await.unwrap();
    cell.hosts_here.power_on(H1).await.unwrap();
    assert_eq!(world.report(hosts, H1).await.claims, before);
    for _ in 0..2 {
        assert_eq!(world.ask(hosts, H1, SERVER, HostCommand::DropClaim { holder: migration }).await, HostReply::Done);
    }
    assert_eq!(world.report(hosts, H1).await.claims.len(), 1);
}

#[actix::test]
async fn an_interrupted_guest_resumes_only_if_its_owner_allows() {
    let world = world().await;
    let (cell, _a) = world.cell("cell1", options()).await;
    let hosts = &cell.hosts;
    world.run_guest(hosts, H1, SERVER).await;
    let power = || async { world.only_guest(hosts, H1).await.unwrap().power_state };
    let restart = |resume| {
        let cell = cell.clone();
        async move {
            cell.hosts_here.power_off(H1, resume).await.unwrap();
            cell.hosts_here.power_on(H1).await.unwrap();
        }
    };
    restart(true).await;
    assert_eq!(power().await, PowerState::NoState, "neither running nor off: it may come back");
    let highest = world.only_guest(hosts, H1).await.unwrap().fence;
    world.oracle.owned.lock().insert((H1.into(), SERVER), (1, highest.1 - 1));
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(power().await, PowerState::NoState, "an answer below the fence obeyed is late");
    world.oracle.owned.lock().insert((H1.into(), SERVER), highest);
    until("the guest runs", || async { power().await == PowerState::Running }).await;

    world.oracle.owned.lock().clear();
    restart(true).await;
    assert_eq!(world.ask(hosts, H1, SERVER, STOP).await, HostReply::Stopped { was_running: true }, "it ran before the loss");
    world.ask(hosts, H1, SERVER, HostCommand::StartGuest).await;
    restart(false).await;
    world.oracle.owned.lock().insert((H1.into(), SERVER), (9, 9));
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(power().await, PowerState::Shutdown, "it was not to come back with its host");
}

#[actix::test]
async fn a_start_repeated_after_a_host_loss_starts_nothing() {
    let world = world().await;
    let (cell, _a) = world.cell("cell1", options()).await;
    let image = DiskSource::Image { image_id: world.image().await };
    assert_eq!(world.ask(&cell.hosts, H1, SERVER, prepare(&world, image)).await, HostReply::Done);
    let start = world.request(SERVER, HostCommand::StartGuest);
    assert_eq!(cell.hosts.request(H1, start.clone(), DEADLINE).await, Ok(HostReply::Done));
    cell.hosts_here.power_off(H1, false).await.unwrap();
    cell.hosts_here.power_on(H1).await.unwrap();
    assert_eq!(cell.hosts.request(H1, start, DEADLINE).await, Ok(HostReply::Done));
    assert_eq!(world.only_guest(&cell.hosts, H1).await.unwrap().power_state, PowerState::Shutdown);
    assert_eq!(world.ask(&cell.hosts, H1, SERVER, HostCommand::StartGuest).await, HostReply::Done);
    assert_eq!(world.only_guest(&cell.hosts, H1).await.unwrap().power_state, PowerState::Running, "asked for anew it runs");
}

#[actix::test]
async fn a_start_from_before_a_host_loss_may_be_late() {
    let world = world().await;
    let (cell, _a) = world.cell("cell1", options()).await;
    world.run_guest(&cell.hosts, H1, SERVER).await;
    cell.hosts_here.power_off(H1, true).await.unwrap();
    cell.hosts_here.power_on(H1).await.unwrap();
    // The server has gone elsewhere while the host was off, so the host's fence knows nothing of it.
    world.oracle.overtaken.lock().push(SERVER);
    for command in [HostCommand::StartGuest, HostCommand::RebootGuest { grace_ms: 0 }] {
        let reply = world.ask(&cell.hosts, H1, SERVER, command).await;
        assert!(matches!(&reply, HostReply::Refused { reason } if reason.to_string().contains("a later attempt")), "{reply:?}");
        assert_ne!(world.only_guest(&cell.hosts, H1).await.unwrap().power_state, PowerState::Running);
    }
    world.oracle.overtaken.lock().clear();
    assert_eq!(world.ask(&cell.hosts, H1, SERVER, HostCommand::StartGuest).await, HostReply::Done);
    // From here on the lane's own fence tells.
    world.oracle.overtaken.lock().push(SERVER);
    assert_eq!(world.ask(&cell.hosts, H1, SERVER, HostCommand::StartGuest).await, HostReply::Done);
}

#[actix::test]
async fn a_live_copy_ends_with_a_guest_that_stands_still() {
    let world = world().await;
    let (cell, _a) = world.cell("cell1", options()).await;
    world.run_guest(&cell.hosts, H1, SERVER).await;
    assert_eq!(world.ask(&cell.hosts, H1, SERVER, HostCommand::AwaitLiveTurn).await, HostReply::Done);
    let copied = world.ask(&cell.hosts, H1, SERVER, HostCommand::CopyGuest).await;
    assert!(matches!(copied, HostReply::Copied { .. }), "{copied:?}");
    assert_eq!(world.only_guest(&cell.hosts, H1).await.unwrap().power_state, PowerState::Paused, "it writes nothing after the copy");
    assert_eq!(world.ask(&cell.hosts, H1, SERVER, HostCommand::EndLiveCopy { paused: false }).await, HostReply::Done);
    assert_eq!(world.only_guest(&cell.hosts, H1).await.unwrap().power_state, PowerState::Running);
}

#[actix::test]
async fn a_broken_hypervisor_is_a_reply_and_a_dead_host_is_unknown() {
    let world = world().await;
    let mut options = options();
    options.hosts.latencies.insert(Operation::GuestShutdown, Duration::from_millis(500));
    options.hosts.latencies.insert(Operation::Start, Duration::from_millis(50));
    let (cell, _a) = world.cell("cell1", options).await;
    let hosts = &cell.hosts;
    world.run_guest(hosts, H1, SERVER).await;
    world.faults.fail_next(H1, Operation::PowerOff, 1);
    assert!(matches!(world.ask(hosts, H1, SERVER, HostCommand::RemoveGuest).await, HostReply::Failed { .. }));
    let (died, ()) = futures::join!(hosts.request(H1, world.request(SERVER, STOP), DEADLINE), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(crash(hosts, H1).await);
    });
    assert!(matches!(died, Err(HostUnreachable::Unknown(_))), "{died:?}");
    until("the host is back", || async { hosts.standing(H1).is_up() }).await;
    let slow = hosts.request(H1, world.request(SERVER, HostCommand::StartGuest), Duration::from_millis(5)).await;
    assert!(matches!(slow, Err(HostUnreachable::Unknown(_))), "{slow:?}");
    until("it was done all the same", || async { world.only_guest(hosts, H1).await.unwrap().power_state == PowerState::Running }).await;
}
