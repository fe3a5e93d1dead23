//! A cell's hosts by their handle: they die, are powered off and come back.

use std::time::Duration;

use actix::prelude::*;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::*;
use crate::actors::cell::Cell;
use crate::actors::supervision::Shutdown;
use crate::actors::tests::fixture::{DEADLINE, crash, options, start, until, world};
use crate::domain::host_protocol::HostQuery;
use crate::domain::server::PowerState;
use crate::domain::standing::{OffBy, Standing};
use crate::virt::HostUnreachable;

const H1: &str = "cell1-host1";
const H2: &str = "cell1-host2";
const SERVER: Uuid = Uuid::from_u128(1);

struct Parent {
    heard: mpsc::UnboundedSender<Escalated>,
}

impl Actor for Parent {
    type Context = Context<Parent>;
}

impl Handler<Escalated> for Parent {
    type Result = ();

    fn handle(&mut self, escalated: Escalated, _: &mut Self::Context) {
        self.heard.send(escalated).unwrap();
    }
}

#[actix::test]
async fn a_host_that_dies_too_often_is_down_and_tried_later() {
    let world = world().await;
    let (heard, mut escalations) = mpsc::unbounded_channel();
    let mut parts = world.hosts_parts(&world.handle("cell1"), options());
    parts.options.intensity = Intensity { max: 2, within: Duration::from_secs(60) };
    parts.options.revive_after = Duration::from_millis(100);
    parts.escalations = Some(Parent { heard }.start().recipient());
    let hosts = parts.handle.hosts().clone();
    let actor = start(parts).await;
    let mut crashes = 0;
    let escalated = loop {
        if let Ok(escalated) = escalations.try_recv() {
            break escalated;
        }
        crashes += usize::from(crash(&hosts, H1).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(crashes, 3);
    assert_eq!(escalated.name, "cell1/cell1-host1");
    let silent = hosts.standing(H1);
    assert!(matches!(&silent, Standing::Silent { reason, .. } if reason.to_string().contains("died 3 times")), "{silent:?}");
    let refused = hosts.query(H1, HostQuery::Report, DEADLINE).await;
    assert!(matches!(refused, Err(HostUnreachable::NotDelivered(_))), "{refused:?}");
    assert!(hosts.standing(H2).is_up() && actor.connected(), "the others do not notice");
    until("it is tried again", || async { hosts.standing(H1).is_up() }).await;
}

#[actix::test]
async fn a_host_stays_off_through_restarts_of_its_supervisor() {
    let world = world().await;
    let handle = world.handle("cell1");
    let parts = world.hosts_parts(&handle, options());
    let first = start(parts.clone()).await;
    let off = handle.hosts_here.power_off(H2, true);
    let cut = handle.hosts.standing(H2);
    assert!(matches!(cut, Standing::Silent { .. }), "no request reaches it from now on, and its guests may run until the cut has ended");
    off.await.unwrap();
    assert_eq!(handle.hosts.standing(H2), Standing::Off(OffBy::Host));
    handle.hosts_here.power_off("elsewhere", true).await.unwrap_err();
    first.do_send(Shutdown);
    until("the supervisor and its hosts end", || async { !first.connected() && !handle.hosts.standing(H1).is_up() }).await;

    let guard = HostsHere::new(parts, None).start();
    until("the host is back", || async { handle.hosts.standing(H1).is_up() }).await;
    assert_eq!(handle.hosts.standing(H2), Standing::Off(OffBy::Host));
    assert_eq!(handle.hosts.reason(H2).unwrap().to_string(), "it is powered off");
    handle.hosts_here.power_on(H2).await.unwrap();
    until("the other is back", || async { handle.hosts.standing(H2).is_up() }).await;
    assert!(guard.connected());
}

#[actix::test]
async fn hosts_run_on_while_their_cells_actor_dies() {
    let world = world().await;
    let cell_parts = world.cell_parts("cell1");
    let handle = cell_parts.handle.clone();
    let _hosts = start(world.hosts_parts(&handle, options())).await;
    world.run_guest(&handle.hosts, H1, SERVER).await;
    let cell = Cell::new(cell_parts, None).start();
    cell.do_send(Shutdown);
    until("the cell's actor ends", || async { !cell.connected() }).await;
    assert!(handle.hosts.standing(H1).is_up() && handle.hosts.standing(H2).is_up());
    let guest = world.only_guest(&handle.hosts, H1).await.unwrap();
    assert_eq!(guest.power_state, PowerState::Running);
}
