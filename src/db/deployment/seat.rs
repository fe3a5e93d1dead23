//! The seat's row in the API database: which process has the deployment, and until when by the database's clock. Its table is made with the
//! deployment's mark, because a start takes the seat before it migrates or changes anything.

use std::fmt;
use std::time::Duration;

use chrono::{NaiveDateTime, TimeDelta};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use uuid::Uuid;

use crate::db::api::ApiDb;
use crate::db::clock::ClockTime;
use crate::db::connection::{self, is_postgres};
use crate::db::{Conn, Db, DbError};
use crate::domain::reason;
use crate::env::Env;
use crate::env::guard::{Guard, stands};

diesel::table! {
    controllers (name) {
        name -> Text,
        life -> Text,
        host -> Text,
        directory -> Text,
        lock_file -> Text,
        started_at -> Timestamp,
        live_until -> Timestamp,
    }
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS controllers (name TEXT PRIMARY KEY NOT NULL, life TEXT NOT NULL, host TEXT NOT NULL, \
                     directory TEXT NOT NULL, lock_file TEXT NOT NULL, started_at TIMESTAMP NOT NULL, live_until TIMESTAMP NOT NULL)";
/// The table's name.
const CONTROLLERS: &str = "controllers";

/// A process that has the seat, or wants it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// The controller's name, which belongs to the data directory.
    pub name: String,
    /// The id of this start of the process.
    pub life: Uuid,
    /// The machine's name.
    pub host: String,
    /// The data directory.
    pub directory: String,
    /// The identity of the file whose lock a process holds while it uses the data directory. A copied directory has another one.
    pub lock_file: String,
}

/// The seat's row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    pub process: Process,
    pub since: NaiveDateTime,
    pub until: NaiveDateTime,
    /// The rest of its time by the database's clock; zero if it has passed.
    pub left: Duration,
}

impl Held {
    /// True if another process may still be alive and have the seat. A process that got the lock on the other's data directory knows that
    /// the other is dead.
    pub fn keeps_out(&self, process: &Process) -> bool {
        let may_live = self.process.lock_file != process.lock_file && !self.left.is_zero();
        stands(Guard::SeatTaken) && self.process.life != process.life && may_live
    }

    /// True if the row looks like that of the same controller before its machine was started anew.
    pub fn may_be_former(&self, process: &Process) -> bool {
        let identity = |process: &Process| (process.name.clone(), process.host.clone(), process.directory.clone());
        identity(&self.process) == identity(process)
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Held { process: Process { name, host, directory, .. }, since, until, .. } = self;
        let second = |moment: &NaiveDateTime| moment.format("%Y-%m-%d %H:%M:%S UTC").to_string();
        let (since, until) = (second(since), second(until));
        write!(
            f,
            "{name} on {host} with the data directory {directory} has these databases since {since}, and until {until} if it does not renew that"
        )
    }
}

/// A process's wish for the seat.
#[derive(Clone, Debug)]
pub struct Wish {
    process: Process,
    now: ClockTime,
    until: ClockTime,
}

impl Wish {
    /// A wish for so long from now on.
    pub fn new(env: &Env, process: Process, term: Duration) -> Wish {
        Wish { process, now: ClockTime::now(env), until: end_of(env, term) }
    }
}

fn end_of(env: &Env, term: Duration) -> ClockTime {
    ClockTime::after(env, TimeDelta::from_std(term).unwrap_or(TimeDelta::MAX))
}

/// Gives the seat to a process, or prolongs it, in the caller's transaction, which excludes others. Conflict, with a sentence that names the
/// present process, while that may live.
pub(super) fn take(conn: &mut Conn, Wish { process, now, until }: &Wish) -> Result<(), DbError> {
    conn.batch_execute(TABLE)?;
    let held = read(conn, *now)?;
    if let Some(other) = held.iter().find(|held| held.keeps_out(process)) {
        return Err(refused(other));
    }
    if held.iter().any(|held| held.process.life == process.life) {
        prolong(conn, process.life, *until)?;
        return Ok(());
    }
    // A process whose row is gone learns at its next renewal that it has lost the seat.
    diesel::delete(controllers::table).execute(conn)?;
    diesel::insert_into(controllers::table)
        .values((
            (controllers::name.eq(&process.name), controllers::life.eq(process.life.to_string())),
            (controllers::host.eq(&process.host), controllers::directory.eq(&process.directory)),
            controllers::lock_file.eq(&process.lock_file),
            (controllers::started_at.eq(*now), controllers::live_until.eq(*until)),
        ))
        .execute(conn)?;
    Ok(())
}

/// Returns the refusal of a process by the one that has the seat.
pub fn refused(held: &Held) -> DbError {
    DbError::Conflict(reason!("{held}: stop that process, or if it is dead start again after that time"))
}

/// Returns the row of the process that has the seat of this API database, without changing it. Blocking.
pub fn holder(url: &str, env: &Env) -> Result<Option<Held>, DbError> {
    let is_made = is_postgres(url) || std::fs::metadata(url).is_ok_and(|about| about.len() > 0);
    if !is_made {
        return Ok(None);
    }
    let mut conn = connection::open_to_look(url)?;
    match connection::tables(&mut conn)?.contains(CONTROLLERS) {
        true => Ok(read(&mut conn, ClockTime::now(env))?.pop()),
        false => Ok(None),
    }
}

type Row = (String, String, String, String, String, NaiveDateTime, NaiveDateTime);

fn read(conn: &mut Conn, now: ClockTime) -> Result<Vec<Held>, DbError> {
    let rows: Vec<Row> = controllers::table.order(controllers::started_at).load(conn)?;
    let now = now.read(conn)?;
    let held = |(name, life, host, directory, lock_file, since, until): Row| {
        let life = Uuid::parse_str(&life).map_err(|_| DbError::unreadable("controllers.life", &life))?;
        let left = (until - now).to_std().unwrap_or_default();
        Ok(Held { process: Process { name, life, host, directory, lock_file }, since, until, left })
    };
    rows.into_iter().map(held).collect()
}

/// Makes the seat last until this moment. False if the process does not have it.
fn prolong(conn: &mut Conn, life: Uuid, until: ClockTime) -> Result<bool, DbError> {
    let own = controllers::table.filter(controllers::life.eq(life.to_string()));
    Ok(diesel::update(own).set(controllers::live_until.eq(until)).execute(conn)? > 0)
}

/// The seat's row, for the process that has it.
#[derive(Clone)]
pub struct SeatRow {
    db: Db,
    life: Uuid,
}

impl SeatRow {
    /// The seat that this life of a process has taken.
    pub fn of(api: &ApiDb, life: Uuid) -> SeatRow {
        SeatRow { db: api.db().for_renewal(), life }
    }

    /// Makes the seat last so long from now on, unless another process has it.
    pub async fn renew(&self, term: Duration) -> Result<Renewed, DbError> {
        let (life, env) = (self.life, self.db.env());
        let (now, until) = (ClockTime::now(env), end_of(env, term));
        self.db
            .write(move |conn| match prolong(conn, life, until)? {
                true => Ok(Renewed::Done),
                false => Ok(Renewed::Lost(read(conn, now)?.pop())),
            })
            .await
    }

    /// Gives the seat up, so that another process may take it at once.
    pub async fn give_up(&self) -> Result<(), DbError> {
        let life = self.life.to_string();
        self.db.write(move |conn| Ok(diesel::delete(controllers::table.filter(controllers::life.eq(life))).execute(conn)?)).await?;
        Ok(())
    }
}

/// The result of a renewal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Renewed {
    Done,
    /// The process has the seat no more; the one that has it, if one does.
    Lost(Option<Held>),
}

#[cfg(test)]
mod tests;
