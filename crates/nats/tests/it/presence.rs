//! Hellos, reports and goodbyes.

use std::time::Duration;

use cellshift_domain::agent::Renewal;
use cellshift_domain::standing::{OffBy, Standing};
use cellshift_env::Env;
use cellshift_host::link::HostLink;
use cellshift_nats::testkit::Broker;
use cellshift_nats::{Admission, LastWord, Life, PROTOCOL, RELEASE, Rhythm};
use chrono::{DateTime, TimeDelta};
use uuid::Uuid;

use crate::cell::{Agent, Controller, Linked, connect, facts, quick, request, until};
use crate::scripted::Mood;

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(150);

/// Times for agents that speak only when they must.
fn seldom() -> Rhythm {
    Rhythm { report: Duration::from_secs(3_600), hello: Duration::from_secs(3_600), ..quick() }
}

#[tokio::test]
async fn reports_have_all_facts_and_follow_their_changes() {
    let broker = Broker::start(&["h1"]).await;
    let controller = Controller::start(&broker).await;
    let agent = Agent::with(&broker, broker.address(), "h1", seldom()).await;
    until("the agent reports", || !controller.directory.reports("h1").is_empty()).await;
    let report = controller.directory.reports("h1").remove(0);
    assert_eq!((report.life, report.release.as_str(), report.protocol), (agent.server.life(), RELEASE, PROTOCOL));
    assert_eq!(report.facts, facts(8));
    agent.facts.send_replace(facts(16));
    until("the agent reports the change", || controller.directory.reports("h1").iter().any(|report| report.facts == facts(16))).await;
}

#[tokio::test]
async fn an_agent_reports_again_and_again_without_a_change() {
    let broker = Broker::start(&["h1"]).await;
    let controller = Controller::start(&broker).await;
    let agent = Agent::start(&broker, "h1").await;
    until("the agent reports often", || controller.directory.reports("h1").len() > 5).await;
    assert_eq!(*agent.server.admission().borrow(), Admission::Accepted);
}

#[tokio::test]
async fn the_second_agent_of_a_name_stays_silent() {
    let broker = Broker::start(&["h1"]).await;
    let (controller, first) = (Controller::start(&broker).await, Agent::start(&broker, "h1").await);
    let link = controller.link_when_up("h1").await;
    let second = Agent::start(&broker, "h1").await;
    let refused = Admission::Refused { by: first.server.life() };
    until("the second is told who has the name", || *second.server.admission().borrow() == refused).await;
    link.request(request(1), LONG).await.unwrap();
    assert_eq!((first.end.requests().len(), second.end.requests().len()), (1, 0), "one of them obeys");
    let all = controller.directory.reports("h1");
    assert!(all.iter().all(|report| report.life == first.server.life()));

    first.server.quiesce(LONG).await.say_goodbye(LastWord::NoGuestRuns).await;
    until("the second gets the name", || *second.server.admission().borrow() == Admission::Accepted).await;
    until("requests go to it", || link.life() == Some(second.server.life())).await;
    link.request(request(2), LONG).await.unwrap();
    assert_eq!((first.end.requests().len(), second.end.requests().len()), (1, 1));
}

#[tokio::test]
async fn a_goodbye_says_whether_guests_run_on() {
    let broker = Broker::start(&["h1", "h2"]).await;
    let controller = Controller::start(&broker).await;
    let (first, second) = (Agent::start(&broker, "h1").await, Agent::start(&broker, "h2").await);
    let (to_first, to_second) = (controller.link_when_up("h1").await, controller.link_when_up("h2").await);
    first.server.quiesce(LONG).await.say_goodbye(LastWord::NoGuestRuns).await;
    second.server.quiesce(LONG).await.say_goodbye(LastWord::GuestsGoOn).await;
    until("the first host is off", || to_first.standing() == Standing::Off(OffBy::Host)).await;
    let is_silent = || matches!(to_second.standing(), Standing::Silent { reason, .. } if reason.to_string().contains("its guests go on"));
    until("the second host is silent", is_silent).await;
    let written = |host| controller.directory.goodbyes(host);
    assert_eq!((written("h1"), written("h2")), (vec![LastWord::NoGuestRuns], vec![LastWord::GuestsGoOn]));
    assert!(!to_first.hear(to_first.life().unwrap()), "a report that comes after the goodbye changes nothing");
    assert!(to_first.standing().is_off());
}

#[tokio::test]
async fn only_a_promise_whose_time_is_over_makes_silence_off() {
    let broker = Broker::start(&["promises", "does_not", "has_ended"]).await;
    let controller = Controller::start(&broker).await;
    let renewal = |second, self_fence| Renewal { heard_at: DateTime::UNIX_EPOCH + TimeDelta::seconds(second), self_fence };
    let (first, life) = (renewal(1, Some(Duration::from_millis(500))), Life::new(Uuid::from_u128(1)));
    let [promises, does_not, has_ended] = ["promises", "does_not", "has_ended"].map(|host| controller.link(host));
    for link in [&promises, &does_not, &has_ended] {
        link.accept(life);
    }
    does_not.recorded(life, renewal(1, None));
    has_ended.dismiss(life, LastWord::GuestsGoOn);
    for link in [&promises, &has_ended] {
        link.recorded(life, first);
    }
    until("the promise's time is over", || promises.standing() == Standing::Off(OffBy::SelfFence { heard_at: first.heard_at })).await;
    for link in [&does_not, &has_ended] {
        assert!(matches!(link.standing(), Standing::Silent { .. }), "{:?}", link.standing());
    }
    promises.recorded(life, renewal(2, first.self_fence));
    let renewed = promises.standing();
    assert!(matches!(&renewed, Standing::Silent { reason, .. } if reason.to_string().contains("counts as off once")), "{renewed:?}");
    promises.hear(life);
    assert!(promises.standing().is_up());
}

#[tokio::test]
async fn a_word_is_renewed_from_the_sending_of_its_hello() {
    let broker = Broker::start(&["h1"]).await;
    let (began, agent) = (Env::system().elapsed(), Agent::start(&broker, "h1").await);
    until("the agent is connected", || agent.connection.is_connected()).await;
    let renewed = agent.server.renewed();
    assert_eq!(*renewed.borrow(), None, "nobody has accepted it");
    let controller = Controller::start(&broker).await;
    controller.link_when_up("h1").await;
    until("its word counts", || renewed.borrow().is_some()).await;
    let first = *renewed.borrow();
    assert!(first > Some(began) && first <= Some(Env::system().elapsed()), "{first:?}");
    until("its word is renewed", || *renewed.borrow() > first).await;
}

#[tokio::test]
async fn a_request_at_work_forbids_the_word_that_no_guest_runs() {
    let Linked { broker: _broker, controller, agent, link } = Linked::start().await;
    agent.end.set(Mood::Holds);
    assert!(link.request(request(1), SHORT).await.is_err());
    let quiet = agent.server.quiesce(SHORT).await;
    assert!(!quiet.is_idle());
    quiet.say_goodbye(LastWord::NoGuestRuns).await;
    until("the goodbye is written down", || controller.directory.goodbyes("h1") == [LastWord::GuestsGoOn]).await;
    assert!(!link.standing().is_off());
}

#[tokio::test]
async fn a_controller_that_starts_asks_all_agents_for_reports() {
    let broker = Broker::start(&["h1", "h2"]).await;
    let first = Controller::start(&broker).await;
    let agents =
        [Agent::with(&broker, broker.address(), "h1", seldom()).await, Agent::with(&broker, broker.address(), "h2", seldom()).await];
    first.link_when_up("h1").await;
    first.link_when_up("h2").await;
    let connection = connect(&broker, broker.address(), &broker.controllers.seed, broker.cell.inbox()).await;
    let second = Controller::over(&broker, connection, "second").await;
    for (host, agent) in ["h1", "h2"].into_iter().zip(&agents) {
        let link = second.link_when_up(host).await;
        link.request(request(1), LONG).await.unwrap();
        assert_eq!(agent.end.requests(), [request(1)]);
    }
}

#[tokio::test]
async fn an_agent_waits_for_a_controller_that_comes_late() {
    let broker = Broker::start(&["h1"]).await;
    let agent = Agent::start(&broker, "h1").await;
    until("the agent is connected", || agent.connection.is_connected()).await;
    assert_eq!(*agent.server.admission().borrow(), Admission::Awaited);
    let controller = Controller::start(&broker).await;
    controller.link_when_up("h1").await.request(request(1), LONG).await.unwrap();
}
