//! The move of a whole server group to one host: its record, and the rule that says what comes next.
//!
//! Members travel by ordinary live and cold migrations. Those that moved cold wait in VERIFY_RESIZE until the last member has arrived, so that
//! all can come back when one cannot go.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::cancellation::Cancellation;
use super::context::RequestContext;
use super::server::{VmState, named_states};

named_states! {
    /// The state of a group's move.
    GroupMoveState {
        /// Accepted: the room for all members is to be reserved.
        Reserving = "reserving",
        /// Members are on their way.
        Moving = "moving",
        /// All have arrived; the cold moves are confirmed.
        Confirming = "confirming",
        /// A member could not go, so the others come back.
        Returning = "returning",
        /// All are at the target.
        Done = "done",
        /// All are where they were.
        Returned = "returned",
        /// The members are on several hosts, and stay there until the group is moved again.
        Incomplete = "incomplete",
        /// The target had no room for all; nobody moved.
        Refused = "refused",
    }
}

impl GroupMoveState {
    /// True while members may still move.
    pub fn is_open(self) -> bool {
        use GroupMoveState as S;
        matches!(self, S::Reserving | S::Moving | S::Confirming | S::Returning)
    }

    /// True while a stop brings the members back. Members that are confirmed at the target have no way back.
    pub fn may_stop(self) -> bool {
        use GroupMoveState as S;
        matches!(self, S::Reserving | S::Moving | S::Returning)
    }
}

/// A host of a cell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostOfCell {
    pub cell: String,
    pub host: String,
}

/// A member's part in its group's move.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemberMove {
    pub server: Uuid,
    /// Where the member was.
    pub origin: HostOfCell,
    /// The operation that takes it to the target.
    #[serde(default)]
    pub there: Option<Uuid>,
    /// The operation that brings it back.
    #[serde(default)]
    pub back: Option<Uuid>,
    /// How often an operation on it was refused in a row.
    #[serde(default)]
    pub refusals: u32,
}

impl MemberMove {
    /// Makes the part of a member that has not moved.
    pub fn new(server: Uuid, origin: HostOfCell) -> MemberMove {
        MemberMove { server, origin, there: None, back: None, refusals: 0 }
    }

    /// Returns the consumer that holds the room for this member before its own move claims it.
    pub fn reservation(&self, group_move: Uuid) -> Uuid {
        Uuid::new_v5(&group_move, self.server.as_bytes())
    }
}

/// The move of a group.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupMove {
    pub id: Uuid,
    pub group: Uuid,
    pub target: HostOfCell,
    pub state: GroupMoveState,
    /// Why the move did not end at the target.
    pub reason: Option<String>,
    pub caller: RequestContext,
    /// An operator's wish that the members come back.
    #[serde(default)]
    pub stop: Option<Cancellation>,
    pub members: Vec<MemberMove>,
}

/// A member as it is now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// An operation has it.
    Busy,
    /// Gone, or on no host, so that nothing need be moved.
    Nowhere,
    /// At rest on a host.
    At { host: String, vm_state: VmState },
}

/// The next operation on a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    ToTarget,
    ToOrigin,
    Confirm,
    Revert,
}

/// The refusals in a row after which a member counts as one that cannot move.
const PATIENCE: u32 = 20;

impl GroupMove {
    /// Returns the hosts on which the group's members may be while it moves.
    pub fn hosts(&self) -> Vec<String> {
        let mut hosts = vec![self.target.host.clone()];
        for member in &self.members {
            if !hosts.contains(&member.origin.host) {
                hosts.push(member.origin.host.clone());
            }
        }
        hosts
    }

    /// Takes the state that follows from what is seen, and returns what is to be done now. `failures` has the reasons of operations of this
    /// move that failed.
    pub fn advance(&mut self, seen: &BTreeMap<Uuid, Seen>, failures: &BTreeMap<Uuid, String>) -> Vec<(Uuid, Act)> {
        if let (GroupMoveState::Moving, Some(stop)) = (self.state, &self.stop) {
            (self.state, self.reason) = (GroupMoveState::Returning, Some(stop.error()));
        }
        if self.state == GroupMoveState::Moving {
            let acts = self.forward(seen, failures);
            if self.state == GroupMoveState::Moving {
                return acts;
            }
        }
        match self.state {
            GroupMoveState::Confirming => self.confirm(seen),
            GroupMoveState::Returning => self.come_back(seen),
            _ => Vec::new(),
        }
    }

    /// Returns the operations that a stopped move cancels, with its wish: those of members that are on their way to the target.
    pub fn to_cancel(&self, seen: &BTreeMap<Uuid, Seen>) -> Vec<(Uuid, Cancellation)> {
        let Some(stop) = self.stop.as_ref().filter(|_| self.state == GroupMoveState::Returning) else { return Vec::new() };
        let on_its_way = |member: &&MemberMove| member.back.is_none() && seen.get(&member.server) == Some(&Seen::Busy);
        self.members.iter().filter(on_its_way).filter_map(|member| Some((member.there?, stop.clone()))).collect()
    }

    fn forward(&mut self, seen: &BTreeMap<Uuid, Seen>, failures: &BTreeMap<Uuid, String>) -> Vec<(Uuid, Act)> {
        let (mut acts, mut waits) = (Vec::new(), false);
        for member in &self.members {
            match seen.get(&member.server) {
                Some(Seen::Busy) => waits = true,
                Some(Seen::At { host, .. }) if *host != self.target.host => match (member.there, member.refusals >= PATIENCE) {
                    (None, false) => acts.push((member.server, Act::ToTarget)),
                    (there, _) => {
                        let why = there.and_then(|operation| failures.get(&operation)).cloned().or(self.reason.take());
                        let why = why.unwrap_or_else(|| "its move was refused".to_owned());
                        self.reason = Some(format!("server {} could not move: {why}", member.server));
                        self.state = GroupMoveState::Returning;
                        return Vec::new();
                    }
                },
                _ => {}
            }
        }
        if acts.is_empty() && !waits {
            self.state = GroupMoveState::Confirming;
        }
        acts
    }

    fn confirm(&mut self, seen: &BTreeMap<Uuid, Seen>) -> Vec<(Uuid, Act)> {
        let (mut acts, mut waits) = (Vec::new(), false);
        for member in &self.members {
            match seen.get(&member.server) {
                Some(Seen::Busy) => waits = true,
                Some(Seen::At { vm_state: VmState::Resized, .. }) => acts.push((member.server, Act::Confirm)),
                _ => {}
            }
        }
        if acts.is_empty() && !waits {
            self.state = GroupMoveState::Done;
            self.reason = None;
        }
        acts
    }

    fn come_back(&mut self, seen: &BTreeMap<Uuid, Seen>) -> Vec<(Uuid, Act)> {
        let (mut acts, mut waits, mut lost) = (Vec::new(), false, Vec::new());
        for member in &self.members {
            match seen.get(&member.server) {
                Some(Seen::Busy) => waits = true,
                Some(Seen::At { host, vm_state }) if *host != member.origin.host => {
                    match (*vm_state == VmState::Resized, member.back, member.refusals >= PATIENCE) {
                        (_, Some(_), _) | (_, _, true) => lost.push(member.server.to_string()),
                        (true, None, false) => acts.push((member.server, Act::Revert)),
                        (false, None, false) => acts.push((member.server, Act::ToOrigin)),
                    }
                }
                _ => {}
            }
        }
        if acts.is_empty() && !waits {
            self.state = if lost.is_empty() { GroupMoveState::Returned } else { GroupMoveState::Incomplete };
            if !lost.is_empty() {
                let why = self.reason.take().unwrap_or_default();
                self.reason = Some(format!("{why}; {} could not come back: move the group again, to either host", lost.join(", ")));
            }
        }
        acts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    fn place(host: &str) -> HostOfCell {
        HostOfCell { cell: "cell1".into(), host: host.into() }
    }

    fn group_move(state: GroupMoveState) -> GroupMove {
        let members = [1, 2].map(|n| MemberMove::new(id(n), place("h1"))).into();
        let caller = RequestContext::default();
        GroupMove { id: id(9), group: id(8), target: place("h2"), state, reason: None, caller, stop: None, members }
    }

    fn at(host: &str, vm_state: VmState) -> Seen {
        Seen::At { host: host.into(), vm_state }
    }

    fn two(one: Seen, other: Seen) -> BTreeMap<Uuid, Seen> {
        [(id(1), one), (id(2), other)].into()
    }

    #[test]
    fn all_move_and_are_confirmed_when_the_last_arrives() {
        use GroupMoveState as S;
        use VmState::{Active, Resized};
        let mut moving = group_move(S::Moving);
        let none = BTreeMap::new();
        assert_eq!(moving.advance(&two(at("h1", Active), at("h1", Active)), &none), [(id(1), Act::ToTarget), (id(2), Act::ToTarget)]);
        moving.members.iter_mut().for_each(|member| member.there = Some(id(20)));
        assert_eq!(moving.advance(&two(Seen::Busy, at("h2", Resized)), &none), []);
        assert_eq!(moving.state, S::Moving, "the one that arrived waits for the other");
        assert_eq!(moving.advance(&two(at("h2", Active), at("h2", Resized)), &none), [(id(2), Act::Confirm)]);
        assert_eq!(moving.advance(&two(at("h2", Active), Seen::Busy), &none), []);
        assert_eq!(moving.advance(&two(at("h2", Active), Seen::Nowhere), &none), []);
        assert_eq!(moving.state, S::Done);
    }

    #[test]
    fn when_one_cannot_go_the_others_come_back() {
        use GroupMoveState as S;
        use VmState::{Active, Resized};
        let mut moving = group_move(S::Moving);
        moving.members.iter_mut().for_each(|member| member.there = Some(member.server));
        let failures = [(id(1), "no room".to_owned())].into();
        assert_eq!(moving.advance(&two(at("h1", Active), at("h2", Resized)), &failures), [(id(2), Act::Revert)]);
        assert_eq!(moving.reason.as_deref(), Some(format!("server {} could not move: no room", id(1)).as_str()));
        assert_eq!(moving.advance(&two(at("h1", Active), Seen::Busy), &failures), []);
        assert_eq!(moving.advance(&two(at("h1", Active), at("h2", Active)), &failures), [(id(2), Act::ToOrigin)]);
        moving.members[1].back = Some(id(30));
        let mut stuck = moving.clone();
        assert_eq!(moving.advance(&two(at("h1", Active), at("h1", Active)), &failures), []);
        assert_eq!(moving.state, S::Returned);
        assert_eq!(stuck.advance(&two(at("h1", Active), at("h2", Active)), &failures), []);
        assert_eq!(stuck.state, S::Incomplete);
        assert!(stuck.reason.is_some_and(|why| why.contains("could not come back")));
    }

    #[test]
    fn a_stop_cancels_who_is_on_its_way_and_brings_the_others_back() {
        use GroupMoveState as S;
        let mut moving = group_move(S::Moving);
        moving.members.iter_mut().for_each(|member| member.there = Some(member.server));
        let none = BTreeMap::new();
        let seen = two(Seen::Busy, at("h2", VmState::Resized));
        assert_eq!(moving.advance(&seen, &none), []);
        assert!(moving.to_cancel(&seen).is_empty(), "nobody wants it");
        moving.stop = Some(Cancellation::new(&moving.caller, "the group stays", chrono::DateTime::UNIX_EPOCH));
        assert_eq!(moving.advance(&seen, &none), [(id(2), Act::Revert)]);
        assert_eq!(moving.to_cancel(&seen).into_iter().map(|(operation, _)| operation).collect::<Vec<_>>(), [id(1)]);
        moving.members[1].back = Some(id(30));
        assert!(moving.to_cancel(&two(at("h1", VmState::Active), Seen::Busy)).is_empty(), "a way back is not cancelled");
        assert_eq!(moving.advance(&two(at("h1", VmState::Active), at("h1", VmState::Active)), &none), []);
        assert_eq!((moving.state, moving.reason), (S::Returned, Some("Cancelled: the group stays (request )".into())));
        assert!(S::Reserving.may_stop() && !S::Confirming.may_stop() && !S::Done.may_stop());
    }

    #[test]
    fn a_member_that_is_refused_again_and_again_cannot_go() {
        let mut moving = group_move(GroupMoveState::Moving);
        moving.members[0].refusals = PATIENCE;
        let seen = two(at("h1", VmState::Stopped), at("h1", VmState::Active));
        assert_eq!(moving.advance(&seen, &BTreeMap::new()), []);
        assert_eq!(moving.state, GroupMoveState::Returned);
        assert_eq!(moving.hosts(), ["h2", "h1"]);
    }
}
