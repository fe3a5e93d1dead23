//! A cell by its handle: its hosts as requests meet them, and a database that fails and recovers.

use std::time::Duration;

use actix::prelude::*;
use uuid::Uuid;

use super::*;
use crate::actors::tests::fixture::{DEADLINE, options, start, until, world};
use crate::chaos::borders::{Outage, Outages};
use crate::db::DbError;
use crate::domain::host_protocol::{HostCommand, HostReply};
use crate::domain::service::Service;
use crate::virt::{HostUnreachable, Hosts, Operation};

const H1: &str = "cell1-host1";
const H2: &str = "cell1-host2";

fn service(cell: &CellHandle, host: &str, env: &Env) -> Service {
    Service { version: 70, ..Service::new(env.uuid(), host, "nova-compute", &cell.name, env.now()) }
}

#[actix::test]
async fn a_host_beyond_its_bound_is_busy_and_unknown_hosts_refuse() {
    let world = world().await;
    let mut options = options();
    options.hosts.max_requests = 2;
    options.hosts.latencies.insert(Operation::Volume, Duration::from_millis(300));
    let (cell, _a) = world.cell("cell1", options).await;
    let all = CellHosts::new(&world.env);
    all.add("cell1", cell.hosts.clone());
    let detach = |server| {
        let request = world.request(Uuid::from_u128(server), HostCommand::DetachVolume { volume_id: Uuid::nil() });
        let all = all.clone();
        async move { all.request("cell1", H1, request).await }
    };
    let (first, second, third) = futures::join!(detach(1), detach(2), detach(3));
    assert_eq!((first, second), (Ok(HostReply::Done), Ok(HostReply::Done)));
    assert_eq!(third, Err(HostUnreachable::Busy));
    assert_eq!(detach(3).await, Ok(HostReply::Done));
    assert!(
        all.standing("cell1", H1).await.is_up()
            && !all.standing("cell1", "cell1-host9").await.is_up()
            && !all.standing("cell9", H1).await.is_up()
    );
    let nowhere = all.request("cell9", H1, world.request(Uuid::nil(), HostCommand::Fence)).await;
    assert!(matches!(nowhere, Err(HostUnreachable::NotDelivered(_))), "{nowhere:?}");
}

#[actix::test]
async fn a_cell_is_down_after_failures_and_a_probe_finds_it_back() {
    let world = world().await;
    let mut parts = world.cell_parts("cell1");
    parts.options.probe_interval = Duration::from_millis(20);
    let cell = parts.handle.clone();
    let _actor = Cell::new(parts, None).start();
    let ask = |deadline| {
        let cell = cell.clone();
        async move { cell.health.call(deadline, cell.db.services()).await }
    };
    let events = || world.outbox.notifications.lock().iter().map(|notification| notification.event.event_type()).collect::<Vec<_>>();
    let before = world.env.now();
    cell.db.db().set_outage(Outage::Hangs);
    for _ in 0..3 {
        assert!(matches!(ask(Duration::from_millis(10)).await, Err(DbError::Unavailable { .. })));
    }
    let report = cell.health.report();
    assert!(report.standing != CellStanding::Up && report.reason.is_some());
    assert!(report.since >= before, "since its first failure");
    // At once: with this deadline a call on a database that hangs would be felt.
    let refused = tokio::time::timeout(Duration::from_secs(5), ask(Duration::from_secs(3600))).await.unwrap();
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("cell cell1 is down since 20") && why.contains("no answer within 10ms"), "{why}");
    until("it is told", || async { events() == ["cell.down"] }).await;
    cell.db.db().set_outage(Outage::Refuses);
    let refused_probe = || async { cell.health.report().reason.is_some_and(|reason| reason.to_string().contains("holds it down")) };
    until("a probe was refused", refused_probe).await;
    assert_eq!(cell.health.report().since, report.since, "it is down since then");
    cell.db.db().set_outage(Outage::None);
    until("it is found to be back", || async { cell.health.is_up() }).await;
    assert!(ask(DEADLINE).await.is_ok());
    until("that is told too", || async { events() == ["cell.down", "cell.up"] }).await;
    let down = world.outbox.notifications.lock()[0].payload.clone();
    assert_eq!((&down["uuid"], &down["nova_object.data"]["name"]), (&serde_json::json!(cell.uuid), &serde_json::json!("cell1")));
}

#[actix::test]
async fn a_failing_cell_is_probed_until_its_state_is_known() {
    let world = world().await;
    let mut parts = world.cell_parts("cell1");
    parts.options.probe_interval = Duration::from_millis(20);
    let cell = parts.handle.clone();
    let _actor = Cell::new(parts, None).start();
    cell.db.db().set_outage_for(Outage::Refuses, 1);
    cell.health.call(DEADLINE, cell.db.services()).await.unwrap_err();
    assert!(cell.health.is_up());
    cell.db.db().set_outage(Outage::Refuses);
    until("its probes fail too", || async { !cell.health.is_up() }).await;
}

#[actix::test]
async fn a_hanging_cell_leaves_the_other_cells_of_a_request_time() {
    let world = world().await;
    let (hung, well) = (world.handle("cell1"), world.handle("cell2"));
    hung.db.db().set_outage(Outage::Hangs);
    let patience = Duration::from_millis(400);
    let began = tokio::time::Instant::now();
    request_clock::within(patience, async {
        for _ in 0..4 {
            let (silent, answered) =
                futures::join!(hung.health.call(patience, hung.db.services()), well.health.call(patience, well.db.services()));
            assert!(silent.is_err() && answered.is_ok());
        }
        // A second one hangs from now on, and is asked with what is left.
        tokio::time::sleep(patience / 2).await;
        well.db.db().set_outage(Outage::Hangs);
        assert!(well.health.call(patience, well.db.services()).await.is_err());
    })
    .await;
    assert!(began.elapsed() < patience + patience / 4, "{:?}", began.elapsed());
    assert!(hung.health.is_up() && well.health.is_up(), "neither has failed three times");
    for _ in 0..2 {
        assert!(well.health.call(patience / 40, well.db.services()).await.is_err());
    }
    assert!(well.health.is_up(), "what had no time to answer has not failed");
    assert!(well.health.call(patience / 40, well.db.services()).await.is_err());
    assert!(!well.health.is_up());
}

#[actix::test]
async fn hosts_that_live_are_recorded_as_seen() {
    let world = world().await;
    let mut parts = world.cell_parts("cell1");
    parts.options.heartbeat = Duration::from_millis(20);
    let cell = parts.handle.clone();
    let txn = [H1, H2].into_iter().fold(CellTxn::new(), |txn, host| txn.register_service(service(&cell, host, &world.env)));
    cell.db.apply_unfenced(txn).await.unwrap();
    let (_hosts, _actor) = (start(world.hosts_parts(&cell, options())).await, Cell::new(parts, None).start());
    cell.hosts_here.power_off(H2, true).await.unwrap();
    let count = |host| {
        let db = cell.db.clone();
        async move { db.service_on(host, "nova-compute").await.unwrap().report_count }
    };
    let off = count(H2).await;
    until("the host that lives is seen", || async { count(H1).await > off + 2 }).await;
    assert_eq!(count(H2).await, off);
}
