//! Records that a process keeps in memory and brings up to date before each look.
//!
//! Triggers write the id of each changed row into the table `changes` of the same database, in the same transaction. So a look reads the
//! rows that were committed since the last one, by whichever process, and no others. Nothing is assumed to be fresh: every look asks.
//!
//! SQLite numbers the changes, and the one writer of a file commits them in that order. PostgreSQL's transactions commit in any order, so
//! there a change has its transaction's id, and a reader begins at the lowest id that was still running when it last read. It passes over
//! the changes that it has met already.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use diesel::QueryableByName;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};
use parking_lot::Mutex;

use crate::{Conn, DbError, Of};

/// The longest wait for another look at the same records.
const PATIENCE: Duration = Duration::from_secs(5);

const ON_POSTGRES: &str = "SELECT txid_snapshot_xmin(now.running) AS next, changes.id AS id, changes.changed AS changed \
    FROM (SELECT txid_current_snapshot() AS running) AS now \
    LEFT JOIN changes ON changes.changed >= least($1, txid_snapshot_xmin(now.running)) \
    AND changes.changed < txid_snapshot_xmax(now.running)";
const ON_SQLITE: &str = "SELECT last.changed + 1 AS next, changes.id AS id, changes.changed AS changed \
    FROM (SELECT coalesce(max(changed), 0) AS changed FROM changes) AS last LEFT JOIN changes ON changes.changed >= $1";

/// Later than every change. A first look asks from here: on PostgreSQL it gets those that the next look will meet again.
const NEVER: i64 = i64::MAX;

/// Records that can be kept in memory.
pub trait Mirrored: Default + Send + 'static {
    /// Reads these rows, and drops those that are gone. `Of::All` replaces everything. After an error the same rows are read again.
    fn read(&mut self, conn: &mut Conn, of: Of<'_>) -> Result<(), DbError>;
}

/// Records in memory. Cheap to clone: the clones share them.
pub struct Mirror<T> {
    held: Arc<Mutex<Held<T>>>,
}

struct Held<T> {
    records: T,
    /// The first change that may not have been read. None before the first look.
    next: Option<i64>,
    /// The changes that the last look met, by row.
    met: BTreeMap<String, i64>,
}

impl<T> Clone for Mirror<T> {
    fn clone(&self) -> Mirror<T> {
        Mirror { held: Arc::clone(&self.held) }
    }
}

impl<T: Mirrored> Default for Mirror<T> {
    fn default() -> Mirror<T> {
        Mirror { held: Arc::new(Mutex::new(Held { records: T::default(), next: None, met: BTreeMap::new() })) }
    }
}

impl<T: Mirrored> Mirror<T> {
    /// Brings the records up to date and looks at them. `conn` is always a connection to the same database. Looks come one after the other;
    /// [`DbError::Unavailable`] if another one does not end.
    pub fn look<R>(&self, conn: &mut Conn, look: impl FnOnce(&T) -> R) -> Result<R, DbError> {
        let held = self.held.try_lock_for(PATIENCE);
        let busy = || DbError::Unavailable { name: String::new(), reason: "an earlier reader of the same records is not answered".into() };
        let mut held = held.ok_or_else(busy)?;
        held.catch_up(conn)?;
        Ok(look(&held.records))
    }
}

impl<T: Mirrored> Held<T> {
    fn catch_up(&mut self, conn: &mut Conn) -> Result<(), DbError> {
        let (next, changes) = changes(conn, self.next.unwrap_or(NEVER))?;
        match self.next {
            // A database that was put back to an earlier state counts anew.
            Some(last) if next >= last => {
                let new = changes.iter().filter(|(id, changed)| self.met.get(*id) != Some(changed));
                let ids: Vec<String> = new.map(|(id, _)| id.clone()).collect();
                if !ids.is_empty() {
                    self.records.read(conn, Of::These(&ids))?;
                }
            }
            _ => self.records.read(conn, Of::All)?,
        }
        (self.next, self.met) = (Some(next), changes);
        Ok(())
    }
}

#[derive(QueryableByName)]
struct ChangeRow {
    #[diesel(sql_type = BigInt)]
    next: i64,
    #[diesel(sql_type = Nullable<Text>)]
    id: Option<String>,
    #[diesel(sql_type = Nullable<BigInt>)]
    changed: Option<i64>,
}

/// Returns the changes from `from` on, by row, and where the next look begins.
fn changes(conn: &mut Conn, from: i64) -> Result<(i64, BTreeMap<String, i64>), DbError> {
    let statement = if conn.is_postgres() { ON_POSTGRES } else { ON_SQLITE };
    let rows: Vec<ChangeRow> = diesel::sql_query(statement).bind::<BigInt, _>(from).load(conn)?;
    let next = rows.first().map_or(from, |row| row.next);
    Ok((next, rows.into_iter().filter_map(|row| row.id.zip(row.changed)).collect()))
}

#[cfg(test)]
mod tests {
    use cellshift_env::{Blocking, Env, RandomIds, SystemClock};
    use diesel::connection::SimpleConnection;

    use super::*;
    use crate::fixture::TABLES;
    use crate::{Db, connection, fixture};

    /// Notes what it is told to read.
    #[derive(Default)]
    struct Noted(Mutex<Vec<Option<Vec<String>>>>);

    impl Mirrored for Noted {
        fn read(&mut self, _: &mut Conn, of: Of<'_>) -> Result<(), DbError> {
            self.0.lock().push(match of {
                Of::All => None,
                Of::These(ids) => Some(ids.to_vec()),
            });
            Ok(())
        }
    }

    /// Returns what a look reads: nothing, everything (None), or these rows.
    fn read_by_a_look(mirror: &Mirror<Noted>, conn: &mut Conn) -> Vec<Option<Vec<String>>> {
        mirror.look(conn, |noted| std::mem::take(&mut *noted.0.lock())).unwrap()
    }

    fn change(conn: &mut Conn, id: i32, name: &str) {
        let statement = format!("UPDATE aggregates SET name = '{name}' WHERE id = {id}");
        assert_eq!(diesel::sql_query(statement).execute(conn).unwrap(), 1);
    }

    const TWO: &str = "INSERT INTO aggregates (id, uuid, created_at, name) VALUES (1, 'u1', '2026-01-01 00:00:00', 'one');
        INSERT INTO aggregates (id, uuid, created_at, name) VALUES (2, 'u2', '2026-01-01 00:00:00', 'two');";

    #[tokio::test]
    async fn a_look_reads_what_has_changed_since_the_last_one() {
        for db in fixture::databases(TABLES) {
            db.write(|conn| Ok(conn.batch_execute(TWO)?)).await.unwrap();
            let mirror = Mirror::<Noted>::default();
            let looks = mirror.clone();
            let look = async || {
                let mirror = looks.clone();
                db.read(move |conn| Ok(read_by_a_look(&mirror, conn))).await.unwrap()
            };
            assert_eq!(look().await, [None], "the first look reads everything");
            assert!(look().await.is_empty(), "nothing has changed");
            db.write(|conn| {
                change(conn, 2, "deux");
                Ok(())
            })
            .await
            .unwrap();
            assert_eq!(look().await, [Some(vec!["2".to_owned()])]);
            let undone = db.write(|conn| {
                change(conn, 1, "un");
                Err::<(), _>(DbError::NotFound("undone".to_owned()))
            });
            assert!(undone.await.is_err());
            assert!(look().await.is_empty(), "a change that was undone is none");
            db.write(|conn| Ok(conn.batch_execute("DELETE FROM aggregates WHERE id = 2")?)).await.unwrap();
            assert_eq!(look().await, [Some(vec!["2".to_owned()])], "a row that is gone has changed, too");
            db.write(|conn| {
                change(conn, 1, "un");
                Ok(())
            })
            .await
            .unwrap();
            assert_eq!(look().await, [Some(vec!["1".to_owned()])], "the number of a removed row is not given again");
        }
    }

    #[tokio::test]
    async fn on_postgresql_a_late_commit_is_read_too() {
        let Some(url) = fixture::fresh_postgres() else { return };
        let env = Env::new(Arc::new(SystemClock), Arc::new(RandomIds), Blocking::Pool);
        let db = Db::open("postgres", &url, TABLES, &env).unwrap();
        db.write(|conn| Ok(conn.batch_execute(TWO)?)).await.unwrap();
        let [mut slow, mut quick, mut reader] = [(); 3].map(|()| connection::open(&url).unwrap());
        let mirror = Mirror::<Noted>::default();
        let mut long = connection::open(&url).unwrap();
        long.batch_execute("BEGIN; UPDATE aggregates SET name = 'eins' WHERE id = 1; ").unwrap();
        change(&mut quick, 2, "zwei");
        assert_eq!(read_by_a_look(&mirror, &mut reader), [None]);
        assert!(read_by_a_look(&mirror, &mut reader).is_empty(), "a change beside a long transaction is read once");
        long.batch_execute("ROLLBACK").unwrap();
        slow.batch_execute("BEGIN").unwrap();
        change(&mut slow, 1, "un");
        change(&mut quick, 2, "deux");
        assert_eq!(read_by_a_look(&mirror, &mut reader), [Some(vec!["2".to_owned()])]);
        slow.batch_execute("COMMIT").unwrap();
        assert_eq!(
            read_by_a_look(&mirror, &mut reader),
            [Some(vec!["1".to_owned()])],
            "its transaction is older than the one that was read"
        );
        assert!(read_by_a_look(&mirror, &mut reader).is_empty());
    }
}
