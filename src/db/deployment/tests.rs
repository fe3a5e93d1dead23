//! Tests of marks on both databases: a look changes nothing, and only its owner's database is opened.

use super::*;
use crate::db::fixture::fresh_postgres;
use crate::db::{Db, Location};
use crate::env::Env;

/// Returns places for a fresh database: a file that does not exist yet and, if available, an empty PostgreSQL database.
pub(super) fn places(dir: &std::path::Path) -> Vec<String> {
    let file = dir.join("with # and ?.db").to_string_lossy().into_owned();
    std::iter::once(file).chain(fresh_postgres()).collect()
}

pub(super) fn owner(deployment: u128, part: Part) -> Owner {
    Owner { deployment: Uuid::from_u128(deployment), part, must_exist: false, unmarked: Unmarked::Refuse, seat: None }
}

pub(super) async fn open(url: &str, owner: Owner) -> Result<Db, DbError> {
    let location = Location { url: url.to_owned(), schema: owner.part.schema().into(), owner: Some(owner.claim()) };
    let db = Db::unopened("test", location, &Env::system());
    db.open_now().await.map(|()| db)
}

#[tokio::test]
async fn a_marked_database_opens_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    for url in places(dir.path()) {
        let before = look(&url).unwrap();
        assert_eq!(before, if is_postgres(&url) { Sight::Empty } else { Sight::Absent });
        let gone = open(&url, Owner { must_exist: true, ..owner(1, Part::Services) }).await.err().unwrap().to_string();
        assert!(gone.contains("records have been in it"), "{gone}");
        assert_eq!(look(&url).unwrap(), before, "a refusal makes nothing");

        drop(open(&url, owner(1, Part::Services)).await.unwrap());
        let marks = Marks { part: Part::Services, deployment: Uuid::from_u128(1), others: BTreeSet::new() };
        assert_eq!(look(&url).unwrap(), Sight::Marked(marks));
        drop(open(&url, Owner { must_exist: true, ..owner(1, Part::Services) }).await.unwrap());
        for (other, part) in [(owner(2, Part::Services), "belongs to deployment"), (owner(1, Part::Api), "the database services")] {
            let refused = open(&url, other).await.err().unwrap().to_string();
            assert!(refused.contains(part), "{refused}");
        }
    }
}

#[tokio::test]
async fn a_look_at_a_file_makes_no_other_file() {
    let dir = tempfile::tempdir().unwrap();
    let url = dir.path().join("api.db").to_string_lossy().into_owned();
    drop(open(&url, owner(1, Part::Api)).await.unwrap());
    // A pool's thread may still be closing the last connection.
    while dir.path().join("api.db-wal").exists() {
        tokio::task::yield_now().await;
    }
    let files = || std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<BTreeSet<_>>();
    let (before, bytes) = (files(), std::fs::read(&url).unwrap());
    assert!(matches!(look(&url).unwrap(), Sight::Marked(_)));
    assert_eq!((files(), std::fs::read(&url).unwrap()), (before, bytes));
}

#[tokio::test]
async fn a_look_sees_commits_that_a_killed_process_left() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let url = dir.path().join("api.db").to_string_lossy().into_owned();
    let db = open(&url, owner(1, Part::Api)).await.unwrap();
    crate::db::api::ApiDb::new(db.clone()).note_marked(Part::Services, Uuid::from_u128(1)).await.unwrap();
    // Copies the files as a kill at this moment would leave them.
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let left = copy.path().join("api.db");
    let read = |name: &str| std::fs::read(copy.path().join(name)).unwrap();
    let before = (read("api.db"), read("api.db-wal"));
    assert!(!before.1.is_empty(), "the commit is beside the file");
    let Sight::Marked(marks) = look(&left.to_string_lossy()).unwrap() else { panic!("no mark") };
    assert_eq!(marks.others, BTreeSet::from([Part::Services]));
    assert_eq!((read("api.db"), read("api.db-wal")), before);
}

#[tokio::test]
async fn tables_without_a_mark_are_taken_only_as_told() {
    let dir = tempfile::tempdir().unwrap();
    let node = Uuid::from_u128(7).to_string();
    for url in places(dir.path()) {
        let cell = Part::Cell(Uuid::from_u128(5));
        let db = open(&url, owner(1, cell)).await.unwrap();
        let text = format!(
            "DROP TABLE deployment; \
             INSERT INTO compute_nodes (uuid, created_at, updated_at, host, hypervisor_hostname, hypervisor_type, hypervisor_version, \
             host_ip, vcpus, memory_mb, local_gb, vcpus_used, memory_mb_used, local_gb_used, running_vms, current_workload, \
             cpu_allocation_ratio, ram_allocation_ratio, disk_allocation_ratio, cpu_info, service_id, mapped) VALUES \
             ('{node}', '2026-01-01 00:00:00', NULL, 'h', 'h', 't', 1, '', 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, '', '', true)"
        );
        db.write(move |conn| Ok(conn.batch_execute(&text)?)).await.unwrap();
        drop(db);
        assert_eq!(look(&url).unwrap(), Sight::Unmarked { kind: Some(Schema::Cell) });
        let by_ids = |ids: &[&str], strictly| Unmarked::TakeOverIfRelated {
            ids: Arc::new(ids.iter().map(|id| (*id).to_owned()).collect()),
            strictly,
        };
        let check = |unmarked| check(&url, &Owner { unmarked, ..owner(1, cell) }).unwrap();
        assert_eq!(check(Unmarked::Refuse), Err(Misfit::Unmarked));
        assert_eq!(check(Unmarked::TakeOverIfEmpty), Err(Misfit::Unmarked));
        assert_eq!(check(by_ids(&["other"], false)), Err(Misfit::Unknown));
        assert_eq!(check(by_ids(&[], true)), Err(Misfit::Unknown));
        assert_eq!(check(by_ids(&[], false)), Ok(()));
        assert_eq!(check(by_ids(&["other", &node], true)), Ok(()));
        drop(open(&url, Owner { unmarked: by_ids(&[&node], true), ..owner(1, cell) }).await.unwrap());
        assert!(matches!(look(&url).unwrap(), Sight::Marked(_)));
    }
}

#[tokio::test]
async fn a_cells_tables_without_rows_are_as_good_as_none() {
    for (kind, verdict) in [(Schema::Cell, Ok(())), (Schema::Api, Err(Misfit::Unmarked))] {
        let dir = tempfile::tempdir().unwrap();
        for url in places(dir.path()) {
            drop(connection::open_pool("a database", &url, kind, None, 1).unwrap());
            assert_eq!(look(&url).unwrap(), Sight::Unmarked { kind: Some(kind) });
            let unmarked = Unmarked::TakeOverIfEmpty;
            assert_eq!(check(&url, &Owner { unmarked, ..owner(1, Part::Cell(Uuid::from_u128(5))) }).unwrap(), verdict);
        }
    }
}
