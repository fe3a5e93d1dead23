//! Server groups: the policies that keep servers together or apart, and the rule that checks a host.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::counted::counted;
use super::reason::Reason;
use super::server::named_states;
use crate::reason;

named_states! {
    /// The policy of a group.
    GroupPolicy {
        /// All members share a host.
        Affinity = "affinity",
        /// At most `max_server_per_host` members on a host.
        AntiAffinity = "anti-affinity",
        /// Members share a host if possible: only a weigher uses it.
        SoftAffinity = "soft-affinity",
        /// Members avoid sharing a host if possible: only a weigher uses it.
        SoftAntiAffinity = "soft-anti-affinity",
    }
}

/// A server group for the scheduler, with the hosts of its members in all cells.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServerGroup {
    /// The group.
    pub uuid: Uuid,
    /// Its policy.
    pub policy: GroupPolicy,
    /// The maximum number of members on a host for anti-affinity; at least 1.
    pub max_server_per_host: u32,
    /// The members with the hosts on which they are or to which they move; a member in a move has two. Host names are unique over cells
    /// (INVARIANTS C10), so no cell is needed.
    pub members: BTreeMap<Uuid, Vec<String>>,
    /// While the whole group moves: the hosts on which its members may be meanwhile.
    #[serde(default)]
    pub moving_among: Vec<String>,
    /// True if the last move of the whole group could neither be completed nor undone.
    #[serde(default)]
    pub split: bool,
}

impl ServerGroup {
    /// Counts the members except `server` that are on `host` or move to it.
    pub fn others_on(&self, server: Uuid, host: &str) -> usize {
        self.members.iter().filter(|(member, hosts)| **member != server && hosts.iter().any(|h| h == host)).count()
    }

    /// Says why the policy forbids `host` for `server`; none if it allows it. Soft policies allow all hosts. The server itself does not
    /// count, so that a server alone in an affinity group can move.
    pub fn violation(&self, server: Uuid, host: &str) -> Option<Reason> {
        match self.policy {
            GroupPolicy::AntiAffinity => {
                let others = self.others_on(server, host);
                let limit = self.max_server_per_host.max(1) as usize;
                (others >= limit)
                    .then(|| reason!("anti-affinity group {} has {others} of at most {} on it", self.uuid, counted(limit, "server")))
            }
            GroupPolicy::Affinity => self.separation(server, host),
            GroupPolicy::SoftAffinity | GroupPolicy::SoftAntiAffinity => None,
        }
    }

    /// Says why `host` would separate `server` from its affinity group. Nobody joins a member that is between two hosts: it could end on
    /// either of them.
    fn separation(&self, server: Uuid, host: &str) -> Option<Reason> {
        if !self.moving_among.is_empty() {
            let among = self.moving_among.iter().any(|one| one == host);
            return (!among).then(|| reason!("affinity group {} moves to {}", self.uuid, self.moving_among[0]));
        }
        let others = || self.members.iter().filter(|(member, hosts)| **member != server && !hosts.is_empty());
        if others().next().is_some() && self.others_on(server, host) == 0 {
            return Some(reason!("affinity group {} is on another host", self.uuid));
        }
        let (between, hosts) = others().find(|(_, hosts)| hosts.len() > 1)?;
        let (group, hosts) = (self.uuid, hosts.join(" and "));
        Some(reason!("server {between} of affinity group {group} is between {hosts}: its move must end, or be confirmed or reverted"))
    }
}

/// A server group.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServerGroupRecord {
    pub uuid: Uuid,
    pub created_at: DateTime<Utc>,
    pub updated_at: Option<DateTime<Utc>>,
    pub project_id: String,
    pub user_id: String,
    pub name: String,
    pub policy: GroupPolicy,
    /// `{"max_server_per_host": 3}`, or empty.
    pub rules: serde_json::Value,
    /// In the order of joining.
    pub members: Vec<Uuid>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    fn group(policy: GroupPolicy, max: u32, members: &[(u128, &[&str])]) -> ServerGroup {
        let members = members.iter().map(|(n, hosts)| (id(*n), hosts.iter().map(|h| (*h).to_owned()).collect())).collect();
        ServerGroup { uuid: id(99), policy, max_server_per_host: max, members, moving_among: Vec::new(), split: false }
    }

    #[test]
    fn a_policy_allows_or_refuses_a_host() {
        use GroupPolicy as P;
        // Columns: policy, maximum, members, requested host for server 1, allowed.
        type Row = (P, u32, &'static [(u128, &'static [&'static str])], &'static str, bool);
        let rows: &[Row] = &[
            (P::AntiAffinity, 1, &[], "h1", true),
            (P::AntiAffinity, 1, &[(1, &["h1"])], "h1", true),
            (P::AntiAffinity, 1, &[(1, &["h1"]), (2, &["h2"])], "h2", false),
            (P::AntiAffinity, 1, &[(2, &["h1", "h2"])], "h1", false),
            (P::AntiAffinity, 2, &[(2, &["h2"])], "h2", true),
            (P::AntiAffinity, 2, &[(2, &["h2"]), (3, &["h2"])], "h2", false),
            (P::AntiAffinity, 0, &[], "h2", true),
            (P::Affinity, 1, &[(1, &["h1"])], "h2", true),
            (P::Affinity, 1, &[(1, &["h1"]), (2, &["h1"])], "h2", false),
            (P::Affinity, 1, &[(2, &["h1"])], "h1", true),
            (P::Affinity, 1, &[(2, &[])], "h1", true),
            (P::Affinity, 1, &[(2, &["h1", "h2"])], "h1", false),
            (P::Affinity, 1, &[(1, &["h1", "h2"]), (2, &[])], "h2", true),
            (P::SoftAntiAffinity, 1, &[(2, &["h1"])], "h1", true),
            (P::SoftAffinity, 1, &[(2, &["h1"])], "h2", true),
        ];
        for (policy, max, members, host, allowed) in rows {
            let verdict = group(*policy, *max, members).violation(id(1), host);
            assert_eq!(verdict.is_none(), *allowed, "{policy} {max} {members:?} {host}: {verdict:?}");
        }
        let whole = group(P::Affinity, 1, &[(1, &["h1"]), (2, &["h1", "h2"])]);
        let moving = ServerGroup { moving_among: vec!["h2".into(), "h1".into()], ..whole };
        assert!(moving.violation(id(1), "h2").is_none() && moving.violation(id(1), "h1").is_none());
        assert!(moving.violation(id(1), "h3").is_some());
    }
}
