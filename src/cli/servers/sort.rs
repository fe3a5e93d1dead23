//! The order of the list of servers: by each of its columns, and by the moments of the records.

use std::net::IpAddr;

use clap::ValueEnum;
use serde_json::Value;

use super::{COLUMNS, row};

/// The order of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Sort {
    Name,
    Id,
    Cell,
    Host,
    Flavor,
    Addresses,
    Project,
    State,
    Created,
    Updated,
}

impl Sort {
    /// Returns the key by which the service sorts. None if it could sort only by an id, or by nothing, where the column shows a name.
    pub(super) fn key(self) -> Option<&'static str> {
        match self {
            Sort::Name => Some("display_name"),
            Sort::Id => Some("uuid"),
            Sort::Host => Some("host"),
            Sort::Created => Some("created_at"),
            Sort::Updated => Some("updated_at"),
            Sort::Cell | Sort::Flavor | Sort::Addresses | Sort::Project | Sort::State => None,
        }
    }

    /// Sorts servers by what the column shows, and equal ones by their names.
    pub(super) fn order(self, servers: &mut [Value], is_reversed: bool) {
        servers.sort_by_cached_key(|server| self.rank(server));
        if is_reversed {
            servers.reverse();
        }
    }

    /// Returns what decides a server's place: its first address if that is the order, the column's text, and its name.
    fn rank(self, server: &Value) -> (Option<IpAddr>, String, String) {
        let shown = row(server);
        let of = |column: Sort| COLUMNS.iter().position(|(sort, _)| *sort == column).map(|at| shown[at].clone()).unwrap_or_default();
        let address = if self == Sort::Addresses { address(server) } else { None };
        (address, of(self), of(Sort::Name))
    }
}

/// Returns the first address, which sorts by its number.
fn address(server: &Value) -> Option<IpAddr> {
    server["addresses"][0].as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sorted(sort: Sort, is_reversed: bool) -> Vec<String> {
        let server = |name: &str, cell: &str, address: &str, project: &str| json!({"name": name, "cell": cell, "addresses": [address], "project": project, "status": "ACTIVE"});
        let mut servers =
            [server("web", "c2", "10.0.0.30", "demo"), server("db", "c1", "10.0.0.4", "ops"), server("app", "c2", "10.0.0.200", "demo")];
        sort.order(&mut servers, is_reversed);
        servers.iter().map(|server| row(server)[0].clone()).collect()
    }

    #[test]
    fn servers_are_sorted_by_what_a_column_shows() {
        assert_eq!(sorted(Sort::Cell, false), ["db", "app", "web"]);
        assert_eq!(sorted(Sort::Cell, true), ["web", "app", "db"]);
        assert_eq!(sorted(Sort::Addresses, false), ["db", "web", "app"], "by number, not by letters");
        assert_eq!(sorted(Sort::Project, false), ["app", "web", "db"]);
        assert_eq!(sorted(Sort::State, false), ["app", "db", "web"]);
    }

    #[test]
    fn each_column_can_be_sorted_by() {
        let words = Sort::value_variants().iter().filter_map(|sort| Some(sort.to_possible_value()?.get_name().to_uppercase()));
        let words: Vec<String> = words.collect();
        assert!(COLUMNS.iter().all(|(_, head)| words.iter().any(|word| word == head)), "{words:?}");
    }
}
