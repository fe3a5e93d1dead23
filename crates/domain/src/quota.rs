//! Quotas: the counted resources and their default limits.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Sum;
use std::ops::Add;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::flavor::Flavor;

/// Limits by resource; -1 means no limit.
pub type Limits = BTreeMap<String, i64>;

/// All resources with a quota, and their default limits.
pub const DEFAULTS: &[(&str, i64)] = &[
    ("cores", 20),
    ("fixed_ips", -1),
    ("floating_ips", -1),
    ("injected_file_content_bytes", 10_240),
    ("injected_file_path_bytes", 255),
    ("injected_files", 5),
    ("instances", 10),
    ("key_pairs", 100),
    ("metadata_items", 128),
    ("ram", 51_200),
    ("security_group_rules", -1),
    ("security_groups", -1),
    ("server_group_members", 10),
    ("server_groups", 10),
];

/// The class whose limits apply to projects and users without limits of their own.
pub const DEFAULT_CLASS: &str = "default";

/// Returns the default limits.
pub fn default_limits() -> Limits {
    DEFAULTS.iter().map(|(resource, limit)| ((*resource).to_owned(), *limit)).collect()
}

/// The limits of a project, and those that one of its users has of their own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QuotaLimits {
    pub project: Limits,
    /// Only the resources for which a limit is set for the user.
    pub own: Limits,
}

impl QuotaLimits {
    /// Returns the user's limits: their own, otherwise the project's.
    pub fn of_user(&self) -> Limits {
        let mut limits = self.project.clone();
        limits.extend(self.own.clone());
        limits
    }

    /// Returns the lower limit of each resource, for what each server has.
    pub fn lower(&self) -> Limits {
        let mut limits = self.project.clone();
        for (resource, own) in &self.own {
            let of_project = limits.entry(resource.clone()).or_insert(-1);
            if endless(*own) < endless(*of_project) {
                *of_project = *own;
            }
        }
        limits
    }
}

/// Returns a limit in an order in which no limit is the highest.
pub fn endless(limit: i64) -> i64 {
    if limit < 0 { i64::MAX } else { limit }
}

/// Returns what the limits of users leave of a project's; -1 if the project has no limit.
pub fn left_by(of_project: i64, of_users: &[i64]) -> i64 {
    match of_project < 0 {
        true => -1,
        false => (of_project - of_users.iter().sum::<i64>()).max(0),
    }
}

/// True if `used` plus `more` is within the resource's limit.
pub fn fits(limits: &Limits, resource: &str, used: i64, more: i64) -> bool {
    within(limits.get(resource).copied().unwrap_or(-1), used, more)
}

/// True if `used` plus `more` is within the limit. A negative limit means no limit.
pub fn within(limit: i64, used: i64, more: i64) -> bool {
    limit < 0 || used + more <= limit
}

/// Says in Nova's words why there is no room for `more`; none if there is room.
pub fn refusal(limits: &Limits, used: impl Fn(&str) -> i64, more: &[(&str, i64)]) -> Option<String> {
    let over: Vec<_> = more.iter().filter(|(resource, amount)| !fits(limits, resource, used(resource), *amount)).collect();
    if over.is_empty() {
        return None;
    }
    let list = |figure: &dyn Fn(&str, i64) -> i64| {
        over.iter().map(|(resource, amount)| figure(resource, *amount).to_string()).collect::<Vec<_>>().join(", ")
    };
    let names = over.iter().map(|(resource, _)| *resource).collect::<Vec<_>>().join(", ");
    Some(format!(
        "Quota exceeded for {names}: Requested {}, but already used {} of {} {names}",
        list(&|_, amount| amount),
        list(&|resource, _| used(resource)),
        list(&|resource, _| limits.get(resource).copied().unwrap_or(-1)),
    ))
}

/// Says as [`refusal`] does why a user has no room of their own.
pub fn refusal_of_user(limits: &Limits, used: impl Fn(&str) -> i64, more: &[(&str, i64)]) -> Option<String> {
    refusal(limits, used, more).map(|why| format!("{why} by this user"))
}

/// The quota usage of servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ServerUsage {
    pub instances: i64,
    pub cores: i64,
    /// In MiB.
    pub ram: i64,
}

impl ServerUsage {
    /// Returns the usage of `count` servers with this flavor.
    pub fn by(count: i64, flavor: &Flavor) -> ServerUsage {
        ServerUsage { instances: count, cores: count * i64::from(flavor.vcpus), ram: count * i64::from(flavor.memory_mb) }
    }

    /// Returns the usage by resource name.
    pub fn by_resource(&self) -> [(&'static str, i64); 3] {
        [("instances", self.instances), ("cores", self.cores), ("ram", self.ram)]
    }

    /// Returns the usage of one resource; 0 for a resource that servers do not use.
    pub fn of(&self, resource: &str) -> i64 {
        self.by_resource().iter().find(|(name, _)| *name == resource).map_or(0, |(_, amount)| *amount)
    }
}

impl Add for ServerUsage {
    type Output = ServerUsage;
    fn add(self, other: ServerUsage) -> ServerUsage {
        ServerUsage { instances: self.instances + other.instances, cores: self.cores + other.cores, ram: self.ram + other.ram }
    }
}

impl Sum for ServerUsage {
    fn sum<I: Iterator<Item = ServerUsage>>(all: I) -> ServerUsage {
        all.fold(ServerUsage::default(), Add::add)
    }
}

/// The room of a project, or of one of its users, at the time of a count. The commit that uses it up checks it again, against the servers
/// accepted since.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CountedRoom {
    pub limits: Limits,
    /// The usage of the servers that were known then.
    pub used: ServerUsage,
    /// The id of the newest counted mapping: mappings with a higher id came later.
    pub newest: i32,
    /// A project's room has that of the server's user beside it, if they have limits of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_user: Option<Box<CountedRoom>>,
}

/// The servers of a project, or of one user in it, at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ProjectServers {
    /// The resources of the servers whose delete nobody has asked for, by the flavors of their request specs. Each server counts once, also
    /// while it moves or is in ERROR.
    pub usage: ServerUsage,
    /// True if every row of the project has a delete flag and every living row names a user, so that the figures can be trusted
    /// (docs/DOWN-CELLS.md).
    pub populated: bool,
    /// The servers that no cell has yet, with their flavors.
    pub building: Vec<(Uuid, Flavor)>,
    /// Consumers that no longer count: servers whose delete is not over, and the migrations of these servers.
    pub leaving: BTreeSet<Uuid>,
    /// The id of the newest living mapping; 0 if there is none.
    pub newest: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_is_over_and_nothing_else() {
        let limits = Limits::from([("instances".to_owned(), 3), ("cores".to_owned(), 8), ("ram".to_owned(), -1)]);
        let flavor = Flavor { vcpus: 2, memory_mb: 512, ..Flavor::default() };
        let used = ServerUsage::by(2, &flavor) + ServerUsage { ram: 1 << 40, ..ServerUsage::default() };
        assert_eq!(refusal(&limits, |resource| used.of(resource), &ServerUsage::by(1, &flavor).by_resource()), None);
        assert_eq!(
            refusal(&limits, |resource| used.of(resource), &ServerUsage::by(3, &flavor).by_resource()).unwrap(),
            "Quota exceeded for instances, cores: Requested 3, 6, but already used 2, 4 of 3, 8 instances, cores"
        );
        assert_eq!(used.of("key_pairs"), 0);
    }

    #[test]
    fn a_users_own_limits_stand_beside_the_projects() {
        let limits = |pairs: &[(&str, i64)]| pairs.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect::<Limits>();
        let both =
            QuotaLimits { project: limits(&[("cores", 8), ("ram", -1), ("instances", 3)]), own: limits(&[("cores", -1), ("ram", 512)]) };
        assert_eq!(both.of_user(), limits(&[("cores", -1), ("ram", 512), ("instances", 3)]));
        assert_eq!(both.lower(), limits(&[("cores", 8), ("ram", 512), ("instances", 3)]));
        assert_eq!([left_by(10, &[3, 4]), left_by(10, &[9, 9]), left_by(-1, &[3])], [3, 0, -1]);
    }
}
