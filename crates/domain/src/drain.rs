//! Drains: an operator's wish that all servers leave a host or a cell, and how far each server is.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::context::RequestContext;
use super::server::named_states;

/// The moves at once of a drain whose operator names no number.
pub const DEFAULT_IN_FLIGHT: u32 = 4;
/// The maximum number of moves at once of one drain.
pub const MAX_IN_FLIGHT: u32 = 64;

named_states! {
    /// The progress of a drain.
    DrainState {
        /// Moves servers.
        Running = "running",
        /// Begins no moves until it is resumed.
        Paused = "paused",
        /// Begins no moves any more.
        Cancelled = "cancelled",
        /// Every server has moved or was refused.
        Done = "done",
        /// Turns back: cancels its moves in flight, and enables the hosts that it disabled.
        Undoing = "undoing",
        /// Has turned back. Servers that had moved are still where they went.
        Undone = "undone",
    }
}

impl DrainState {
    /// True if servers that wait for their move will not be moved any more.
    pub fn is_abandoned(self) -> bool {
        matches!(self, DrainState::Cancelled | DrainState::Undoing | DrainState::Undone)
    }

    /// Returns the state of a drain that ends in this one.
    pub fn settled(self) -> DrainState {
        match self {
            DrainState::Running => DrainState::Done,
            DrainState::Undoing => DrainState::Undone,
            other => other,
        }
    }
}

named_states! {
    /// The progress of one server of a drain.
    DrainServerState {
        /// Still to be moved; with a reason if a try failed.
        Pending = "pending",
        /// Its move, or the confirm of it, is in flight.
        Moving = "moving",
        /// Has left the host by the drain's move.
        Moved = "moved",
        /// Could not be moved, for the reason in its row.
        Refused = "refused",
        /// Deleted, or off the host by someone else's operation.
        Gone = "gone",
    }
}

named_states! {
    /// The kinds of moves that a drain begins.
    MoveKind {
        /// A live migration.
        Live = "live",
        /// A cold migration or, to a mapped flavor, a resize.
        Cold = "cold",
    }
}

/// Where the servers of a drain go.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Destination {
    /// Hosts of this cell.
    Cell(String),
    /// Hosts of these cells, which are two or more.
    Cells(Vec<String>),
    /// Hosts in this availability zone. `is_default` if hosts that no aggregate puts into a zone are in it.
    Zone { name: String, is_default: bool },
}

impl Destination {
    /// True if the servers may go to a host of this cell, in the zone that an aggregate names.
    pub fn includes(&self, cell: &str, zone: Option<&str>) -> bool {
        match self {
            Destination::Cell(name) => name == cell,
            Destination::Cells(names) => names.iter().any(|name| name == cell),
            Destination::Zone { name, is_default } => zone.map_or(*is_default, |zone| zone == name),
        }
    }

    /// True if no host of this cell is known to be excluded.
    pub fn may_include_cell(&self, cell: &str) -> bool {
        match self {
            Destination::Cell(_) | Destination::Cells(_) => self.includes(cell, None),
            Destination::Zone { .. } => true,
        }
    }
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Destination::Cell(name) => write!(f, "cell {name}"),
            Destination::Cells(names) => write!(f, "the cells {}", names.join(", ")),
            Destination::Zone { name, .. } => write!(f, "availability zone {name}"),
        }
    }
}

/// An operator's request for a drain, checked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DrainPlan {
    /// The cell of the hosts to empty.
    pub cell: String,
    /// The hosts to empty: one, or all of the cell.
    pub hosts: Vec<String>,
    /// True if the operator named the cell.
    pub whole_cell: bool,
    pub to: Destination,
    /// The flavors that servers take when they move, by the id of the present one.
    pub flavors: BTreeMap<String, String>,
    pub max_in_flight: u32,
    /// True if the drain confirms the cold moves that it began.
    pub confirm: bool,
    /// True if it also confirms the moves of others that hold its hosts: the operator asked for it, and policy lets them confirm.
    #[serde(default)]
    pub confirm_others: bool,
    /// True if policy lets the operator's moves leave a cell.
    pub may_leave_cell: bool,
    /// The operator, in whose name servers are moved.
    pub caller: RequestContext,
}

/// A drain.
#[derive(Clone, PartialEq, Debug)]
pub struct Drain {
    pub id: Uuid,
    pub state: DrainState,
    pub plan: DrainPlan,
    /// True once the hosts' services are disabled.
    pub hosts_disabled: bool,
    /// True if nothing of the drain is in flight, and nothing will be.
    pub is_settled: bool,
    /// The reason why it does not get on.
    pub reason: Option<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// A server of a drain.
#[derive(Clone, PartialEq, Debug)]
pub struct DrainServer {
    pub server: Uuid,
    /// The host that it shall leave.
    pub host: String,
    pub state: DrainServerState,
    /// The number of tries that failed.
    pub tries: i32,
    pub next_try_at: Option<DateTime<Utc>>,
    /// The kind of its last move.
    pub kind: Option<MoveKind>,
    /// The target of its last move.
    pub target: Option<String>,
    /// The id of its move. It is recorded before the move begins and kept until that move has begun and ended, so that none begins twice.
    pub operation: Option<Uuid>,
    /// The id of the confirm of its move, likewise.
    pub confirm: Option<Uuid>,
    pub reason: Option<String>,
    pub updated_at: DateTime<Utc>,
}

/// The servers of a drain by state.
pub type Counts = BTreeMap<DrainServerState, i64>;

/// A reason that several servers share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DrainReason {
    pub state: DrainServerState,
    pub reason: String,
    pub servers: i64,
}

/// The numbers of drains that have not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenDrains {
    /// Drains that move servers, or let their moves end.
    pub running: usize,
    /// Drains that an operator has paused.
    pub paused: usize,
    /// Drains that wait for something that does not answer.
    pub waiting: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_takes_hosts_of_every_cell_that_are_in_it() {
        let zone = |is_default| Destination::Zone { name: "east".into(), is_default };
        assert!(zone(false).includes("cell1", Some("east")) && !zone(false).includes("cell1", Some("west")));
        assert!(zone(true).includes("cell1", None) && !zone(false).includes("cell1", None));
        let cell = Destination::Cell("cell2".into());
        assert!(cell.includes("cell2", Some("west")) && !cell.includes("cell1", None) && !cell.may_include_cell("cell1"));
    }

    #[test]
    fn several_cells_take_hosts_of_each_of_them() {
        let cells = Destination::Cells(vec!["cell2".into(), "cell3".into()]);
        assert!(cells.includes("cell2", None) && cells.includes("cell3", Some("east")) && !cells.includes("cell1", None));
        assert!(cells.may_include_cell("cell3") && !cells.may_include_cell("cell1"));
        assert_eq!(cells.to_string(), "the cells cell2, cell3");
    }
}
