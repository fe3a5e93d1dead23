//! The journal in the API's database, read beside the service.

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

use crate::stage::Stage;

/// An operation and its progress.
#[derive(Clone, Debug, QueryableByName)]
pub struct Move {
    #[diesel(sql_type = Text)]
    pub id: String,
    #[diesel(sql_type = Text)]
    pub kind: String,
    #[diesel(sql_type = Text)]
    pub state: String,
    #[diesel(sql_type = Text)]
    pub step: String,
    #[diesel(sql_type = BigInt)]
    pub lease_epoch: i64,
    /// The number of its journal lines.
    #[diesel(sql_type = BigInt)]
    pub lines: i64,
}

impl Move {
    pub fn ended(&self) -> bool {
        self.state == "done" || self.state == "unwound"
    }
}

/// A read-only connection, opened once the service has made the file.
pub struct Journal {
    file: String,
    connection: Option<SqliteConnection>,
}

impl Journal {
    pub fn of(stage: &Stage) -> Journal {
        Journal { file: stage.api_database().to_string_lossy().into_owned(), connection: None }
    }

    /// Returns all operations at one moment.
    pub fn all(&mut self) -> Vec<Move> {
        let file = &self.file;
        let connection = self.connection.get_or_insert_with(|| {
            let mut connection = SqliteConnection::establish(file).expect("the API's database");
            diesel::sql_query("PRAGMA busy_timeout = 5000").execute(&mut connection).expect("it waits");
            connection
        });
        let query =
            "SELECT id, kind, state, step, lease_epoch, (SELECT COUNT(*) FROM journal WHERE saga_id = sagas.id) AS lines FROM sagas";
        diesel::sql_query(query).load(connection).expect("the journal")
    }
}
