//! The conditions under which an action is tried, and how each begins and ends.

use std::fmt;

use cellshift::chaos::borders::{Outage, Outages};
use cellshift::db::Db;

use super::state::{State, Subject};
use crate::access::house::House;
use crate::stage::until;

/// The databases of the services that servers use.
const SERVICES: [&str; 4] = ["image", "network", "placement", "volume"];
/// The number of calls that a database refuses after a request was answered: more than the tries of a step, so that an operation gives the
/// step up or owes it.
const REFUSED_CALLS: u32 = 15;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    Well,
    /// The host has no power before the request comes.
    HostDown,
    /// The host loses its power once the request is answered.
    HostLost,
    /// The host loses its power once the request is answered, and is back only when the server is deleted.
    HostGone,
    CellDown,
    ServicesDown,
}

impl Condition {
    pub const ALL: [Condition; 6] =
        [Condition::Well, Condition::HostDown, Condition::HostLost, Condition::HostGone, Condition::CellDown, Condition::ServicesDown];

    /// False for conditions of a host where the server has none.
    pub fn applies_to(self, state: State) -> bool {
        state != State::Offloaded || !matches!(self, Condition::HostDown | Condition::HostLost | Condition::HostGone)
    }

    /// True if the server is deleted before the condition ends: operations wait for a host that is away, and a delete does not.
    pub fn lasts(self) -> bool {
        self == Condition::HostGone
    }

    /// True if a 503 is an honest answer.
    pub fn excuses(self) -> bool {
        matches!(self, Condition::CellDown | Condition::ServicesDown)
    }

    /// Brings the condition about before the request.
    pub async fn begin(self, house: &House, subject: &Subject) {
        match self {
            Condition::HostDown => power_off(house, subject).await,
            Condition::CellDown | Condition::ServicesDown => {
                for db in self.databases(house, subject) {
                    db.set_outage(Outage::Refuses);
                }
            }
            Condition::Well | Condition::HostLost | Condition::HostGone => {}
        }
    }

    /// Changes the condition when the request is answered: a host loses its power, and a database that is down comes back after some calls.
    pub async fn go_on(self, house: &House, subject: &Subject) {
        match self {
            Condition::HostLost => {
                power_off(house, subject).await;
                power_on(house, subject).await;
            }
            Condition::HostGone => power_off(house, subject).await,
            Condition::HostDown => power_on(house, subject).await,
            Condition::CellDown | Condition::ServicesDown => {
                for db in self.databases(house, subject) {
                    db.set_outage_for(Outage::Refuses, REFUSED_CALLS);
                }
            }
            Condition::Well => {}
        }
    }

    /// Ends the condition.
    pub async fn end(self, house: &House, subject: &Subject) {
        if self == Condition::HostGone {
            power_on(house, subject).await;
        }
        for db in self.databases(house, subject) {
            db.set_outage(Outage::None);
        }
        for cell in &house.tree.cells {
            until("the cells answer", || async { cell.health.is_up() }).await;
        }
    }

    /// Returns the databases that are down.
    fn databases(self, house: &House, subject: &Subject) -> Vec<Db> {
        let databases = house.cloud.databases();
        match self {
            // A server without a host keeps its record in the first cell's database or in another: all cells are down for it.
            Condition::CellDown => {
                let cells = house.tree.cells.iter().map(|cell| cell.name.clone());
                cells
                    .filter(|cell| subject.host.as_deref().is_none_or(|host| host.starts_with(cell.as_str())))
                    .map(|cell| databases[&cell].clone())
                    .collect()
            }
            Condition::ServicesDown => SERVICES.into_iter().map(|service| databases[service].clone()).collect(),
            Condition::Well | Condition::HostDown | Condition::HostLost | Condition::HostGone => Vec::new(),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Condition::Well => "well",
            Condition::HostDown => "host down",
            Condition::HostLost => "host lost",
            Condition::HostGone => "host gone",
            Condition::CellDown => "cell down",
            Condition::ServicesDown => "services down",
        })
    }
}

async fn power_off(house: &House, subject: &Subject) {
    let Some(host) = subject.host.as_deref() else { return };
    let cell = house.tree.cell(cell_of(host)).expect("a cell");
    cell.hosts_here.power_off(host, true).await.expect("power off");
}

async fn power_on(house: &House, subject: &Subject) {
    let Some(host) = subject.host.as_deref() else { return };
    let cell = house.tree.cell(cell_of(host)).expect("a cell");
    cell.hosts_here.power_on(host).await.expect("power on");
    until("the host is back", || async { cell.hosts.standing(host).is_up() }).await;
}

fn cell_of(host: &str) -> &str {
    host.split('-').next().expect("a cell")
}
