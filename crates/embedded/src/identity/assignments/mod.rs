//! Role assignments: what administrators grant and revoke, and which roles follow from it.

pub mod records;
pub mod routes;

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::authentication::{effective_roles, implied};
use super::tokens::revocations;
use super::{Actor, Assignment, EmbeddedIdentity, Role, ServiceError, Target, User};
use crate::identity::application_credentials::records as application_credentials;
use crate::identity::domains::records as domains;
use crate::identity::groups::records as groups;
use crate::identity::projects::records as projects;
use crate::identity::roles::records as roles;
use crate::identity::users::records as users;

/// A role that a user has in a scope, implied or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EffectiveAssignment {
    pub user_id: String,
    pub target: Target,
    pub role_id: String,
    /// The group by which alone the user has the role.
    pub group_id: Option<String>,
}

impl EmbeddedIdentity {
    /// Gives a user or group a role. NotFound if the user, group, role or project is unknown.
    pub async fn grant(&self, assignment: Assignment) -> Result<(), ServiceError> {
        self.write(move |conn| {
            match &assignment.actor {
                Actor::User(id) => drop(users::find(conn, id)?),
                Actor::Group(id) => drop(groups::find(conn, id)?),
            }
            roles::find(conn, &assignment.role_id)?;
            match &assignment.target {
                Target::Project(id) => drop(projects::find(conn, id)?),
                Target::Domain(id) => drop(domains::find(conn, id)?),
                Target::System => (),
            }
            records::grant(conn, &assignment)
        })
        .await
    }

    /// Gives the user the role at `target`. Succeeds if the user has it already.
    pub async fn ensure_assignment(&self, user: &User, target: Target, role: &str) -> Result<(), ServiceError> {
        let role_id = self.ensure_role(role).await?.id;
        let assignment = Assignment { actor: Actor::User(user.id.clone()), target, role_id };
        self.write(move |conn| records::grant(conn, &assignment)).await
    }

    /// True if a user, also by a group, or a group has the system, or a role with another name than these, anywhere.
    pub async fn exceeds(&self, actor: &Actor, names: &'static [&'static str]) -> Result<bool, ServiceError> {
        let actor = actor.clone();
        self.read(move |conn| {
            let mut actors = vec![actor.clone()];
            if let Actor::User(id) = &actor {
                actors.extend(groups::ids_of_user(conn, id)?.into_iter().map(Actor::Group));
            }
            let present = roles::list(conn)?;
            let fits = |id: &str| present.iter().any(|role| role.id == id && names.contains(&role.name.as_str()));
            let held = records::list(conn)?;
            Ok(held.iter().any(|one| actors.contains(&one.actor) && (one.target == Target::System || !fits(&one.role_id))))
        })
        .await
    }

    pub async fn is_granted(&self, assignment: Assignment) -> Result<bool, ServiceError> {
        self.read(move |conn| records::is_granted(conn, &assignment)).await
    }

    /// Takes a role away, and revokes the tokens of the user, or of the group's members, for that scope. A user's application credentials
    /// there are deleted. NotFound if the user or group does not have the role.
    pub async fn revoke(&self, assignment: Assignment) -> Result<(), ServiceError> {
        let until = self.last_expiry();
        self.revise(move |conn| {
            records::revoke(conn, &assignment)?;
            application_credentials::delete_of_assignment(conn, &assignment)?;
            revocations::of_assignment(conn, &assignment, until)
        })
        .await
    }

    /// Returns all assignments.
    pub async fn assignments(&self) -> Result<Vec<Assignment>, ServiceError> {
        self.read(records::list).await
    }

    /// Returns a user's roles in a scope, with implied roles and those by groups.
    pub async fn roles_of(&self, user_id: &str, target: Target) -> Result<Vec<Role>, ServiceError> {
        let user_id = user_id.to_owned();
        self.read(move |conn| effective_roles(conn, &user_id, &target)).await
    }

    /// Returns the roles that the user or group itself was given in a scope.
    pub async fn granted(&self, actor: Actor, target: Target) -> Result<Vec<Role>, ServiceError> {
        self.read(move |conn| records::granted(conn, &actor, &target)).await
    }

    /// Returns each role that each user has, with implied roles and with those of the user's groups.
    pub async fn effective_assignments(&self) -> Result<Vec<EffectiveAssignment>, ServiceError> {
        let (assignments, members, roles) =
            self.read(|conn| Ok((records::list(conn)?, groups::memberships(conn)?, roles::list(conn)?))).await?;
        Ok(effective(assignments, members, &roles))
    }
}

/// A user at a target, whose text form is the key because it has an order.
type Holder = (String, String);

/// Granted roles by the group that gives them; none for the user's own.
type Sources = BTreeMap<Option<String>, Vec<Role>>;

fn effective(assignments: Vec<Assignment>, members: Vec<(String, String)>, roles: &[Role]) -> Vec<EffectiveAssignment> {
    let mut of_group: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (group_id, user_id) in &members {
        of_group.entry(group_id).or_default().push(user_id);
    }
    // For each holder, the roles by source: the user's own come first, so that they are not ascribed to a group.
    let mut held: BTreeMap<Holder, (Target, Sources)> = BTreeMap::new();
    for Assignment { actor, target, role_id } in assignments {
        let Some(role) = roles.iter().find(|role| role.id == role_id) else { continue };
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
            for role in roles.iter().filter(|role| names.contains(&role.name)) {
                if seen.insert(role.id.clone()) {
                    let (user_id, target, role_id) = (user_id.clone(), target.clone(), role.id.clone());
                    all.push(EffectiveAssignment { user_id, target, role_id, group_id: group_id.clone() });
                }
            }
        }
    }
    all
}
