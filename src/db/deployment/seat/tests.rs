//! Tests of the seat's row on both databases: one process has it, and another one takes it when the first is dead or its time has passed.

use super::*;
use crate::db::deployment::tests::{open, owner, places};
use crate::db::deployment::{Owner, Part};

const LONG: Duration = Duration::from_secs(3600);

/// A start of a controller whose data directory has this lock.
fn process(name: &str, lock_file: &str) -> Process {
    let life = Env::system().uuid();
    Process { name: name.into(), life, host: "here".into(), directory: format!("/data/{lock_file}"), lock_file: lock_file.into() }
}

async fn start(url: &str, process: &Process, term: Duration) -> Result<SeatRow, DbError> {
    let seat = Some(Wish::new(&Env::system(), process.clone(), term));
    let db = open(url, Owner { seat, ..owner(1, Part::Api) }).await?;
    Ok(SeatRow::of(&ApiDb::new(db), process.life))
}

#[tokio::test]
async fn a_seat_is_refused_until_its_time_has_passed() {
    let dir = tempfile::tempdir().unwrap();
    for url in places(dir.path()) {
        let (first, copy) = (process("controller-1", "1"), process("controller-1", "2"));
        let row = start(&url, &first, LONG).await.unwrap();
        let refused = start(&url, &copy, LONG).await.err().unwrap().to_string();
        assert!(refused.starts_with("controller-1 on here with the data directory /data/1 has these databases since "), "{refused}");
        let held = holder(&url, &Env::system()).unwrap().unwrap();
        assert_eq!(held.process, first);
        assert!(held.keeps_out(&copy) && !held.keeps_out(&first) && !held.may_be_former(&copy), "{held:?}");
        assert_eq!(row.renew(Duration::ZERO).await.unwrap(), Renewed::Done);

        // Its time has passed. As long as nobody else has taken the seat, it can still be renewed.
        assert!(!holder(&url, &Env::system()).unwrap().unwrap().keeps_out(&copy));
        assert_eq!(row.renew(Duration::ZERO).await.unwrap(), Renewed::Done);
        let other = start(&url, &copy, LONG).await.unwrap();
        match row.renew(LONG).await.unwrap() {
            Renewed::Lost(Some(held)) => assert_eq!(held.process, copy),
            other => panic!("{other:?}"),
        }
        row.give_up().await.unwrap();
        assert_eq!(other.renew(LONG).await.unwrap(), Renewed::Done, "nobody gives up another's seat");
    }
}

#[tokio::test]
async fn a_seat_is_free_when_it_is_given_up_or_its_process_is_dead() {
    let dir = tempfile::tempdir().unwrap();
    for url in places(dir.path()) {
        start(&url, &process("controller-1", "1"), LONG).await.unwrap();
        // Whoever has the same lock knows that the former process is dead.
        let again = start(&url, &process("controller-1", "1"), LONG).await.unwrap();
        let elsewhere = process("controller-2", "2");
        assert!(start(&url, &elsewhere, LONG).await.is_err());
        again.give_up().await.unwrap();
        assert_eq!(holder(&url, &Env::system()).unwrap(), None);
        start(&url, &elsewhere, LONG).await.unwrap();
    }
}

#[tokio::test]
async fn of_many_first_starts_at_once_one_has_the_seat() {
    let dir = tempfile::tempdir().unwrap();
    for url in places(dir.path()) {
        let processes: Vec<Process> = (0..6).map(|number| process(&format!("controller-{number}"), &number.to_string())).collect();
        let started = futures::future::join_all(processes.iter().map(|process| start(&url, process, LONG))).await;
        let refusals: Vec<String> = started.iter().filter_map(|start| Some(start.as_ref().err()?.to_string())).collect();
        assert_eq!(refusals.len(), 5, "{refusals:?}");
        assert!(refusals.iter().all(|refusal| refusal.contains("has these databases since")), "{refusals:?}");
    }
}
