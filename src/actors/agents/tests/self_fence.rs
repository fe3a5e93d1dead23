//! Self-fencing over a real NATS server: what controllers make of an agent's promise, and what the agent does when its time is over.

use super::*;
use crate::agent::Agent;
use crate::agent::config::{AgentConfig, AgentHost, AgentNats};
use crate::config::Seconds;
use crate::domain::guest::{DiskSource, GuestSpec, GuestVolume};
use crate::domain::server::PowerState;

const COMPUTE: &str = "nova-compute";
const SERVER: Uuid = Uuid::from_u128(1);
/// A time that is over, with the margin, before a host without reports counts as silent.
const PROMISE: Option<Duration> = Some(Duration::from_millis(500));

impl Stage {
    /// Starts the whole agent of the host. It stops its guests after two seconds without a renewed word.
    async fn whole_agent(&self) -> Agent {
        let (folder, server) = (self.world.dir.path(), format!("nats://{}", self.broker.address()));
        let key = folder.join("h1.nk");
        self.broker.agent(H1).write(&key).unwrap();
        let hosts = vec![AgentHost { name: H1.to_owned(), key }];
        let nats = AgentNats { servers: vec![server], authorities: None };
        let mut config = AgentConfig::new("cell1", Uuid::from_u128(1), folder.join("agent"), hosts, nats);
        config.compute.self_fence_after = Seconds::whole(2);
        Agent::start(&config, self.world.env.clone(), quick()).await.unwrap()
    }

    /// Starts a guest on the agent's host.
    async fn run_guest(&self, agent: &Agent) {
        let (volume, _) = self.world.volume();
        let volumes = vec![GuestVolume { boot_index: Some(0), ..volume }];
        let spec = Box::new(GuestSpec { volumes, ..self.world.spec(SERVER, DiskSource::Volume) });
        for command in [HostCommand::PrepareGuest { spec }, HostCommand::StartGuest] {
            assert_eq!(self.world.ask(agent.hosts(), H1, SERVER, command).await, HostReply::Done);
        }
    }
}

/// Returns whether the guest runs by the word of its host; none while the host takes no messages.
async fn runs(agent: &Agent) -> Option<bool> {
    match agent.hosts().query(H1, HostQuery::Report, DEADLINE).await {
        Ok(HostAnswer::Report(report)) => Some(report.guests.iter().any(|guest| guest.power_state == PowerState::Running)),
        _ => None,
    }
}

/// Waits until the host takes no requests, and returns its standing by its link.
async fn standing_when_not_up(cell: &CellHandle) -> Standing {
    until("the host takes no requests", || async { !cell.hosts.standing(H1).is_up() }).await;
    cell.hosts.standing(H1)
}

#[actix::test]
async fn a_cut_agent_stops_its_guests_and_gets_them_back() {
    let mut stage = Stage::new().await;
    let cell = stage.cell().await;
    let _actor = stage.controller(&cell).await;
    let agent = stage.whole_agent().await;
    until_up(&cell).await;
    stage.run_guest(&agent).await;
    assert_eq!(runs(&agent).await, Some(true));

    stage.broker.kill();
    let is_off = || async { matches!(cell.hosts.standing(H1), Standing::Off(OffBy::SelfFence { .. })) };
    until("the host is off by the promise of its agent", is_off).await;
    assert_ne!(runs(&agent).await, Some(true), "before another host may run the guest, the agent has stopped it");
    until("the host is there without its guest", || async { runs(&agent).await == Some(false) }).await;
    let refused = stage.world.ask(agent.hosts(), H1, SERVER, HostCommand::StartGuest).await;
    assert!(matches!(refused, HostReply::Refused { .. }), "no controller says that the start is the latest: {refused:?}");

    stage.broker.start_again().await;
    until_up(&cell).await;
    until("the guest runs again", || async { runs(&agent).await == Some(true) }).await;
    agent.stop().await;
    until_off(&cell).await;
}

#[actix::test]
async fn an_agent_that_keeps_its_word_keeps_its_guests() {
    let stage = Stage::new().await;
    let cell = stage.cell().await;
    let _actor = stage.controller(&cell).await;
    let agent = stage.whole_agent().await;
    until_up(&cell).await;
    stage.run_guest(&agent).await;
    let heard_at = || async { cell.db.agent(H1).await.unwrap().unwrap().accepted.unwrap().heard_at };
    let later = heard_at().await + chrono::TimeDelta::seconds(5);
    until("its word is renewed for more than twice its time", || async { heard_at().await > later }).await;
    assert_eq!(runs(&agent).await, Some(true));
    assert!(cell.hosts.standing(H1).is_up());
}

#[actix::test]
async fn silence_is_off_by_the_promise_of_the_present_life() {
    let stage = Stage::new().await;
    let cell = stage.cell().await;
    let _actor = stage.controller(&cell).await;
    let (promising, _facts) = stage.agent_with(place(7, 1), PROMISE).await;
    until_up(&cell).await;
    drop(promising);
    let off = standing_when_not_up(&cell).await;
    assert!(matches!(off, Standing::Off(OffBy::SelfFence { .. })), "{off:?}");

    // The other controller counts from its own start.
    let other = CellHandle::new(cell.uuid, &cell.name, cell.db.clone(), &stage.world.env);
    let book = stage.parts(&other).await.book();
    book.recall().await.unwrap();
    book.open_all_awaited();
    assert!(matches!(other.hosts.standing(H1), Standing::Silent { .. }));
    until("the host is off there, too", || async { other.hosts.standing(H1).is_off() }).await;

    let (unbound, _facts) = stage.agent_with(place(7, 2), None).await;
    until_up(&cell).await;
    assert_eq!(cell.db.agent(H1).await.unwrap().unwrap().accepted.unwrap().self_fence, None);
    let by_records = cell.db.service_on(H1, COMPUTE).await.unwrap().standing(other.hosts.standing(H1));
    assert!(matches!(by_records, Standing::Silent { .. }), "the other controller has not heard of this life: {by_records:?}");
    drop(unbound);
    let silent = standing_when_not_up(&cell).await;
    assert!(matches!(silent, Standing::Silent { .. }), "{silent:?}");
}

#[actix::test]
async fn a_word_that_another_controller_heard_counts_for_all() {
    let stage = Stage::new().await;
    let cell = stage.cell().await;
    let parts = stage.parts(&cell).await;
    let book = parts.book();
    let actor = Agents::new(parts, None).start();
    let (agent, _facts) = stage.agent_with(place(7, 1), PROMISE).await;
    until_up(&cell).await;
    let hello = Hello { life: agent.life().id(), place: Some(place(7, 1)), self_fence: PROMISE };
    actor.do_send(Shutdown);
    drop(agent);
    until("the host is off", || async { cell.hosts.standing(H1).is_off() }).await;

    let service = cell.db.service_on(H1, COMPUTE).await.unwrap();
    assert!(service.standing(cell.hosts.standing(H1)).is_off());
    cell.db.accept_life(service, hello).await.unwrap();
    let service = cell.db.service_on(H1, COMPUTE).await.unwrap();
    assert!(matches!(service.standing(cell.hosts.standing(H1)), Standing::Silent { .. }));
    book.look_at_records().await.unwrap();
    let by_link = cell.hosts.standing(H1);
    assert!(matches!(&by_link, Standing::Silent { reason, .. } if reason.to_string().contains("counts as off once")), "{by_link:?}");
    until("its time is over again", || async { service.standing(cell.hosts.standing(H1)).is_off() }).await;
}
