//! Groups of users, and the roles that their members have by them.

pub mod records;
pub mod routes;

use super::{EmbeddedIdentity, Group, GroupChanges, ServiceError, User, words};
use crate::identity::tokens::revocations;
use crate::identity::users::records as users;

/// A group to make.
#[derive(Clone, Debug)]
pub struct NewGroup {
    pub domain_id: String,
    pub name: String,
    pub description: String,
}

impl EmbeddedIdentity {
    /// Makes a group. Conflict if the name is taken in its domain; NotFound if there is no such domain.
    pub async fn create_group(&self, new: NewGroup) -> Result<Group, ServiceError> {
        let group = Group {
            id: self.new_id(),
            domain_id: new.domain_id,
            name: words::name("group", &new.name)?,
            description: words::text("description", &new.description)?,
            created_at: self.env.now().naive_utc(),
        };
        self.write(move |conn| records::insert(conn, &group).map(|()| group)).await
    }

    pub async fn group(&self, id: &str) -> Result<Group, ServiceError> {
        let id = id.to_owned();
        self.read(move |conn| records::find(conn, &id)).await
    }

    /// Returns all groups, ordered by name.
    pub async fn groups(&self) -> Result<Vec<Group>, ServiceError> {
        self.read(records::list).await
    }

    /// Returns the user's groups, ordered by name.
    pub async fn groups_of(&self, user_id: &str) -> Result<Vec<Group>, ServiceError> {
        let user_id = user_id.to_owned();
        self.read(move |conn| {
            users::find(conn, &user_id)?;
            let ids = records::ids_of_user(conn, &user_id)?;
            Ok(records::list(conn)?.into_iter().filter(|group| ids.contains(&group.id)).collect())
        })
        .await
    }

    pub async fn update_group(&self, id: &str, mut changes: GroupChanges) -> Result<Group, ServiceError> {
        changes.name = changes.name.map(|name| words::name("group", &name)).transpose()?;
        changes.description = changes.description.map(|text| words::text("description", &text)).transpose()?;
        let id = id.to_owned();
        self.write(move |conn| records::update(conn, &id, &changes)).await
    }

    /// Deletes a group, and revokes its members' tokens where it had a role.
    pub async fn delete_group(&self, id: &str) -> Result<(), ServiceError> {
        let (id, until) = (id.to_owned(), self.last_expiry());
        self.revise(move |conn| {
            for user_id in records::member_ids(conn, &id)? {
                revocations::of_member(conn, &id, &user_id, until)?;
            }
            records::delete(conn, &id)
        })
        .await
    }

    /// Returns the members, ordered by name.
    pub async fn members(&self, group_id: &str) -> Result<Vec<User>, ServiceError> {
        let group_id = group_id.to_owned();
        self.read(move |conn| {
            records::find(conn, &group_id)?;
            records::members(conn, &group_id)
        })
        .await
    }

    /// Makes a user a member. Succeeds if the user is one already.
    pub async fn add_member(&self, group_id: &str, user_id: &str) -> Result<(), ServiceError> {
        let (group_id, user_id) = (group_id.to_owned(), user_id.to_owned());
        self.write(move |conn| {
            records::find(conn, &group_id)?;
            users::find(conn, &user_id)?;
            records::add_member(conn, &group_id, &user_id)
        })
        .await
    }

    /// NotFound if the group or the user is unknown.
    pub async fn is_member(&self, group_id: &str, user_id: &str) -> Result<bool, ServiceError> {
        let (group_id, user_id) = (group_id.to_owned(), user_id.to_owned());
        self.read(move |conn| {
            records::find(conn, &group_id)?;
            users::find(conn, &user_id)?;
            records::is_member(conn, &group_id, &user_id)
        })
        .await
    }

    /// Ends a membership, and revokes the user's tokens where the group has a role. NotFound if the user is no member.
    pub async fn remove_member(&self, group_id: &str, user_id: &str) -> Result<(), ServiceError> {
        let (group_id, user_id, until) = (group_id.to_owned(), user_id.to_owned(), self.last_expiry());
        self.revise(move |conn| {
            records::remove_member(conn, &group_id, &user_id)?;
            revocations::of_member(conn, &group_id, &user_id, until)
        })
        .await
    }
}
fn effective(given: Vec<Assignment>, members: Vec<(String, String)>, known: &[Role]) -> Vec<EffectiveAssignment> {
    let mut of_group: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (group_id, user_id) in &members {
        of_group.entry(group_id).or_default().push(user_id);
    }
    // For each holder, the roles by source: the user's own come first, so that they are not ascribed to a group.
    let mut held: BTreeMap<Holder, (Target, Sources)> = BTreeMap::new();
    for Assignment { actor, target, role_id } in given {
        let Some(role) = known.iter().find(|role| role.id == role_id) else { continue };
        let (holders, source) = match actor {
            Actor::User(id) => (vec![id], None),
            Actor::Group(id) => {
                let members = of_group.get(id.as_str()).into_iter().flatten().map(|user| (*user).to_owned());
                (members.collect(), Some(id))
            }
        };
        for user_id in holders {
            let (_, sources) = held.entry((user_id, target.as_text())).or_insert_with(|| (target.clone(), BTreeMap::new()));
            sources.entry(source.clone()).or_default().push(role.clone());
        }
    }
    let mut all = Vec::new();
    for ((user_id, _), (target, sources)) in held {
        let mut seen = BTreeSet::new();
        for (group_id, granted) in sources {
            let names = implied(granted);
            for role in known.iter().filter(|role| names.contains(&role.name)) {
                if seen.insert(role.id.clone()) {
                    let (user_id, target, role_id) = (user_id.clone(), target.clone(), role.id.clone());
                    all.push(EffectiveAssignment { user_id, target, role_id, group_id: group_id.clone() });
                }
            }
        }
    }
    all
}
