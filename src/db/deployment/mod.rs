//! The deployment that a database belongs to. The first start leaves a mark in each database; every later start compares it.
//!
//! The mark's table is made before the first migration runs, so that each database of this release has a mark. A look changes nothing: it
//! makes neither a table nor a file.

pub mod facts;
pub mod seat;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use uuid::Uuid;

use super::connection::{self, is_postgres};
use super::{Claim, Conn, DbError, Schema};
use crate::domain::reason::Reason;
use seat::Wish;

diesel::table! {
    deployment (part) {
        part -> Text,
        deployment_uuid -> Text,
    }
}

/// SQL text rather than a migration file, because it runs before all migrations.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS deployment (part TEXT PRIMARY KEY NOT NULL, deployment_uuid TEXT NOT NULL)";
/// The table's name.
const DEPLOYMENT: &str = "deployment";

/// A database's part in its deployment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    Api,
    Services,
    /// The database of the cell with this id.
    Cell(Uuid),
}

impl Part {
    /// Returns the schema of this part's database.
    pub fn schema(self) -> Schema {
        match self {
            Part::Api => Schema::Api,
            Part::Services => Schema::Services,
            Part::Cell(_) => Schema::Cell,
        }
    }

    fn read(text: &str) -> Option<Part> {
        match text {
            "api" => Some(Part::Api),
            "services" => Some(Part::Services),
            other => other.strip_prefix("cell:").and_then(|id| id.parse().ok()).map(Part::Cell),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Api => f.write_str("api"),
            Part::Services => f.write_str("services"),
            Part::Cell(id) => write!(f, "cell:{id}"),
        }
    }
}

/// The result of a look at a database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sight {
    /// The file does not exist.
    Absent,
    /// The database has no tables.
    Empty,
    /// The database has tables and no mark: a release without marks made them, or another program.
    Unmarked {
        /// The schema that the tables belong to; none if they are not cellshift's. A cell's tables do not tell which cell it is.
        kind: Option<Schema>,
    },
    /// The database has a mark.
    Marked(Marks),
}

/// The marks in a database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marks {
    /// The database's part in the deployment.
    pub part: Part,
    /// The deployment that owns the database.
    pub deployment: Uuid,
    /// In the API database: the other databases that have been marked. They have held records, so they are never created again.
    pub others: BTreeSet<Part>,
}

/// The owner that an opened database must have.
#[derive(Clone, Debug)]
pub struct Owner {
    pub deployment: Uuid,
    pub part: Part,
    /// The database existed before, so it is not created again.
    pub must_exist: bool,
    /// How to treat tables without a mark.
    pub unmarked: Unmarked,
    /// The seat that the API database must give to this process, before its schema is brought up to date.
    pub seat: Option<Wish>,
}

impl Owner {
    /// Returns the claim with which the owner opens its database.
    pub fn claim(self) -> Arc<dyn Claim> {
        Arc::new(self)
    }

    fn take_seat(&self, conn: &mut Conn) -> Result<(), DbError> {
        self.seat.as_ref().map_or(Ok(()), |wish| seat::take(conn, wish))
    }
}

impl Claim for Owner {
    fn check(&self, url: &str) -> Result<Result<(), String>, DbError> {
        Ok(check(url, self)?.map_err(|misfit| misfit.to_string()))
    }

    fn note(&self, conn: &mut Conn) -> Result<(), DbError> {
        mark(conn, self)?;
        self.take_seat(conn)
    }

    fn renew(&self, conn: &mut Conn) -> Result<(), DbError> {
        self.take_seat(conn)
    }
}

/// Whether the deployment takes over tables that a release without marks made.
#[derive(Clone, Debug)]
pub enum Unmarked {
    Refuse,
    TakeOver,
    /// Takes over a cell's tables without a row.
    TakeOverIfEmpty,
    /// Takes over a cell's tables if the deployment knows one of their servers or compute nodes.
    TakeOverIfRelated {
        /// The ids of servers in this cell, and of all resource providers.
        ids: Arc<BTreeSet<String>>,
        /// If true, a cell with records needs a known record even if `ids` is empty; else an empty `ids` takes any cell.
        strictly: bool,
    },
}

/// The reason why a database is not the expected one, as a sentence that does not name its place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Misfit {
    #[error("there is no file, and records have been in it")]
    Absent,
    #[error("it is empty, and records have been in it")]
    Empty,
    #[error("it belongs to deployment {actual}, not to deployment {expected}")]
    OtherDeployment { actual: Uuid, expected: Uuid },
    #[error("it is the database {actual} of this deployment, not {expected}")]
    OtherPart { actual: String, expected: String },
    #[error("it holds records and does not say to which deployment they belong")]
    Unmarked,
    #[error("its records are not this deployment's: none of its servers and compute nodes is known to the other databases")]
    Unknown,
}

/// Looks at a database without changing it. Blocking. [`DbError::Unavailable`] if it does not answer.
pub fn look(url: &str) -> Result<Sight, DbError> {
    if !is_postgres(url) {
        match std::fs::metadata(url) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Sight::Absent),
            // Includes a path below a file, and a path without permission: opening it explains the failure.
            Err(error) => return Err(DbError::Unavailable { name: url.to_owned(), reason: Reason::inside(error) }),
            Ok(about) if about.len() == 0 => return Ok(Sight::Empty),
            Ok(_) => {}
        }
    }
    let mut conn = connection::open_to_look(url)?;
    let tables = connection::tables(&mut conn)?;
    if tables.is_empty() {
        return Ok(Sight::Empty);
    }
    if !tables.contains(DEPLOYMENT) {
        return Ok(Sight::Unmarked { kind: kind_of(&tables) });
    }
    let mut marks = read_marks(&mut conn)?;
    // Only the API database knows of others.
    let own = if marks.contains_key(&Part::Api) { Some(Part::Api) } else { marks.keys().next().copied() };
    Ok(match own.and_then(|part| marks.remove(&part).map(|deployment| (part, deployment))) {
        Some((part, deployment)) => Sight::Marked(Marks { part, deployment, others: marks.into_keys().collect() }),
        // The table exists without a mark: the first start ended between the two, before it made any other table.
        None if tables.len() == 1 => Sight::Empty,
        None => Sight::Unmarked { kind: kind_of(&tables) },
    })
}

/// Checks with a look whether a database is its owner's. Blocking.
pub fn check(url: &str, owner: &Owner) -> Result<Result<(), Misfit>, DbError> {
    let sight = look(url)?;
    Ok(match sight {
        Sight::Absent if owner.must_exist => Err(Misfit::Absent),
        Sight::Empty if owner.must_exist => Err(Misfit::Empty),
        Sight::Absent | Sight::Empty => Ok(()),
        Sight::Marked(marks) => fits(&marks, owner),
        Sight::Unmarked { kind } => match &owner.unmarked {
            Unmarked::Refuse => Err(Misfit::Unmarked),
            Unmarked::TakeOver => Ok(()),
            Unmarked::TakeOverIfEmpty => {
                let is_empty = kind == Some(Schema::Cell) && !facts::has_rows(url)?;
                if is_empty { Ok(()) } else { Err(Misfit::Unmarked) }
            }
            Unmarked::TakeOverIfRelated { ids, strictly } => {
                let held = facts::of_cell(url)?;
                let is_known = held.iter().any(|id| ids.contains(id));
                let speaks_against = !held.is_empty() && !is_known && (*strictly || !ids.is_empty());
                if speaks_against { Err(Misfit::Unknown) } else { Ok(()) }
            }
        },
    })
}

fn fits(marks: &Marks, owner: &Owner) -> Result<(), Misfit> {
    if marks.deployment != owner.deployment {
        return Err(Misfit::OtherDeployment { actual: marks.deployment, expected: owner.deployment });
    }
    if marks.part != owner.part {
        return Err(Misfit::OtherPart { actual: marks.part.to_string(), expected: owner.part.to_string() });
    }
    Ok(())
}

/// Marks a database as its owner's before anything else is made in it, in the caller's transaction, which excludes others. Fails if another
/// owner has marked it meanwhile.
fn mark(conn: &mut Conn, owner: &Owner) -> Result<(), DbError> {
    conn.batch_execute(TABLE)?;
    note(conn, owner.part, owner.deployment)?;
    match read_marks(conn)?.remove(&owner.part) {
        Some(deployment) if deployment == owner.deployment => Ok(()),
        Some(other) => Err(Misfit::OtherDeployment { actual: other, expected: owner.deployment }.into()),
        None => Err(Misfit::Unmarked.into()),
    }
}

impl From<Misfit> for DbError {
    fn from(misfit: Misfit) -> DbError {
        DbError::Unavailable { name: String::new(), reason: Reason::inside(misfit) }
    }
}

impl super::api::ApiDb {
    /// Records that another database of the deployment has been marked.
    pub async fn note_marked(&self, part: Part, deployment: Uuid) -> Result<(), DbError> {
        self.db().write(move |conn| note(conn, part, deployment)).await
    }
}

fn note(conn: &mut Conn, part: Part, of: Uuid) -> Result<(), DbError> {
    let part = part.to_string();
    let row: Option<String> = deployment::table.find(&part).select(deployment::deployment_uuid).first(conn).optional()?;
    if row.is_none() {
        diesel::insert_into(deployment::table)
            .values((deployment::part.eq(part), deployment::deployment_uuid.eq(of.to_string())))
            .execute(conn)?;
    }
    Ok(())
}

fn read_marks(conn: &mut Conn) -> Result<BTreeMap<Part, Uuid>, DbError> {
    let rows: Vec<(String, String)> = deployment::table.load(conn)?;
    let read = |(part, id): (String, String)| match (Part::read(&part), Uuid::parse_str(&id)) {
        (Some(part), Ok(id)) => Ok((part, id)),
        _ => Err(DbError::unreadable("deployment", &format!("{part} {id}"))),
    };
    rows.into_iter().map(read).collect()
}

/// Recognises the schema by a table that only this schema has.
fn kind_of(tables: &BTreeSet<String>) -> Option<Schema> {
    let telling = [("cell_mappings", Schema::Api), ("resource_providers", Schema::Services), ("compute_nodes", Schema::Cell)];
    telling.into_iter().find(|(table, _)| tables.contains(*table)).map(|(_, schema)| schema)
}

#[cfg(test)]
mod tests;
