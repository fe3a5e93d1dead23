//! `/ops/v1/hosts`: the hosts of all cells in pages, and one host. The hosts of a silent cell are listed, too: as unknown.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::unknown::{near_host, no_cell};
use super::{Catalog, Operators, Shared, next_page};
use crate::actors::cell::CellHandle;
use crate::db::DbError;
use crate::db::cell::CellDb;
use crate::domain::aggregate::Memberships;
use crate::domain::moment;
use crate::domain::service::{Service, ServiceCounts};
use crate::domain::standing::{OffBy, Standing};
use crate::http::auth::Caller;
use crate::http::base_url::escape;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, not_found};
use crate::http::compute::zones::COMPUTE;
use crate::http::error::ApiError;
use crate::services::placement::{HostDemand, Provider};

const RULE: &str = "ops:cells";

/// Whether a host takes requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Up,
    Down,
    Unknown,
}

/// The filters of a list, and its page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    cell: Option<String>,
    /// A part of the name, in whatever case.
    name: Option<String>,
    state: Option<State>,
    disabled: Option<bool>,
    forced_down: Option<bool>,
    limit: Option<u32>,
    /// The last host of the page before.
    marker: Option<String>,
}

impl ListQuery {
    fn fits(&self, host: &Host) -> bool {
        let holds = |flag: Option<bool>, of: fn(&Facts) -> bool| flag.is_none_or(|flag| host.facts.as_ref().map(of) == Some(flag));
        self.name.as_ref().is_none_or(|part| host.name.to_lowercase().contains(&part.to_lowercase()))
            && self.state.is_none_or(|state| host.state() == state)
            && holds(self.disabled, |facts| facts.disabled)
            && holds(self.forced_down, |facts| facts.forced_down)
    }

    /// Returns the filters as the link to the next page has them.
    fn filters(&self) -> [(&'static str, Option<String>); 5] {
        let word = |state: State| json!(state).as_str().unwrap_or_default().to_owned();
        [
            ("cell", self.cell.as_deref().map(escape)),
            ("name", self.name.as_deref().map(escape)),
            ("state", self.state.map(word)),
            ("disabled", self.disabled.map(|disabled| disabled.to_string())),
            ("forced_down", self.forced_down.map(|forced| forced.to_string())),
        ]
    }
}

/// Answers `GET /hosts`, cell by cell, in the order of their names. Asks no cell behind the one that fills the page.
pub async fn list(Call { request, api: operators, catalog, caller, .. }: Call<Operators>, query: web::Query<ListQuery>) -> Answer {
    catalog.allow(&caller, RULE)?;
    let size = operators.page_size(query.limit);
    operators.recent.answer(&request, page(&request, &query, &catalog, size)).await
}

async fn page(request: &HttpRequest, query: &ListQuery, catalog: &Catalog, size: u32) -> Result<Value, ApiError> {
    let (memberships, rooms) = (catalog.api.memberships().await?, Rooms::read(catalog).await);
    let mut names: Vec<String> = Vec::new();
    let mut hosts: Vec<Value> = Vec::new();
    for (cell, after) in cells_of(catalog, query).await? {
        let missing = (size as usize).saturating_sub(hosts.len());
        if missing == 0 {
            break;
        }
        let answer = catalog.ask(cell, hosted).await;
        let rows = of_cell(catalog, cell, answer.as_deref().ok(), &rooms).into_iter();
        for host in rows.filter(|host| after.is_none_or(|after| host.name.as_str() > after) && query.fits(host)).take(missing) {
            hosts.push(in_cell(&host, cell, zone(catalog, &memberships, &host.name)));
            names.push(escape(&host.name));
        }
    }
    let mut body = json!({ "hosts": hosts });
    if let Some(next) = next_page(request, size, &names, &query.filters()) {
        body["hosts_links"] = next;
    }
    Ok(body)
}

/// Returns the cell of a host, also of a host that is mapped to none and was discovered in one.
async fn cell_of<'a>(catalog: &'a Catalog, host: &str) -> Result<&'a CellHandle, DbError> {
    match catalog.cell_of_host(host).await {
        Err(DbError::NotFound(reason)) => {
            catalog.cells.iter().find(|cell| cell.agents.is_discovered(host)).ok_or(DbError::NotFound(reason))
        }
        mapped => mapped,
    }
}

/// Returns the cells to ask, the first with the host after which its page begins.
async fn cells_of<'a>(catalog: &'a Catalog, query: &'a ListQuery) -> Result<Vec<(&'a CellHandle, Option<&'a str>)>, ApiError> {
    if let Some(name) = query.cell.as_ref().filter(|name| catalog.cells.iter().all(|cell| cell.name != **name)) {
        return Err(bad_request(no_cell(catalog, name)));
    }
    let marker = match query.marker.as_deref() {
        None => None,
        Some(host) => match cell_of(catalog, host).await {
            Ok(cell) => Some((cell.uuid, host)),
            Err(DbError::NotFound(_)) => return Err(bad_request("The marker is not a host.")),
            Err(error) => return Err(error.into()),
        },
    };
    let from = marker.and_then(|(uuid, _)| catalog.cells.iter().position(|cell| cell.uuid == uuid)).unwrap_or_default();
    let after = |cell: &CellHandle| marker.filter(|(uuid, _)| *uuid == cell.uuid).map(|(_, host)| host);
    let cells = catalog.cells.iter().skip(from).filter(|cell| query.cell.as_ref().is_none_or(|name| *name == cell.name));
    Ok(cells.map(|cell| (cell, after(cell))).collect())
}

/// Answers `GET /hosts/{name}`.
pub async fn show(caller: Caller, name: web::Path<String>, catalog: Shared<Catalog>) -> Answer {
    catalog.allow(&caller, RULE)?;
    let missing = || not_found(format!("Host {name} could not be found.{}", near_host(&catalog, &name)));
    let cell = match cell_of(&catalog, &name).await {
        Err(DbError::NotFound(_)) => return Err(missing()),
        cell => cell?,
    };
    let answer = match catalog.ask(cell, |db| one(db, &name)).await {
        Err(DbError::NotFound(_)) => return Err(missing()),
        answer => answer.ok(),
    };
    let (memberships, rooms) = (catalog.api.memberships().await?, Rooms::read(&catalog).await);
    let host = match &answer {
        Some(hosted) => Host::of(&catalog, cell, hosted, &rooms),
        None => Host::unknown(&name),
    };
    let host = in_cell(&host, cell, zone(&catalog, &memberships, &name));
    Ok(HttpResponse::Ok().json(json!({ "host": host })))
}

fn in_cell(host: &Host, cell: &CellHandle, zone: &str) -> Value {
    let mut view = host.json(zone);
    view["cell"] = json!(cell.name);
    view
}

/// Returns the zone of a host.
pub(super) fn zone<'a>(catalog: &'a Catalog, memberships: &'a Memberships, host: &str) -> &'a str {
    memberships.zone_of(host).unwrap_or(&catalog.default_zone)
}

/// A compute service with the number of servers on its host.
pub(super) type Hosted = (Service, i64);

/// Returns the cell's compute services.
pub(super) async fn hosted(db: &CellDb) -> Result<Vec<Hosted>, DbError> {
    let (services, servers) = (db.services().await?, db.servers_per_host().await?);
    let computing = services.into_iter().filter(|service| service.binary == COMPUTE);
    let counted = computing.map(|service| {
        let count = servers.get(&service.host).copied().unwrap_or(0);
        (service, count)
    });
    Ok(counted.collect())
}

async fn one(db: &CellDb, host: &str) -> Result<Hosted, DbError> {
    let service = db.service_on(host, COMPUTE).await?;
    Ok((service, db.servers_per_host().await?.get(host).copied().unwrap_or(0)))
}

/// Returns the hosts of a cell in the order of their names. Without an answer of the cell their names are all that is known.
pub(super) fn of_cell(catalog: &Catalog, cell: &CellHandle, answer: Option<&[Hosted]>, rooms: &Rooms) -> Vec<Host> {
    let mut hosts: Vec<Host> = match answer {
        Some(all) => all.iter().map(|hosted| Host::of(catalog, cell, hosted, rooms)).collect(),
        None => cell.hosts.hosts().iter().map(|(name, _)| Host::unknown(name)).collect(),
    };
    hosts.sort_by(|one, other| one.name.cmp(&other.name));
    hosts
}

/// A host as it is now.
pub(super) struct Host {
    name: String,
    /// None if its cell's records cannot be read.
    facts: Option<Facts>,
    provider: Option<Arc<Provider>>,
}

/// The facts of a host in its cell's records and directory.
struct Facts {
    up: bool,
    disabled: bool,
    disabled_reason: Option<String>,
    forced_down: bool,
    standing: Standing,
    /// True if the host is mapped to no cell: its agent has said hello, and it takes no servers.
    discovered: bool,
    servers: i64,
}

impl Host {
    fn of(catalog: &Catalog, cell: &CellHandle, (service, servers): &Hosted, rooms: &Rooms) -> Host {
        let standing = cell.hosts.standing(&service.host);
        let facts = Facts {
            up: catalog.is_up(service) && standing.is_up(),
            disabled: service.disabled,
            disabled_reason: service.disabled_reason.clone(),
            forced_down: service.forced_down,
            standing: service.standing(standing),
            discovered: cell.agents.is_discovered(&service.host),
            servers: *servers,
        };
        Host { name: service.host.clone(), facts: Some(facts), provider: rooms.of(&service.host) }
    }

    fn unknown(name: &str) -> Host {
        Host { name: name.to_owned(), facts: None, provider: None }
    }

    /// Returns the host's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn state(&self) -> State {
        match &self.facts {
            None => State::Unknown,
            Some(facts) if facts.up => State::Up,
            Some(_) => State::Down,
        }
    }

    /// Describes the host, which is in this zone.
    pub(super) fn json(&self, zone: &str) -> Value {
        let facts = self.facts.as_ref();
        let room: Option<BTreeMap<&String, Room>> = self.provider.as_deref().map(|provider| amounts(provider).collect());
        json!({
            "name": self.name,
            "availability_zone": zone,
            "state": self.state(),
            "status": facts.map(|facts| if facts.disabled { "disabled" } else { "enabled" }),
            "disabled_reason": facts.and_then(|facts| facts.disabled_reason.as_deref()),
            "forced_down": facts.map(|facts| facts.forced_down),
            "standing": facts.map(|facts| standing(&facts.standing)),
            "discovered": facts.map(|facts| facts.discovered),
            "servers": facts.map(|facts| facts.servers),
            "room": room,
        })
    }
}

/// Describes whether a host that takes no requests may run its guests: a silent one may, one that is off does not.
fn standing(standing: &Standing) -> Value {
    match standing {
        Standing::Up => json!({"state": "up"}),
        Standing::Silent { since, reason } => {
            json!({"state": "silent", "since": moment::seconds(*since), "reason": reason.to_string()})
        }
        Standing::Off(OffBy::Host) => json!({"state": "off", "by": "host"}),
        Standing::Off(OffBy::Operator) => json!({"state": "off", "by": "operator"}),
        Standing::Off(OffBy::SelfFence { .. }) => json!({"state": "off", "by": "self_fence"}),
    }
}

/// The maximum number of hosts that a count leaves out by name.
const LEFT_OUT_MAX: usize = 500;

/// Counts a cell's hosts in its database, and returns the error of a cell that does not answer. Reads the hosts instead if the directory
/// may have others: somebody deleted a service, or another process has more hosts.
pub(super) async fn sums(catalog: &Catalog, cell: &CellHandle, rooms: &Rooms) -> (Sums, Option<DbError>) {
    let hosts = cell.hosts.hosts();
    let closed: Vec<String> = hosts.iter().filter(|(_, open)| !open).map(|(name, _)| name.clone()).collect();
    if closed.len() <= LEFT_OUT_MAX {
        match catalog.ask(cell, |db| db.service_counts(COMPUTE, catalog.seen_since(), closed)).await {
            Ok(counts) if usize::try_from(counts.total) == Ok(hosts.len()) => return (Sums::counted(&counts, &hosts, rooms), None),
            Ok(_) => {}
            Err(error) => return (Sums::of(&of_cell(catalog, cell, None, rooms)), Some(error)),
        }
    }
    let answer = catalog.ask(cell, hosted).await;
    (Sums::of(&of_cell(catalog, cell, answer.as_deref().ok(), rooms)), answer.err())
}

/// How much of a class there is, and how much of that is taken.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub(super) struct Room {
    capacity: i64,
    used: i64,
}

fn amounts(provider: &Provider) -> impl Iterator<Item = (&String, Room)> {
    provider.inventories.iter().map(move |(class, inventory)| {
        let used = provider.usages.get(class).copied().unwrap_or(0);
        (class, Room { capacity: inventory.capacity(), used })
    })
}

/// The hosts of a cell together.
#[derive(Default)]
pub(super) struct Sums {
    total: u64,
    up: u64,
    down: u64,
    unknown: u64,
    disabled: u64,
    forced_down: u64,
    servers: i64,
    room: BTreeMap<String, Room>,
}

impl Sums {
    /// Adds these hosts up.
    pub(super) fn of(hosts: &[Host]) -> Sums {
        let mut sums = Sums::default();
        for host in hosts {
            sums.add(host);
        }
        sums
    }

    /// Returns the sums over these hosts, which were counted in their cell.
    fn counted(counts: &ServiceCounts, hosts: &[(String, bool)], rooms: &Rooms) -> Sums {
        let number = |count: i64| u64::try_from(count).unwrap_or_default();
        let mut sums = Sums {
            total: number(counts.total),
            up: number(counts.seen),
            down: number(counts.total - counts.seen),
            disabled: number(counts.disabled),
            forced_down: number(counts.forced_down),
            servers: counts.servers,
            ..Sums::default()
        };
        for (host, _) in hosts {
            sums.add_room(rooms.of(host).as_deref());
        }
        sums
    }

    fn add(&mut self, host: &Host) {
        self.total += 1;
        match host.state() {
            State::Up => self.up += 1,
            State::Down => self.down += 1,
            State::Unknown => self.unknown += 1,
        }
        if let Some(facts) = &host.facts {
            self.disabled += u64::from(facts.disabled);
            self.forced_down += u64::from(facts.forced_down);
            self.servers = self.servers.saturating_add(facts.servers);
        }
        self.add_room(host.provider.as_deref());
    }

    fn add_room(&mut self, provider: Option<&Provider>) {
        for (class, room) in provider.into_iter().flat_map(amounts) {
            // Looked up first: a key is made for the first host of a cell alone.
            let sum = match self.room.get_mut(class) {
                Some(sum) => sum,
                None => self.room.entry(class.clone()).or_default(),
            };
            (sum.capacity, sum.used) = (sum.capacity.saturating_add(room.capacity), sum.used.saturating_add(room.used));
        }
    }

    /// Returns the number of hosts that take no requests.
    pub(super) fn down(&self) -> u64 {
        self.down
    }

    /// Adds the sums to a cell's description. The number of servers is null if it is not known of each host.
    pub(super) fn describe(&self, cell: &mut Value) {
        cell["host_counts"] = json!({
            "total": self.total, "up": self.up, "down": self.down, "unknown": self.unknown, "disabled": self.disabled,
            "forced_down": self.forced_down,
        });
        cell["servers"] = json!(Some(self.servers).filter(|_| self.unknown == 0));
        cell["room"] = json!(Some(&self.room).filter(|room| !room.is_empty()));
    }
}

/// The providers of all hosts, in the order of their names. None if placement does not answer.
pub(super) struct Rooms(Vec<Arc<Provider>>);

impl Rooms {
    /// Reads them as placement keeps them in memory.
    pub(super) async fn read(catalog: &Catalog) -> Rooms {
        let all = HostDemand { limit: usize::MAX, ..HostDemand::default() };
        let mut providers: Vec<Arc<Provider>> = match tokio::time::timeout(catalog.cell_timeout, catalog.placement.candidates(all)).await {
            Ok(Ok(offers)) => offers.into_iter().map(|offer| offer.provider).collect(),
            Ok(Err(error)) => {
                log::warn!("the room on hosts is not known: {error}");
                Vec::new()
            }
            Err(_) => Vec::new(),
        };
        providers.sort_by(|one, other| one.name.cmp(&other.name));
        Rooms(providers)
    }

    /// Returns the sums of these classes over a cell's hosts; none if the room of no host is known.
    pub(super) fn of_cell<const N: usize>(&self, cell: &CellHandle, classes: [&str; N]) -> Option<[Room; N]> {
        let mut sums = Sums::default();
        for (host, _) in &cell.hosts.hosts() {
            sums.add_room(self.of(host).as_deref());
        }
        (!sums.room.is_empty()).then(|| classes.map(|class| sums.room.get(class).copied().unwrap_or_default()))
    }

    /// Returns the rooms of no host, for readers who need none.
    pub(super) fn none() -> Rooms {
        Rooms(Vec::new())
    }

    fn of(&self, host: &str) -> Option<Arc<Provider>> {
        let at = self.0.binary_search_by(|provider| provider.name.as_str().cmp(host)).ok()?;
        self.0.get(at).cloned()
    }
}
