//! I19: the rule of a server group holds. Forced moves keep it, too, so nothing excuses a breach but the move of the whole group.

use std::collections::BTreeMap;

use super::report::{Findings, Violation, list};
use super::snapshot::Snapshot;
use crate::domain::server_group::{GroupPolicy, ServerGroup};

/// Finds violations of I19.
pub fn check(snapshot: &Snapshot) -> Vec<Violation> {
    let mut findings = Findings::of(snapshot);
    for group in &snapshot.groups {
        let shares = shares(snapshot, group);
        let subject = format!("server group {}", group.uuid);
        let limit = group.max_server_per_host.max(1) as usize;
        match group.policy {
            GroupPolicy::AntiAffinity => {
                for (host, servers) in shares.iter().filter(|(_, servers)| **servers > limit) {
                    findings.add("I19", &subject, format!("{servers} members are on {host}, expected at most {limit}"));
                }
            }
            // A whole group that moves is on two hosts meanwhile; one whose move broke off stays so until it is moved again.
            GroupPolicy::Affinity if shares.len() > 1 && group.moving_among.is_empty() && !group.split => {
                findings.add("I19", &subject, format!("its members are on {}, expected one host", list(shares.keys())));
            }
            GroupPolicy::Affinity | GroupPolicy::SoftAffinity | GroupPolicy::SoftAntiAffinity => {}
        }
    }
    findings.done()
}

/// Returns the number of members at rest on each host that owns some.
fn shares<'a>(snapshot: &'a Snapshot, group: &ServerGroup) -> BTreeMap<&'a str, usize> {
    let mut shares = BTreeMap::new();
    let resting = group.members.keys().filter(|server| !snapshot.busy.contains(*server));
    for (_, host) in resting.filter_map(|server| snapshot.ownership.get(server)?.owner.as_ref()) {
        *shares.entry(host.as_str()).or_default() += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::fixture::{A, R, expect_none, expect_one};
    use super::*;

    fn group(policy: GroupPolicy, max: u32) -> ServerGroup {
        let members = [A, R].map(|server| (server, Vec::new())).into();
        ServerGroup { uuid: Uuid::from_u128(0x60), policy, max_server_per_host: max, members, moving_among: Vec::new(), split: false }
    }

    fn share(world: &mut Snapshot) {
        // Only the groups are judged here, so that nothing else is found.
        let owner = world.ownership[&A].owner.clone();
        *world = Snapshot { groups: world.groups.clone(), ownership: world.ownership.clone(), ..Snapshot::default() };
        world.ownership.get_mut(&R).unwrap().owner = owner;
    }

    #[test]
    fn i19_a_groups_rule_holds() {
        expect_one("I19", "its members are on h1, h2, expected one host", |world| world.groups = vec![group(GroupPolicy::Affinity, 1)]);
        expect_none(|world| world.groups = vec![group(GroupPolicy::SoftAffinity, 1), group(GroupPolicy::AntiAffinity, 1)]);
        expect_none(|world| {
            let moving_among = vec!["h2".to_owned(), "h1".to_owned()];
            let moving = ServerGroup { moving_among, ..group(GroupPolicy::Affinity, 1) };
            world.groups = vec![moving, ServerGroup { split: true, ..group(GroupPolicy::Affinity, 1) }];
        });
        for (policy, max) in [(GroupPolicy::AntiAffinity, 1), (GroupPolicy::AntiAffinity, 2), (GroupPolicy::SoftAntiAffinity, 1)] {
            let mut world = super::super::fixture::healthy();
            world.groups = vec![group(policy, max)];
            share(&mut world);
            let broken = check(&world);
            assert_eq!(broken.len(), usize::from(policy == GroupPolicy::AntiAffinity && max == 1), "{policy} {max}: {broken:?}");
        }
    }
}
