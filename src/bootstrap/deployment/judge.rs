//! Decides whether a data directory and its databases belong together. Pure: it gets the results of looks, and refuses with a sentence that
//! names both sides and their options.

use std::collections::BTreeSet;
use std::fmt;

use uuid::Uuid;

use super::file::{Directory, State};
use crate::db::Schema;
use crate::db::deployment::facts::{ApiFacts, ServicesFacts};
use crate::db::deployment::{Part, Sight};

/// A database or the data directory, for messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreLabel {
    /// For example `the API database`.
    pub what: String,
    pub place: String,
    /// The option for it: `[database] api`.
    pub option: String,
}

impl fmt::Display for StoreLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.what, self.place, self.option)
    }
}

/// A database with the result of a look.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    pub label: StoreLabel,
    pub sight: Sight,
}

impl Seen {
    fn is_blank(&self) -> bool {
        matches!(self.sight, Sight::Absent | Sight::Empty)
    }

    fn id(&self) -> Option<Uuid> {
        match &self.sight {
            Sight::Marked(marks) => Some(marks.deployment),
            _ => None,
        }
    }
}

/// The reason why nothing is opened. Nothing has been changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Mismatch {
    #[error("{0} belongs to deployment {1}, and {2} to deployment {3}: name a directory and databases that belong together")]
    Differ(Box<StoreLabel>, Uuid, Box<StoreLabel>, Uuid),
    #[error("{0} is {1}, and {2} holds records of the same cloud: bring it back or name where it is; it is not made anew")]
    Gone(Box<StoreLabel>, &'static str, Box<StoreLabel>),
    #[error("{database} belongs to deployment {id}, and {directory} to none: name the directory of that deployment, or restore it")]
    NoDirectory { database: Box<StoreLabel>, id: Uuid, directory: Box<StoreLabel> },
    #[error(
        "{directory} holds images, volumes or guests, and neither {api} nor {services} holds anything: its databases are elsewhere; \
         name them under [database] in the file that --config names"
    )]
    Elsewhere { directory: Box<StoreLabel>, api: Box<StoreLabel>, services: Box<StoreLabel> },
    #[error(
        "{} of the data directory {data} was {was}, and this start would use {}: give the configuration that names the first ({}) \
         with --config; if the database has moved, start once with `cellshift serve --adopt`",
        now.what, now.place, now.option
    )]
    Moved { now: Box<StoreLabel>, data: String, was: String },
    #[error(
        "{} was moved from {was}, and its last commits were left behind in {was}-wal: put that file beside it, as {}-wal",
        now.what, now.place
    )]
    LogLeft { now: Box<StoreLabel>, was: String },
    #[error(
        "{0} holds records and does not say to which deployment they belong, and {1} belongs to deployment {2}; if it is an older \
         backup of the same cloud, start once with `cellshift serve --adopt`"
    )]
    Unmarked(Box<StoreLabel>, Box<StoreLabel>, Uuid),
    #[error("{0} and {1} do not belong together: {2}; if they do all the same, start once with `cellshift serve --adopt`")]
    Unrelated(Box<StoreLabel>, Box<StoreLabel>, &'static str),
    #[error("{0} is not such a database: {1}")]
    Another(Box<StoreLabel>, String),
    #[error("{0} and {1} are the same database: each needs its own")]
    Twice(Box<StoreLabel>, Box<StoreLabel>),
    #[error("{0}")]
    File(String),
}

/// The way in which a start treats the marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Nothing exists yet: makes a new deployment.
    New,
    /// Everything is marked.
    Whole(Uuid),
    /// Finishes an interrupted first start.
    Making(Uuid),
    /// Takes over records without marks, under this id or a new one, unless [`unrelated`] refuses.
    Adopting(Option<Uuid>),
}

/// Judges the data directory, the API database and the services database. `adopt` is the operator's assurance that unmarked databases
/// belong to the directory.
pub fn judge(directory: &StoreLabel, contents: &Directory, api: &Seen, services: &Seen, adopt: bool) -> Result<Standing, Mismatch> {
    of_its_kind(api, Schema::Api, Part::Api)?;
    of_its_kind(services, Schema::Services, Part::Services)?;
    let ids = [(directory, contents.file.as_ref().map(|file| file.id)), (&api.label, api.id()), (&services.label, services.id())];
    let mut pairs = ids.into_iter().filter_map(|(label, id)| id.map(|id| (label, id)));
    let first = pairs.next();
    if let Some((one, id)) = first
        && let Some((other, differing)) = pairs.find(|(_, other)| *other != id)
    {
        return Err(Mismatch::Differ(Box::new(one.clone()), id, Box::new(other.clone()), differing));
    }
    // If one database has records, the other must exist. The API database is always made first.
    for (gone, beside) in [(api, services), (services, api)] {
        if gone.is_blank() && holds_records_of(beside, gone) {
            return Err(gone_beside(gone, &beside.label));
        }
    }
    let blank = [api, services].into_iter().find(|database| database.is_blank());
    let unmarked = [api, services].into_iter().find(|database| matches!(database.sight, Sight::Unmarked { .. }));
    match (&contents.file, first) {
        (Some(file), _) => match (file.state, blank, unmarked) {
            (State::Making, ..) => Ok(if unmarked.is_some() { Standing::Adopting(Some(file.id)) } else { Standing::Making(file.id) }),
            (State::Adopting | State::Whole, Some(gone), _) => Err(gone_beside(gone, directory)),
            (State::Whole, None, Some(unmarked)) if !adopt => {
                Err(Mismatch::Unmarked(Box::new(unmarked.label.clone()), Box::new(directory.clone()), file.id))
            }
            (State::Whole, None, None) => Ok(Standing::Whole(file.id)),
            (State::Adopting | State::Whole, None, _) => Ok(Standing::Adopting(Some(file.id))),
        },
        (None, Some((database, id))) if !(contents.is_used && adopt) => {
            Err(Mismatch::NoDirectory { database: Box::new(database.clone()), id, directory: Box::new(directory.clone()) })
        }
        (None, Some((_, id))) => Ok(Standing::Adopting(Some(id))),
        (None, None) if api.is_blank() && services.is_blank() => match contents.is_used {
            true => Err(Mismatch::Elsewhere {
                directory: Box::new(directory.clone()),
                api: Box::new(api.label.clone()),
                services: Box::new(services.label.clone()),
            }),
            false => Ok(Standing::New),
        },
        (None, None) => Ok(Standing::Adopting(None)),
    }
}

/// True if the state of `there` implies that `gone` had records: with marks, because the API database records each marked database;
/// without, because cells are mapped after both databases were made.
fn holds_records_of(there: &Seen, gone: &Seen) -> bool {
    match &there.sight {
        Sight::Absent | Sight::Empty => false,
        // The services database is made after the API database.
        _ if there.label.option == SERVICES => true,
        Sight::Marked(marks) => gone.label.option == SERVICES && marks.others.contains(&Part::Services),
        // `unrelated` judges it by its cells.
        Sight::Unmarked { .. } => false,
    }
}

/// The option for the API database.
pub const API: &str = "[database] api";
/// The option for the services database.
pub const SERVICES: &str = "[database] services";

fn gone_beside(gone: &Seen, beside: &StoreLabel) -> Mismatch {
    let how = if gone.sight == Sight::Absent { "not there" } else { "empty" };
    Mismatch::Gone(Box::new(gone.label.clone()), how, Box::new(beside.clone()))
}

fn of_its_kind(seen: &Seen, schema: Schema, part: Part) -> Result<(), Mismatch> {
    let another = match &seen.sight {
        Sight::Marked(marks) if marks.part != part => format!("it is marked as {}", marks.part),
        Sight::Unmarked { kind: Some(kind) } if *kind != schema => format!("it has the tables of the {kind:?} database").to_lowercase(),
        Sight::Unmarked { kind: None } => "it has somebody else's tables".to_owned(),
        _ => return Ok(()),
    };
    Err(Mismatch::Another(Box::new(seen.label.clone()), another))
}

/// Says why unmarked databases may not belong together: each of two sides has ids that the other should know but does not.
pub fn unrelated(
    directory: (&StoreLabel, &Directory),
    api: (&Seen, &ApiFacts),
    services: (&Seen, &ServicesFacts),
    adopt: bool,
) -> Result<(), Mismatch> {
    let ((label, contents), (api_seen, api), (services_seen, services)) = (directory, api, services);
    if services_seen.is_blank() && !api.cells.is_empty() {
        return Err(gone_beside(services_seen, &api_seen.label));
    }
    if adopt && contents.is_used {
        return Ok(());
    }
    let refused = |one: &StoreLabel, other: &StoreLabel, why| Err(Mismatch::Unrelated(Box::new(one.clone()), Box::new(other.clone()), why));
    if !services.with_bytes.is_empty() && services.with_bytes.is_disjoint(&contents.bytes) {
        return refused(&services_seen.label, label, "not one of its images and volumes is there");
    }
    let servers: BTreeSet<String> = api.servers.iter().map(|(server, _)| server.clone()).collect();
    if speaks_against(&servers, &contents.guests) {
        return refused(&api_seen.label, label, "not one of its servers has a guest there, and there are guests");
    }
    if speaks_against(&api.projects, &services.projects) {
        return refused(&api_seen.label, &services_seen.label, "not one project that has servers is there");
    }
    Ok(())
}

fn speaks_against(one: &BTreeSet<String>, other: &BTreeSet<String>) -> bool {
    !one.is_empty() && !other.is_empty() && one.is_disjoint(other)
}

#[cfg(test)]
mod tests;
