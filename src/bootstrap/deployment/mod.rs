//! Checks, before anything is opened, whether the data directory and the databases belong to one deployment. `file` reads the directory,
//! `judge` decides; a refusal leaves all files and tables unchanged.
//!
//! The first start writes its id into the directory, marks each database before it makes anything there, and at its end records that all is
//! whole. This distinguishes an interrupted start from lost databases.

pub mod file;
pub mod judge;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use uuid::Uuid;

use super::{BootstrapError, file_error, topology};
use crate::config::Config;
use crate::db::api::ApiDb;
use crate::db::connection::{has_log, is_postgres};
use crate::db::deployment::facts::{self, ApiFacts, ServicesFacts};
use crate::db::deployment::seat::Wish;
use crate::db::deployment::{self, Misfit, Owner, Part, Sight, Unmarked};
use crate::db::place::place_of;
use crate::db::{Db, DbError, Location, Schema};
use crate::domain::cell_mapping::{CELL0, CellMapping};
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::env::{Blocking, Env};
use file::{DeploymentFile, Directory, Places, State};
use judge::{API, Mismatch, SERVICES, Seen, Standing, StoreLabel};

/// A deployment whose directory and databases belong together, as far as they answer.
pub struct Deployment {
    /// Its id, which never changes.
    pub id: Uuid,
    /// True if nothing is stored yet.
    pub is_new: bool,
    /// The directory's file; none in a simulation, whose databases do not outlive it.
    file: Option<DeploymentFile>,
    data: PathBuf,
    /// True if unmarked tables are taken over.
    adopting: bool,
    may_adopt: bool,
    /// The databases that are marked according to the API database.
    marked: BTreeSet<Part>,
    /// The ids of servers by cell, and of resource providers. Read only if unmarked cells are possible.
    servers: BTreeMap<String, BTreeSet<String>>,
    providers: BTreeSet<String>,
    /// The silent cells, with the reasons.
    pub unanswered: BTreeMap<String, Reason>,
}

/// The marks and records that are read before anything is opened.
struct Inspection {
    contents: Directory,
    api: Seen,
    services: Seen,
    standing: Standing,
    api_facts: ApiFacts,
    services_facts: ServicesFacts,
}

/// Looks at all parts and decides. Changes nothing in any case.
pub(super) async fn identify(config: &Config, env: &Env) -> Result<Deployment, BootstrapError> {
    if env.blocking() == Blocking::Inline {
        return Ok(Deployment::of_simulation(config));
    }
    let copy = config.clone();
    let look = env.run_blocking(move || look(&copy)).await?;
    let (id, is_new, adopting) = match look.standing {
        Standing::New => (env.uuid(), true, false),
        Standing::Making(id) | Standing::Whole(id) => (id, false, false),
        Standing::Adopting(id) => (id.unwrap_or_else(|| env.uuid()), false, true),
    };
    let marked = match &look.api.sight {
        Sight::Marked(marks) => marks.others.clone(),
        _ => BTreeSet::new(),
    };
    let mut servers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (server, cell) in look.api_facts.servers.iter().filter_map(|(server, cell)| cell.clone().map(|cell| (server, cell))) {
        servers.entry(cell).or_default().insert(server.clone());
    }
    let mut deployment = Deployment {
        id,
        is_new,
        file: look.contents.file.clone(),
        data: config.data_dir.clone(),
        adopting,
        may_adopt: config.adopt,
        marked,
        servers,
        providers: look.services_facts.providers.clone(),
        unanswered: BTreeMap::new(),
    };
    deployment.look_at_cells(config, env, &look).await?;
    Ok(deployment)
}

fn label(what: &str, place: String, option: &str) -> StoreLabel {
    StoreLabel { what: what.to_owned(), place, option: option.to_owned() }
}

/// Returns the URL of the API database or the services database.
pub(super) fn url_of(config: &Config, part: Part) -> String {
    let (url, file) = match part {
        Part::Services => (&config.database.services, "services.db"),
        _ => (&config.database.api, "api.db"),
    };
    url.clone().unwrap_or_else(|| config.data_dir.join(file).to_string_lossy().into_owned())
}

fn look(config: &Config) -> Result<Inspection, BootstrapError> {
    let data = &config.data_dir;
    let contents = file::read(data).map_err(Mismatch::File)?;
    let (api_url, services_url) = (url_of(config, Part::Api), url_of(config, Part::Services));
    let directory = label("the data directory", data.display().to_string(), "--data-dir");
    let api = label("the API database", place_of(&api_url, data), API);
    let services = label("the services database", place_of(&services_url, data), SERVICES);
    if api.place == services.place {
        return Err(Mismatch::Twice(Box::new(api), Box::new(services)).into());
    }
    if let Some(file) = &contents.file {
        is_in_its_place(config, &api, Some(&file.database.api))?;
        is_in_its_place(config, &services, Some(&file.database.services))?;
    }
    let sight = |name: &str, url: &str, place: &str| {
        deployment::look(url).map_err(|error| DbError::Unavailable { name: name.into(), reason: reason!("{place}: {}", reason_of(error)) })
    };
    let api = Seen { sight: sight("api", &api_url, &api.place)?, label: api };
    let services = Seen { sight: sight("services", &services_url, &services.place)?, label: services };
    let standing = judge::judge(&directory, &contents, &api, &services, config.adopt)?;
    let there = |seen: &Seen| !matches!(seen.sight, Sight::Absent | Sight::Empty);
    let mut api_facts = ApiFacts::default();
    if there(&api) {
        api_facts.cells = facts::cells(&api_url)?;
    }
    let mut services_facts = ServicesFacts::default();
    // If all marks exist, no conclusion from records is needed.
    if config.adopt || !is_marked_wholly(standing, &api.sight, &api_facts) {
        if there(&api) {
            facts::read_servers(&api_url, &mut api_facts)?;
        }
        if there(&services) {
            services_facts = facts::of_services(&services_url)?;
        }
    }
    if matches!(standing, Standing::Adopting(_)) {
        judge::unrelated((&directory, &contents), (&api, &api_facts), (&services, &services_facts), config.adopt)?;
    }
    Ok(Inspection { contents, api, services, standing, api_facts, services_facts })
}

fn is_marked_wholly(standing: Standing, api: &Sight, facts: &ApiFacts) -> bool {
    match (standing, api) {
        (Standing::Whole(_), Sight::Marked(marks)) => facts.cells.iter().all(|cell| marks.others.contains(&Part::Cell(cell.uuid))),
        _ => false,
    }
}

fn reason_of(error: DbError) -> Reason {
    match error {
        DbError::Unavailable { reason, .. } => reason,
        other => reason!("{other}"),
    }
}

/// Refuses a database in another place than the directory remembers, until the operator confirms the move; and a SQLite file that was moved
/// without the log beside it, which holds its last commits.
fn is_in_its_place(config: &Config, now: &StoreLabel, was: Option<&String>) -> Result<(), Mismatch> {
    let Some(was) = was.filter(|was| **was != now.place) else { return Ok(()) };
    if !config.adopt {
        return Err(Mismatch::Moved { now: Box::new(now.clone()), data: config.data_dir.display().to_string(), was: was.clone() });
    }
    let file = config.data_dir.join(was);
    if !is_postgres(was) && !file.exists() && has_log(&file.to_string_lossy()) {
        return Err(Mismatch::LogLeft { now: Box::new(now.clone()), was: file.display().to_string() });
    }
    Ok(())
}

/// A cell to look at: mapped, or to be mapped by this start.
struct CellToInspect {
    label: StoreLabel,
    name: String,
    /// None if it is not mapped yet.
    uuid: Option<Uuid>,
    url: String,
}

fn cells_to_look(config: &Config, facts: &ApiFacts) -> Vec<CellToInspect> {
    let mut cells: BTreeMap<String, (Option<Uuid>, String)> = BTreeMap::new();
    for cell in &facts.cells {
        let configured = config.database.cells.get(&cell.name).cloned();
        let url = configured.unwrap_or_else(|| topology::in_this_directory(config, &cell.name, &cell.url));
        cells.insert(cell.name.clone(), (Some(cell.uuid), url));
    }
    let has_cell0 = cells.contains_key("cell0");
    for number in 0..=topology::number_of_cells(config, has_cell0) {
        let name = format!("cell{number}");
        let url = config.database.cells.get(&name).cloned().unwrap_or_else(|| topology::file_of(config, &name));
        cells.entry(name).or_insert(((number == 0).then_some(CELL0), url));
    }
    let cell = |(name, (uuid, url)): (String, (Option<Uuid>, String))| CellToInspect {
        label: label(&format!("the database of {name}"), place_of(&url, &config.data_dir), &format!("[database.cells] {name}")),
        name,
        uuid,
        url,
    };
    cells.into_iter().map(cell).collect()
}

impl Deployment {
    fn of_simulation(config: &Config) -> Deployment {
        Deployment {
            id: Uuid::nil(),
            is_new: true,
            file: None,
            data: config.data_dir.clone(),
            adopting: false,
            may_adopt: false,
            marked: BTreeSet::new(),
            servers: BTreeMap::new(),
            providers: BTreeSet::new(),
            unanswered: BTreeMap::new(),
        }
    }

    /// Looks at all cells concurrently. A silent cell is left for later.
    async fn look_at_cells(&mut self, config: &Config, env: &Env, look: &Inspection) -> Result<(), BootstrapError> {
        let cells = cells_to_look(config, &look.api_facts);
        let mut places: BTreeMap<&str, &StoreLabel> = BTreeMap::new();
        for label in cells.iter().map(|cell| &cell.label).chain([&look.api.label, &look.services.label]) {
            if let Some(other) = places.insert(&label.place, label) {
                return Err(Mismatch::Twice(Box::new(other.clone()), Box::new(label.clone())).into());
            }
        }
        if let Some(file) = &self.file {
            cells.iter().try_for_each(|cell| is_in_its_place(config, &cell.label, file.database.cells.get(&cell.name)))?;
        }
        let patience = config.cells.timeout.duration();
        let looks = cells.iter().map(|cell| self.look_at_cell(env, cell, patience));
        for (cell, answer) in cells.iter().zip(join_all(looks).await) {
            match answer {
                // A missing file may be on a disk that is not mounted, so the cell counts as down.
                Ok(Ok(()) | Err(Misfit::Absent)) => {}
                Ok(Err(misfit)) => {
                    let why = match cell.uuid {
                        Some(_) => misfit.to_string(),
                        None => "it holds records, and the API database knows of no such cell".to_owned(),
                    };
                    return Err(Mismatch::Another(Box::new(cell.label.clone()), why).into());
                }
                Err(reason) => {
                    self.unanswered.insert(cell.name.clone(), reason);
                }
            }
        }
        Ok(())
    }

    async fn look_at_cell(&self, env: &Env, cell: &CellToInspect, patience: Duration) -> Result<Result<(), Misfit>, Reason> {
        let url = cell.url.clone();
        let owner = match cell.uuid {
            Some(uuid) => self.owner_of_cell(uuid, false),
            // The deployment has never used this database, so no id fits.
            None => {
                let part = Part::Cell(Uuid::from_u128(u128::MAX));
                Owner { deployment: self.id, part, must_exist: false, unmarked: Unmarked::TakeOverIfEmpty, seat: None }
            }
        };
        let checked = env.run_blocking(move || deployment::check(&url, &owner));
        match tokio::time::timeout(patience, checked).await {
            Ok(checked) => checked.map_err(reason_of),
            Err(_) => Err(reason!("no answer within {patience:?}")),
        }
    }

    /// Returns the required owner of the API database or the services database; none in a simulation.
    fn owner(&self, part: Part) -> Option<Owner> {
        let file = self.file.as_ref()?;
        let unmarked = if self.adopting { Unmarked::TakeOver } else { Unmarked::Refuse };
        Some(Owner { deployment: self.id, part, must_exist: file.state == State::Whole, unmarked, seat: None })
    }

    /// Returns the required owner of a cell's database. `holds_records` if other databases know of records in it.
    fn owner_of_cell(&self, cell: Uuid, holds_records: bool) -> Owner {
        let part = Part::Cell(cell);
        let is_marked = self.marked.contains(&part);
        let ids = || {
            let servers = self.servers.get(&cell.to_string()).into_iter().flatten();
            Arc::new(servers.chain(&self.providers).cloned().collect::<BTreeSet<String>>())
        };
        let unmarked = match is_marked && !self.adopting && !self.may_adopt {
            true => Unmarked::Refuse,
            false => Unmarked::TakeOverIfRelated { ids: ids(), strictly: !self.adopting && !self.may_adopt },
        };
        let must_exist = is_marked || holds_records || self.servers.contains_key(&cell.to_string());
        Owner { deployment: self.id, part, must_exist, unmarked, seat: None }
    }

    /// Writes the deployment's id into the data directory, before any database is marked.
    pub(super) async fn begin(&mut self, config: &Config, env: &Env) -> Result<(), BootstrapError> {
        if env.blocking() == Blocking::Inline || (self.file.is_some() && !self.adopting) {
            return Ok(());
        }
        let data = &config.data_dir;
        let place = |part| place_of(&url_of(config, part), data);
        let database = Places { api: place(Part::Api), services: place(Part::Services), cells: BTreeMap::new() };
        let state = if self.adopting { State::Adopting } else { State::Making };
        let places = self.file.take().map_or(database, |file| file.database);
        self.write(env, DeploymentFile { id: self.id, state, database: places }).await
    }

    /// Opens the API database or the services database as this deployment's.
    pub(super) async fn open(&self, config: &Config, env: &Env, part: Part) -> Result<Db, DbError> {
        self.open_seated(config, env, part, None).await
    }

    /// Opens a database as [`Deployment::open`] does, and takes the seat that is wished for.
    pub(super) async fn open_seated(&self, config: &Config, env: &Env, part: Part, seat: Option<Wish>) -> Result<Db, DbError> {
        let name = if part == Part::Services { "services" } else { "api" };
        let owner = self.owner(part).map(|owner| Owner { seat, ..owner }.claim());
        let location = Location { url: url_of(config, part), schema: part.schema().into(), owner };
        let db = Db::unopened(name, location, env);
        db.open_now().await?;
        Ok(db)
    }

    /// Returns a cell's database without opening it.
    pub(super) fn unopened_cell(&self, mapping: &CellMapping, url: String, holds_records: bool, env: &Env) -> Db {
        let owner = self.file.as_ref().map(|_| self.owner_of_cell(mapping.uuid, holds_records).claim());
        Db::unopened(&mapping.name, Location { url, schema: Schema::Cell.into(), owner }, env)
    }

    /// Records in the API database that this database is marked, so that it is never created again.
    pub(super) async fn note_marked(&self, api: &ApiDb, part: Part) -> Result<(), DbError> {
        match self.file.is_some() && !self.marked.contains(&part) {
            true => api.note_marked(part, self.id).await,
            false => Ok(()),
        }
    }

    /// Makes the note with which a cell's setup records the mark.
    pub(super) fn note_for(&self, api: &ApiDb, cell: Uuid) -> Option<MarkNote> {
        let part = Part::Cell(cell);
        let is_due = self.file.is_some() && !self.marked.contains(&part);
        is_due.then(|| MarkNote { api: api.clone(), part, deployment: self.id })
    }

    /// Records that everything is made or taken over, and the places of the databases.
    pub(super) async fn finish(&mut self, config: &Config, env: &Env, cells: &[CellMapping]) -> Result<(), BootstrapError> {
        let Some(file) = self.file.clone() else { return Ok(()) };
        let data = &config.data_dir;
        let place = |part| place_of(&url_of(config, part), data);
        let cells = cells.iter().map(|cell| (cell.name.clone(), place_of(&cell.database_url, data))).collect();
        let database = Places { api: place(Part::Api), services: place(Part::Services), cells };
        let whole = DeploymentFile { id: self.id, state: State::Whole, database };
        if whole != file {
            self.write(env, whole).await?;
        }
        Ok(())
    }

    async fn write(&mut self, env: &Env, content: DeploymentFile) -> Result<(), BootstrapError> {
        let (data, written) = (self.data.clone(), content.clone());
        let done = env.run_blocking(move || file::write(&data, &written)).await;
        done.map_err(file_error(&self.data.join(file::NAME)))?;
        self.file = Some(content);
        Ok(())
    }
}

/// A note for the API database that a cell's database is marked.
pub(super) struct MarkNote {
    api: ApiDb,
    part: Part,
    deployment: Uuid,
}

impl MarkNote {
    pub(super) async fn write(&self) -> Result<(), DbError> {
        self.api.note_marked(self.part, self.deployment).await
    }
}
