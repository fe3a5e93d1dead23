//! The journal in the API's database, read beside the service.

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

use cellshift::config::Config;
use cellshift::db::Db;
use cellshift::env::Env;

use crate::databases::Databases;
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

/// The API's database, opened once the service has made it.
pub struct Journal {
    config: Config,
    env: Env,
    db: Option<Db>,
}

impl Journal {
    pub fn of(stage: &Stage) -> Journal {
        Journal { config: stage.config(false), env: Env::system(), db: None }
    }

    /// Returns all operations at one moment.
    pub async fn all(&mut self) -> Vec<Move> {
        let db = self.db.get_or_insert_with(|| Databases::open(&self.config, "api", &self.env));
        let query =
            "SELECT id, kind, state, step, lease_epoch, (SELECT COUNT(*) FROM journal WHERE saga_id = sagas.id) AS lines FROM sagas";
        db.read(move |conn| Ok(diesel::sql_query(query).load(conn)?)).await.expect("the journal")
    }
}
