//! A migration alone; the test is its conductor and its host.

use tokio::sync::mpsc;

use super::*;
use crate::actors::supervision::{ChildDied, Children, Verdict};
use crate::actors::tests::played::{Played, play};
use crate::db::api::leases::TakeOver;
use crate::db::api::operations::NewSaga;
use crate::domain::server::VmState;
use crate::metrics::Metrics;
use crate::runner::room::{Limits, Room};
use crate::saga::context::Request;
use crate::saga::performer::Plainly;
use crate::saga::tables::{accept, table_of};

/// A message from a migration to its conductor.
#[derive(PartialEq, Eq, Debug)]
enum Heard {
    Ended(Uuid, String),
    Died,
    Finished,
}

/// Holds one migration, and tells the test what it hears.
struct Parent {
    migrations: Option<Children<MigrationActor>>,
    heard: mpsc::UnboundedSender<Heard>,
}

impl Actor for Parent {
    type Context = actix::Context<Parent>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.migrations = Some(Children::new(ctx.address().downgrade().recipient()));
    }
}

impl Handler<MigrationEnded> for Parent {
    type Result = ();

    fn handle(&mut self, end: MigrationEnded, _: &mut Self::Context) {
        self.heard.send(Heard::Ended(end.saga, format!("{:?}", end.ended))).unwrap();
    }
}

impl Handler<ChildDied> for Parent {
    type Result = ();

    fn handle(&mut self, died: ChildDied, _: &mut Self::Context) {
        let verdict = self.migrations.as_mut().unwrap().on_death(&died);
        self.heard.send(if matches!(verdict, Verdict::Died) { Heard::Died } else { Heard::Finished }).unwrap();
    }
}

#[derive(Message)]
#[rtype(result = "Addr<MigrationActor>")]
struct Run(Arc<World>, Box<Flight>);

impl Handler<Run> for Parent {
    type Result = MessageResult<Run>;

    fn handle(&mut self, Run(world, flight): Run, ctx: &mut Self::Context) -> Self::Result {
        let ends = ctx.address().downgrade().recipient();
        let migrations = self.migrations.as_mut().unwrap();
        let room = Room::new(Limits { in_flight: 1, waiting: 0 }, &Metrics::off());
        let start = move |guard| MigrationActor::new(world, Arc::new(Plainly), room, flight, SignsOfLife::default(), ends, guard).start();
        MessageResult(migrations.start_once("migration", start))
    }
}

/// An accepted start of a stopped server, run by a migration.
async fn migration(played: &Played) -> (Uuid, Addr<Parent>, Addr<MigrationActor>, mpsc::UnboundedReceiver<Heard>) {
    let server = played.server(VmState::Stopped).await;
    let mut context = played.context(server, Request::Start);
    let json = serde_json::to_string(&context).unwrap();
    let first = table_of(&context).steps[0].name.as_str();
    let fence = played.world.operations.begin(NewSaga::new(context.saga, server, ("start", 1), first, json, "test")).await.unwrap();
    accept(&played.world, &mut context, fence).await.unwrap();
    let saga = context.saga;
    let flight = Box::new(Flight::accepted(context, fence, played.world.env.now()));
    let (sender, heard) = mpsc::unbounded_channel();
    let parent = Parent { migrations: None, heard: sender }.start();
    let address = parent.send(Run(played.world.clone(), flight)).await.unwrap();
    (saga, parent, address, heard)
}

#[actix::test]
async fn a_migration_reports_the_end_of_its_saga_and_stops() {
    let mut played = play().await;
    let (saga, _parent, _migration, mut heard) = migration(&played).await;
    played.next_request().await.done();
    assert_eq!(heard.recv().await, Some(Heard::Ended(saga, "Done".into())));
    assert_eq!(heard.recv().await, Some(Heard::Finished));
}

#[actix::test]
async fn its_death_is_noticed_and_says_nothing_of_the_saga() {
    let mut played = play().await;
    let (saga, _parent, migration, mut heard) = migration(&played).await;
    let _unanswered = played.next_request().await;
    migration.send(Kill).await.unwrap();
    assert_eq!(heard.recv().await, Some(Heard::Died));
    assert_eq!(played.world.operations.in_flight_of("test").await.unwrap().sagas, [saga]);
}

#[actix::test]
async fn a_migration_without_its_lease_does_no_more() {
    let mut played = play().await;
    let (saga, _parent, _migration, mut heard) = migration(&played).await;
    let call = played.next_request().await;
    let takeover = played.world.operations.take_over(saga, "test").await.unwrap();
    assert!(matches!(takeover, TakeOver::Taken(..)));
    call.done();
    assert_eq!(heard.recv().await, Some(Heard::Ended(saga, "Overtaken".into())));
    assert_eq!(heard.recv().await, Some(Heard::Finished));
}
