//! The agents of hosts: which life of each is accepted, and its last word. All controllers decide by one compare-and-set on the service of the
//! host.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::CellDb;
use super::schema::services;
use super::services::ServiceRow;
use crate::db::columns::Sql;
use crate::db::{Conn, DbError};
use crate::domain::agent::{AcceptedLife, AgentRecord, Decision, ForcedDown, Hello, LastWord, Place, Received};
use crate::domain::reason;
use crate::domain::service::Service;

/// The binary whose services are compute hosts.
const COMPUTE: &str = "nova-compute";
/// The number of times that a hello is decided anew because another controller has accepted a life meanwhile.
const TRIES: usize = 5;

/// The columns of an [`AgentRecord`].
#[derive(Queryable, Selectable)]
#[diesel(table_name = services)]
struct AgentRow {
    host: String,
    agent_life: Option<Uuid>,
    agent_place: Option<Uuid>,
    agent_start: Option<i64>,
    agent_heard_at: Option<DateTime<Utc>>,
    agent_last_word: Option<String>,
    agent_self_fence_ms: Option<i64>,
    forced_down: bool,
    forced_down_at: Option<DateTime<Utc>>,
}

impl From<AgentRow> for AgentRecord {
    fn from(row: AgentRow) -> AgentRecord {
        let start = row.agent_start.and_then(|start| u64::try_from(start).ok());
        let place = row.agent_place.zip(start).map(|(id, start)| Place { id, start });
        // A word of a newer release is no word that the host is off.
        let last_word = row.agent_last_word.map(|word| LastWord::parse(&word).unwrap_or(LastWord::GuestsGoOn));
        let self_fence = row.agent_self_fence_ms.and_then(|millis| u64::try_from(millis).ok()).map(Duration::from_millis);
        let accepted =
            row.agent_life.zip(row.agent_heard_at).map(|(life, heard_at)| AcceptedLife { life, place, heard_at, self_fence, last_word });
        AgentRecord { host: row.host, accepted, forced_down: row.forced_down.then_some(ForcedDown { at: row.forced_down_at }) }
    }
}

impl CellDb {
    /// Decides on a hello of the agent of the service's host. A life that is accepted or known is written down with the moment and with its
    /// promise, before anybody relies on them. Registers the service if the host has none.
    pub async fn accept_life(&self, service: Service, hello: Hello) -> Result<Received, DbError> {
        let now = self.db.env().now();
        self.db
            .write(move |conn| {
                for _ in 0..TRIES {
                    let Some(record) = record_of(conn, &service.host)? else {
                        diesel::insert_into(services::table).values(ServiceRow::from(service.clone())).execute(conn)?;
                        continue;
                    };
                    let decision = record.decide(&hello);
                    let is_written = match decision {
                        Decision::Accept => accept(conn, &record, &hello, now)?,
                        Decision::Known => hear(conn, &record.host, &hello, now)?,
                        Decision::Ended | Decision::Taken(_) => true,
                    };
                    if is_written {
                        return Ok(Received { decision, at: now });
                    }
                }
                Err(DbError::Conflict(reason!("other controllers decide on the agent of host {} at the same time", service.host)))
            })
            .await
    }

    /// Writes down the last word of a life. False if it is not the accepted life: then nothing changes.
    pub async fn end_life(&self, host: &str, life: Uuid, word: LastWord) -> Result<bool, DbError> {
        let (host, now) = (host.to_owned(), self.db.env().now());
        self.db
            .write(move |conn| {
                let row = services::table.filter(services::host.eq(host)).filter(services::binary_name.eq(COMPUTE));
                let of_life = row.filter(services::agent_life.eq(Sql(Some(life))));
                let set = (services::agent_last_word.eq(word.as_str()), services::agent_heard_at.eq(Sql(Some(now))));
                Ok(diesel::update(of_life).set(set).execute(conn)? > 0)
            })
            .await
    }

    /// Returns the agent of a host; none if the host has no service.
    pub async fn agent(&self, host: &str) -> Result<Option<AgentRecord>, DbError> {
        let host = host.to_owned();
        self.db.read(move |conn| record_of(conn, &host)).await
    }

    /// Returns the agents of all hosts that have had one.
    pub async fn agents(&self) -> Result<Vec<AgentRecord>, DbError> {
        self.db
            .read(|conn| {
                let with_agent = services::table.filter(services::binary_name.eq(COMPUTE)).filter(services::agent_life.is_not_null());
                let rows: Vec<AgentRow> = with_agent.order(services::host).select(AgentRow::as_select()).load(conn)?;
                Ok(rows.into_iter().map(AgentRecord::from).collect())
            })
            .await
    }
}

fn record_of(conn: &mut Conn, host: &str) -> Result<Option<AgentRecord>, DbError> {
    let row = services::table.filter(services::host.eq(host)).filter(services::binary_name.eq(COMPUTE));
    let row: Option<AgentRow> = row.select(AgentRow::as_select()).first(conn).optional()?;
    Ok(row.map(AgentRecord::from))
}

/// Writes the accepted life in place of the one that was read. False if another controller has written another one since.
fn accept(conn: &mut Conn, read: &AgentRecord, hello: &Hello, now: DateTime<Utc>) -> Result<bool, DbError> {
    let start = hello.place.map(|place| i64::try_from(place.start).unwrap_or(i64::MAX));
    let set = (
        services::agent_life.eq(Sql(Some(hello.life))),
        services::agent_place.eq(Sql(hello.place.map(|place| place.id))),
        services::agent_start.eq(start),
        services::agent_heard_at.eq(Sql(Some(now))),
        services::agent_last_word.eq(None::<String>),
        services::agent_self_fence_ms.eq(millis_of(hello.self_fence)),
    );
    let row = services::table.filter(services::host.eq(&read.host)).filter(services::binary_name.eq(COMPUTE));
    let changed = match read.accepted {
        None => diesel::update(row.filter(services::agent_life.is_null())).set(set).execute(conn)?,
        Some(before) => diesel::update(row.filter(services::agent_life.eq(Sql(Some(before.life))))).set(set).execute(conn)?,
    };
    Ok(changed > 0)
}

/// Notes that the accepted life was heard of. False if it is not accepted any more, or has ended.
fn hear(conn: &mut Conn, host: &str, hello: &Hello, now: DateTime<Utc>) -> Result<bool, DbError> {
    let row = services::table.filter(services::host.eq(host)).filter(services::binary_name.eq(COMPUTE));
    let at_work = row.filter(services::agent_life.eq(Sql(Some(hello.life)))).filter(services::agent_last_word.is_null());
    let set = (services::agent_heard_at.eq(Sql(Some(now))), services::agent_self_fence_ms.eq(millis_of(hello.self_fence)));
    Ok(diesel::update(at_work).set(set).execute(conn)? > 0)
}

fn millis_of(promise: Option<Duration>) -> Option<i64> {
    promise.map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::cell::CellTxn;
    use crate::db::cell::tests::{at, cells, id};
    use crate::domain::agent::Renewal;
    use crate::domain::service::ServiceChange;

    fn service(number: u128) -> Service {
        Service::new(id(number), "h1", COMPUTE, "cell1", at(0))
    }

    fn hello(life: u128, place: Option<(u128, u64)>) -> Hello {
        Hello { life: id(life), place: place.map(|(place, start)| Place { id: id(place), start }), self_fence: None }
    }

    async fn decision(cell: &CellDb, service: Service, hello: Hello) -> Decision {
        cell.accept_life(service, hello).await.unwrap().decision
    }

    async fn accepted(cell: &CellDb) -> (Uuid, Option<LastWord>) {
        let accepted = cell.agent("h1").await.unwrap().unwrap().accepted.unwrap();
        (accepted.life, accepted.last_word)
    }

    #[tokio::test]
    async fn a_hello_registers_the_host_and_is_kept() {
        for cell in cells() {
            let first = hello(1, Some((7, 1)));
            assert_eq!(decision(&cell, service(1), first).await, Decision::Accept);
            assert_eq!(decision(&cell, service(2), first).await, Decision::Known);
            assert_eq!(cell.service_on("h1", COMPUTE).await.unwrap().uuid, id(1), "the first registration stays");
            let agents = cell.agents().await.unwrap();
            let record = agents[0].accepted.unwrap();
            assert_eq!((agents.len(), record.life, record.place, record.last_word), (1, id(1), first.place, None));
            assert_eq!(cell.agent("h2").await.unwrap(), None);
        }
    }

    #[tokio::test]
    async fn a_name_passes_by_a_word_or_a_later_start_alone() {
        for cell in cells() {
            decision(&cell, service(1), hello(1, Some((7, 1)))).await;
            let other = decision(&cell, service(1), hello(2, Some((8, 1)))).await;
            assert!(matches!(other, Decision::Taken(AcceptedLife { life, .. }) if life == id(1)), "{other:?}");
            assert_eq!(decision(&cell, service(1), hello(3, Some((7, 2)))).await, Decision::Accept);
            assert!(!cell.end_life("h1", id(1), LastWord::NoGuestRuns).await.unwrap(), "the word of an overtaken life");
            assert_eq!(accepted(&cell).await, (id(3), None));
            assert!(cell.end_life("h1", id(3), LastWord::NoGuestRuns).await.unwrap());
            assert_eq!(decision(&cell, service(1), hello(3, Some((7, 2)))).await, Decision::Ended);
            assert_eq!(accepted(&cell).await, (id(3), Some(LastWord::NoGuestRuns)), "a late hello takes no word back");
            assert_eq!(decision(&cell, service(1), hello(2, Some((8, 1)))).await, Decision::Accept);
            assert_eq!(accepted(&cell).await, (id(2), None));
        }
    }

    #[tokio::test]
    async fn a_forced_down_host_gives_its_name_to_one_agent() {
        for cell in cells() {
            decision(&cell, service(1), hello(1, None)).await;
            let forced = ServiceChange { forced_down: Some(true), ..ServiceChange::default() };
            cell.change_service(id(1), forced).await.unwrap();
            assert_eq!(decision(&cell, service(1), hello(2, None)).await, Decision::Accept);
            let third = decision(&cell, service(1), hello(3, None)).await;
            assert!(matches!(third, Decision::Taken(_)), "the word was about the first one: {third:?}");
            cell.apply_unfenced(CellTxn::new().delete_service(id(1))).await.unwrap();
            assert_eq!(decision(&cell, service(4), hello(3, None)).await, Decision::Accept, "the agent was removed");
        }
    }

    #[tokio::test]
    async fn two_controllers_accept_one_of_two_lives() {
        for cell in cells() {
            decision(&cell, service(1), hello(9, None)).await;
            cell.end_life("h1", id(9), LastWord::NoGuestRuns).await.unwrap();
            let (one, other) = (cell.clone(), CellDb::new(cell.db().clone()));
            let decisions = futures::join!(one.accept_life(service(1), hello(1, None)), other.accept_life(service(1), hello(2, None)));
            let decisions = [decisions.0.unwrap().decision, decisions.1.unwrap().decision];
            let accepts = decisions.iter().filter(|decision| **decision == Decision::Accept).count();
            assert_eq!(accepts, 1, "{decisions:?}");
            let winner = if decisions[0] == Decision::Accept { id(1) } else { id(2) };
            assert_eq!(accepted(&cell).await, (winner, None));
        }
    }

    #[tokio::test]
    async fn a_promise_is_written_with_the_word_that_gives_it() {
        for cell in cells() {
            let promise = |cell: CellDb| async move { cell.agent("h1").await.unwrap().unwrap().accepted.unwrap().renewal() };
            let promising = Hello { self_fence: Some(Duration::from_millis(7_500)), ..hello(1, Some((7, 1))) };
            let first = cell.accept_life(service(1), promising).await.unwrap();
            assert_eq!(promise(cell.clone()).await, Renewal { heard_at: first.at, self_fence: promising.self_fence });
            let second = cell.accept_life(service(1), promising).await.unwrap();
            assert!(second.at > first.at && second.decision == Decision::Known, "{second:?}");
            assert_eq!(promise(cell.clone()).await, Renewal { heard_at: second.at, self_fence: promising.self_fence });

            let unbound = hello(2, Some((7, 2)));
            assert_eq!(
                decision(&cell, service(1), hello(3, Some((8, 1)))).await,
                Decision::Taken(AcceptedLife {
                    life: id(1),
                    place: promising.place,
                    heard_at: second.at,
                    self_fence: promising.self_fence,
                    last_word: None,
                })
            );
            let third = cell.accept_life(service(1), unbound).await.unwrap();
            assert_eq!(promise(cell.clone()).await, Renewal { heard_at: third.at, self_fence: None }, "a new life promises anew");
        }
    }
}
