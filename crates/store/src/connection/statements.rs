//! The connection to either kind of database, with a cache of prepared statements. diesel's own multi-database connection renders a
//! statement's SQL on each pass and prepares each UPDATE and each list of values again, which took a fifth of all CPU time. This connection
//! renders a prepared statement never again, and caches the others by their text.

use std::any::TypeId;
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cellshift_env::metrics::Stopwatch;
use diesel::connection::{
    CacheSize, Connection, Instrumentation, InstrumentationEvent, LoadConnection, SimpleConnection, TransactionManager,
    TransactionManagerStatus,
};
use diesel::expression::QueryMetadata;
use diesel::internal::derives::multiconnection::{AstPassHelper, ConnectionSealed};
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::r2d2::R2D2Connection;
use diesel::{ConnectionResult, PgConnection, QueryResult, SqliteConnection};

use super::trust::{Failures, Trust};

/// The maximum number of statements cached by text, per connection. Beyond it only statements whose type determines their text are cached:
/// a list of values has a different text for each length.
const KEPT_BY_TEXT: usize = 256;
/// The length of a text from which on it is a list of many values. SQLite compiles such a list into code for each value.
const LONG: usize = 1500;
/// The total length of long texts after which a connection to SQLite empties its cache: some ten lists of a thousand values.
const LONG_TEXTS: usize = 32 * 1024;

/// A connection to PostgreSQL or SQLite.
#[derive(diesel::MultiConnection)]
pub enum Either {
    /// PostgreSQL.
    Pg(PgConnection),
    /// SQLite.
    Sqlite(SqliteConnection),
}

/// A connection to either kind of database.
pub struct Conn {
    pub(super) either: Either,
    /// The types of prepared statements whose type determines their text.
    prepared: HashSet<TypeId>,
    /// The number of cached statements of both kinds.
    kept: Arc<AtomicUsize>,
    /// The total length of the long texts among them.
    long: Arc<AtomicUsize>,
    /// A secret was erased, so the log must be emptied.
    pub(super) erased: bool,
    trust: Trust,
}

impl Conn {
    pub(super) fn new(mut either: Either) -> Conn {
        let (kept, long) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (counter, length) = (kept.clone(), long.clone());
        either.set_instrumentation(move |event: InstrumentationEvent<'_>| {
            if let InstrumentationEvent::CacheQuery { sql, .. } = event {
                counter.fetch_add(1, Ordering::Relaxed);
                length.fetch_add(if sql.len() < LONG { 0 } else { sql.len() }, Ordering::Relaxed);
            }
        });
        Conn { either, prepared: HashSet::new(), kept, long, erased: false, trust: Trust::default() }
    }

    /// Makes the connection one of a pool's.
    pub(super) fn join(&mut self, failures: &Failures) {
        self.trust = Trust::beside(failures);
    }

    /// Notes whether the server has answered the call that began at this moment.
    pub(crate) fn note_answer(&mut self, began: Stopwatch, has_answered: bool) {
        match has_answered {
            true => self.trust.proved(began),
            false => self.trust.failed(),
        }
    }

    /// True for a connection to PostgreSQL.
    pub fn is_postgres(&self) -> bool {
        matches!(self.either, Either::Pg(_))
    }

    /// Empties the cache if long lists of many lengths have filled it. PostgreSQL takes a list as one value.
    fn drop_long_lists(&mut self) {
        if matches!(self.either, Either::Sqlite(_)) && self.long.load(Ordering::Relaxed) > LONG_TEXTS {
            self.set_prepared_statement_cache_size(CacheSize::Disabled);
            self.set_prepared_statement_cache_size(CacheSize::Unbounded);
            self.kept.store(0, Ordering::Relaxed);
            self.long.store(0, Ordering::Relaxed);
        }
    }

    fn statement<T: QueryFragment<MultiBackend> + QueryId>(&self, query: T) -> QueryResult<Statement<T>> {
        let backend = match self.either {
            Either::Pg(_) => MultiBackend::Pg(Default::default()),
            Either::Sqlite(_) => MultiBackend::Sqlite(Default::default()),
        };
        let id = T::query_id();
        let is_prepared = id.is_some_and(|id| self.prepared.contains(&id));
        let is_kept = match id {
            // Cached by its type, which determines its text.
            Some(_) => is_prepared || query.is_safe_to_cache_prepared(&backend)?,
            // Cached by its text.
            None => self.kept.load(Ordering::Relaxed) < self.prepared.len() + KEPT_BY_TEXT || query.is_safe_to_cache_prepared(&backend)?,
        };
        Ok(Statement {
            query,
            is_prepared,
            is_kept,
            id: id.filter(|_| is_kept),
            // For text-keyed statements SQLite needs the SQL only on the first pass; later passes skip rendering.
            is_written: (id.is_none() && matches!(self.either, Either::Sqlite(_))).then(|| Cell::new(false)),
        })
    }
}

/// A statement, with the cache's knowledge about it.
struct Statement<T> {
    query: T,
    /// Prepared under its type: nobody reads its text any more.
    is_prepared: bool,
    is_kept: bool,
    /// The type under which the statement is cached; none if it is cached by its text.
    id: Option<TypeId>,
    /// The text has been rendered. None if later passes may need the text again.
    is_written: Option<Cell<bool>>,
}

impl<T: QueryFragment<MultiBackend>> QueryFragment<MultiBackend> for Statement<T> {
    fn walk_ast<'b>(&'b self, pass: AstPass<'_, 'b, MultiBackend>) -> QueryResult<()> {
        let is_text = Cell::new(false);
        // The cast changes nothing. Its closures show whether this pass renders text.
        let mut pass = pass.cast_database::<MultiBackend>(
            |binds| binds,
            |text| {
                is_text.set(true);
                text
            },
            |backend| backend,
            |lookup| lookup,
        );
        let is_vain = self.is_prepared || self.is_written.as_ref().is_some_and(|written| is_text.get() && written.replace(true));
        if is_text.get() && is_vain {
            return Ok(());
        }
        if is_text.get() || pass.bind_collector().is_some() || pass.debug_binds().is_some() {
            return self.query.walk_ast(pass);
        }
        if !self.is_kept {
            pass.unsafe_to_cache_prepared();
        }
        Ok(())
    }
}

impl<T: QueryId> QueryId for Statement<T> {
    type QueryId = T::QueryId;

    const HAS_STATIC_QUERY_ID: bool = T::HAS_STATIC_QUERY_ID;
}

impl<T: Query> Query for Statement<T> {
    type SqlType = T::SqlType;
}

impl ConnectionSealed for Conn {}

impl SimpleConnection for Conn {
    fn batch_execute(&mut self, query: &str) -> QueryResult<()> {
        self.either.batch_execute(query)
    }
}

impl Connection for Conn {
    type Backend = MultiBackend;
    type TransactionManager = Conn;

    fn establish(url: &str) -> ConnectionResult<Conn> {
        Either::establish(url).map(Conn::new)
    }

    fn execute_returning_count<T>(&mut self, source: &T) -> QueryResult<usize>
    where
        T: QueryFragment<MultiBackend> + QueryId,
    {
        self.drop_long_lists();
        let statement = self.statement(source)?;
        let count = self.either.execute_returning_count(&statement)?;
        self.prepared.extend(statement.id);
        Ok(count)
    }

    fn transaction_state(&mut self) -> &mut Conn {
        self
    }

    fn instrumentation(&mut self) -> &mut dyn Instrumentation {
        self.either.instrumentation()
    }

    fn set_instrumentation(&mut self, instrumentation: impl Instrumentation) {
        self.either.set_instrumentation(instrumentation);
    }

    fn set_prepared_statement_cache_size(&mut self, size: CacheSize) {
        self.prepared.clear();
        self.either.set_prepared_statement_cache_size(size);
    }
}

impl LoadConnection for Conn {
    type Cursor<'conn, 'query> = <Either as LoadConnection>::Cursor<'conn, 'query>;
    type Row<'conn, 'query> = <Either as LoadConnection>::Row<'conn, 'query>;

    fn load<'conn, 'query, T>(&'conn mut self, source: T) -> QueryResult<Self::Cursor<'conn, 'query>>
    where
        T: Query + QueryFragment<MultiBackend> + QueryId + 'query,
        MultiBackend: QueryMetadata<T::SqlType>,
    {
        self.drop_long_lists();
        let statement = self.statement(source)?;
        let id = statement.id;
        let cursor = self.either.load(statement)?;
        self.prepared.extend(id);
        Ok(cursor)
    }
}

/// Delegates to the connection in use.
impl TransactionManager<Conn> for Conn {
    type TransactionStateData = Conn;

    fn begin_transaction(conn: &mut Conn) -> QueryResult<()> {
        <Either as TransactionManager<Either>>::begin_transaction(&mut conn.either)
    }

    fn rollback_transaction(conn: &mut Conn) -> QueryResult<()> {
        <Either as TransactionManager<Either>>::rollback_transaction(&mut conn.either)
    }

    fn commit_transaction(conn: &mut Conn) -> QueryResult<()> {
        <Either as TransactionManager<Either>>::commit_transaction(&mut conn.either)
    }

    fn transaction_manager_status_mut(conn: &mut Conn) -> &mut TransactionManagerStatus {
        <Either as TransactionManager<Either>>::transaction_manager_status_mut(&mut conn.either)
    }

    fn is_broken_transaction_manager(conn: &mut Conn) -> bool {
        <Either as TransactionManager<Either>>::is_broken_transaction_manager(&mut conn.either)
    }
}

impl R2D2Connection for Conn {
    fn ping(&mut self) -> QueryResult<()> {
        if self.trust.holds() {
            return Ok(());
        }
        self.either.ping().inspect_err(|_| self.trust.failed())
    }

    fn is_broken(&mut self) -> bool {
        self.either.is_broken()
    }
}

#[cfg(test)]
mod tests {
    use diesel::prelude::*;

    use super::*;

    diesel::table! {
        things (id) {
            id -> Integer,
        }
    }

    #[test]
    fn long_lists_of_many_lengths_do_not_fill_the_cache() {
        let mut conn = Conn::establish(":memory:").unwrap();
        conn.batch_execute("CREATE TABLE things (id INTEGER PRIMARY KEY NOT NULL); INSERT INTO things VALUES (1), (2), (900)").unwrap();
        let (mut emptied, mut before) = (0, 0);
        for length in 500..600 {
            let rows = things::table.filter(things::id.eq_any(0..length)).order(things::id);
            let ids = rows.select(things::id).load::<i32>(&mut conn).unwrap();
            assert_eq!(ids, [1, 2]);
            let after = conn.long.load(Ordering::Relaxed);
            assert!(after > 0 && after <= LONG_TEXTS + 4096, "{after}");
            emptied += usize::from(after < before);
            before = after;
            let all: i64 = things::table.count().get_result(&mut conn).unwrap();
            assert_eq!(all, 3);
        }
        assert!(emptied > 2, "{emptied}");
    }
}
