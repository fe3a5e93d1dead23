//! The floor: the machine's time for an equal number of durable commits and for the bytes of a disk ([`disks`]), and for answers of equal
//! size. Of cellshift it uses only a database's writer.

use std::time::Instant;

use diesel::RunQueryDsl;
use diesel::sql_types::{BigInt, Text};
use futures::future::join_all;

use cellshift::db::Db;

use crate::client::Client;
use crate::disks::{self, Disk};
use crate::measure::{Row, Scale};
use crate::sample::Times;
use crate::stage::Databases;

/// As long as a line of the journal.
const ROW: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Measures a GET: `at_once` clients send `each` requests one after the other.
pub async fn of_reads(client: &Client, path: &str, at_once: usize, each: usize) -> Times {
    let reader = async || {
        let mut times = Vec::new();
        // The first requests are not measured, so that the connections are open.
        for number in 0..each + 3 {
            let began = Instant::now();
            client.get(path).await;
            if number >= 3 {
                times.push(began.elapsed());
            }
        }
        times
    };
    let mut all = Times::default();
    join_all((0..at_once).map(|_| reader())).await.into_iter().for_each(|times| all.extend(times));
    all
}

/// Fills in the floor of each row with commits: as many clients copy as many disks, and make as many commits of one small row, one after the
/// other, in the same databases through the same writers, which group waiting commits as they do for cellshift.
pub async fn of_commits(databases: &Databases, scale: &Scale, rows: &mut [Row]) {
    for db in &databases.opened {
        let made = db.write(|conn| Ok(diesel::sql_query("CREATE TABLE bare (id BIGINT PRIMARY KEY, text TEXT NOT NULL)").execute(conn)?));
        made.await.expect("a table");
    }
    let disk = Disk::make(databases.folder());
    let mut next = 0;
    for row in rows.iter_mut().filter(|row| !row.cost.commits.is_empty()) {
        let order = spread(&row.cost.commits);
        let rounds = if row.at_once == 1 { scale.alone } else { scale.bursts };
        for _ in 0..rounds {
            let (disk, order, hashes) = (&disk, &order, disks::hashes(row.what));
            let clients = (0..row.at_once).map(|client| async move {
                let began = Instant::now();
                if let Some(hashes) = hashes {
                    disk.copy(hashes, client).await;
                }
                commits(databases, order, next + (client * order.len()) as i64).await;
                began.elapsed()
            });
            row.floor.extend(join_all(clients).await);
            disk.clear(row.at_once);
            next += (row.at_once * order.len()) as i64;
        }
    }
}

/// Returns the order in which one client writes to the databases: each as often as counted, evenly mixed.
fn spread(counts: &[u64]) -> Vec<usize> {
    let mut order: Vec<(u64, usize)> = Vec::new();
    for (database, count) in counts.iter().enumerate() {
        order.extend((0..*count).map(|number| ((2 * number + 1) * 1_000_000 / (2 * count), database)));
    }
    order.sort_unstable();
    order.into_iter().map(|(_, database)| database).collect()
}

async fn commits(databases: &Databases, order: &[usize], first: i64) {
    for (id, database) in (first..).zip(order) {
        insert(&databases.opened[*database], id).await;
    }
}

async fn insert(db: &Db, id: i64) {
    let row = move |conn: &mut cellshift::db::Conn| {
        let insert = diesel::sql_query("INSERT INTO bare (id, text) VALUES ($1, $2)").bind::<BigInt, _>(id).bind::<Text, _>(ROW);
        Ok(insert.execute(conn)?)
    };
    db.write(row).await.expect("a commit");
}
