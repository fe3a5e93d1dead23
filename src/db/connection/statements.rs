//! The connection to either kind of database, and what it remembers of statements. diesel's own connection for several kinds
//! writes the text of a statement anew for each of its passes, and has every UPDATE and every list of values prepared anew;
//! that was a fifth of all computing time. Here a statement that this connection has prepared is not written again, and others
//! are kept under their text.

use std::any::TypeId;
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use diesel::connection::{
    CacheSize, Connection, Instrumentation, InstrumentationEvent, LoadConnection, SimpleConnection, TransactionManager,
    TransactionManagerStatus,
};
use diesel::expression::QueryMetadata;
use diesel::internal::derives::multiconnection::{AstPassHelper, ConnectionSealed};
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::r2d2::R2D2Connection;
use diesel::{ConnectionResult, PgConnection, QueryResult, SqliteConnection};

/// Statements that are kept under their text, per connection. Past it only those are kept whose type says their text: a list
/// of values has another text for each length.
const KEPT_BY_TEXT: usize = 256;

/// Either kind.
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
    /// Types of statements, each of one text, that are prepared.
    prepared: HashSet<TypeId>,
    /// How many statements have been kept, of either sort.
    kept: Arc<AtomicUsize>,
    /// Something was erased that must not be found in what the file has given up.
    pub(super) erased: bool,
}

impl Conn {
    pub(super) fn new(mut either: Either) -> Conn {
        let kept = Arc::<AtomicUsize>::default();
        let counter = kept.clone();
        either.set_instrumentation(move |event: InstrumentationEvent<'_>| {
            if let InstrumentationEvent::CacheQuery { .. } = event {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        Conn { either, prepared: HashSet::new(), kept, erased: false }
    }

    fn statement<T: QueryFragment<MultiBackend> + QueryId>(&self, query: T) -> QueryResult<Statement<T>> {
        let backend = match self.either {
            Either::Pg(_) => MultiBackend::Pg(Default::default()),
            Either::Sqlite(_) => MultiBackend::Sqlite(Default::default()),
        };
        let id = T::query_id();
        let is_prepared = id.is_some_and(|id| self.prepared.contains(&id));
        let is_kept = match id {
            // By its type, which has one text.
            Some(_) => is_prepared || query.is_safe_to_cache_prepared(&backend)?,
            // By its text.
            None => self.kept.load(Ordering::Relaxed) < self.prepared.len() + KEPT_BY_TEXT || query.is_safe_to_cache_prepared(&backend)?,
        };
        Ok(Statement {
            query,
            is_prepared,
            is_kept,
            id: id.filter(|_| is_kept),
            // SQLite's connection asks for the text of what is kept under it once, before all else, and for the later passes in vain.
            is_written: (id.is_none() && matches!(self.either, Either::Sqlite(_))).then(|| Cell::new(false)),
        })
    }
}

/// A statement, and what the connection knows of it.
struct Statement<T> {
    query: T,
    /// By its type: nobody reads its text any more.
    is_prepared: bool,
    is_kept: bool,
    /// What it is kept under, unless that is its text.
    id: Option<TypeId>,
    /// Its text has been written; none where that does not tell whether it is needed again.
    is_written: Option<Cell<bool>>,
}

impl<T: QueryFragment<MultiBackend>> QueryFragment<MultiBackend> for Statement<T> {
    fn walk_ast<'b>(&'b self, pass: AstPass<'_, 'b, MultiBackend>) -> QueryResult<()> {
        let is_text = Cell::new(false);
        // It changes nothing, but tells whether there is a text to write to.
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
        let statement = self.statement(source)?;
        let id = statement.id;
        let cursor = self.either.load(statement)?;
        self.prepared.extend(id);
        Ok(cursor)
    }
}

/// As [`Either`] does it.
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
        self.either.ping()
    }

    fn is_broken(&mut self) -> bool {
        self.either.is_broken()
    }
}
