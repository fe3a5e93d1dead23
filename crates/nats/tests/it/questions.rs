//! Questions of agents to controllers.

use std::time::Duration;

use cellshift_nats::testkit::Broker;
use cellshift_nats::{ToControllers, Unanswered};

use crate::cell::{Agent, Controller, connect, until};

const LONG: Duration = Duration::from_secs(30);

async fn ask(controllers: &ToControllers, question: &str) -> Result<String, Unanswered> {
    controllers.ask(question, LONG).await
}

#[tokio::test]
async fn one_of_the_controllers_answers_each_question() {
    let broker = Broker::start(&["h1"]).await;
    let mut controllers = Vec::new();
    for name in ["first", "second"] {
        let connection = connect(&broker, broker.address(), &broker.controllers.seed, broker.cell.inbox()).await;
        controllers.push(Controller::over(&broker, connection, name).await);
    }
    let agent = Agent::start(&broker, "h1").await;
    controllers[0].link_when_up("h1").await;
    controllers[1].link_when_up("h1").await;
    for number in 0..20 {
        let answer = ask(&agent.server.to_controllers(), &format!("question {number}")).await.unwrap();
        assert!(["first", "second"].contains(&answer.as_str()), "{answer}");
    }
    let mut questions: Vec<_> = controllers.iter().flat_map(|controller| controller.directory.questions()).collect();
    questions.sort();
    questions.dedup();
    assert_eq!(questions.len(), 20, "each was answered, by one of them: {questions:?}");
    let answered: usize = controllers.iter().map(|controller| controller.directory.questions().len()).sum();
    assert_eq!(answered, 20);
    assert!(questions.iter().all(|(host, _)| host.as_str() == "h1"));
}

#[tokio::test]
async fn a_question_without_a_controller_is_not_delivered() {
    let broker = Broker::start(&["h1"]).await;
    let agent = Agent::start(&broker, "h1").await;
    until("the agent is connected", || agent.connection.is_connected()).await;
    assert_eq!(ask(&agent.server.to_controllers(), "who is there?").await, Err(Unanswered::NobodyListens));
}

#[tokio::test]
async fn a_controller_says_what_it_cannot_answer() {
    let broker = Broker::start(&["h1"]).await;
    let (controller, agent) = (Controller::start(&broker).await, Agent::start(&broker, "h1").await);
    controller.link_when_up("h1").await;
    let controllers = agent.server.to_controllers();
    assert!(matches!(ask(&controllers, "hold").await, Err(Unanswered::Unknown(_))));
    let unknown: Result<String, _> = controllers.ask(7, LONG).await;
    assert!(matches!(unknown, Err(Unanswered::NotDelivered(reason)) if reason.to_string().contains("does not know the question")));
    let misread: Result<u64, _> = controllers.ask("how many?", LONG).await;
    assert!(matches!(misread, Err(Unanswered::Unknown(reason)) if reason.to_string().contains("answered what this release does not know")));
}
