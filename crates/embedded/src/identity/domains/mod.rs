//! Domains: the owners of users, groups and projects.

pub mod records;
pub mod routes;

use cellshift_domain::reason;
use cellshift_store::{Conn, DbError};

use super::{Actor, DEFAULT_DOMAIN, Domain, DomainChanges, EmbeddedIdentity, ServiceError, Target, statements, words};
use crate::identity::assignments::records as assignments;
use crate::identity::groups::records as groups;
use crate::identity::projects::records as projects;
use crate::identity::tokens::revocations;
use crate::identity::users::records as users;

/// A domain to make.
#[derive(Clone, Default, Debug)]
pub struct NewDomain {
    pub name: String,
    pub description: String,
    pub enabled: bool,
}

statements::readers!(Domain, domain, domains);

impl EmbeddedIdentity {
    /// Makes a domain. Conflict if the name is taken.
    pub async fn create_domain(&self, new: NewDomain) -> Result<Domain, ServiceError> {
        let domain = Domain {
            id: self.new_id(),
            name: words::short_name("domain", &new.name)?,
            description: words::text("description", &new.description)?,
            enabled: new.enabled,
            created_at: self.env.now().naive_utc(),
        };
        self.write(move |conn| records::insert(conn, &domain).map(|()| domain)).await
    }

    /// Returns the enabled domains in which the user has a role, also by a group, ordered by name.
    pub async fn domains_of(&self, user_id: &str) -> Result<Vec<Domain>, ServiceError> {
        let user_id = user_id.to_owned();
        self.read(move |conn| {
            let held = assignments::targets_of(conn, &user_id)?;
            let domains = records::list(conn)?;
            Ok(domains.into_iter().filter(|domain| domain.enabled && held.contains(&Target::Domain(domain.id.clone()))).collect())
        })
        .await
    }

    /// Changes a domain. Disabling it revokes the tokens of its users, and those that are scoped to it or to its projects. Forbidden for the
    /// name and the end of the default domain: the program's own clouds file names it.
    pub async fn update_domain(&self, id: &str, mut changes: DomainChanges) -> Result<Domain, ServiceError> {
        changes.name = changes.name.map(|name| words::short_name("domain", &name)).transpose()?;
        changes.description = changes.description.map(|text| words::text("description", &text)).transpose()?;
        if id == DEFAULT_DOMAIN && (changes.name.is_some() || changes.enabled == Some(false)) {
            return Err(of_default("rename or disable"));
        }
        let (id, until) = (id.to_owned(), self.last_expiry());
        self.revise(move |conn| {
            let changed = records::update(conn, &id, &changes)?;
            if changes.enabled == Some(false) {
                revocations::of_domain(conn, &id, until)?;
            }
            Ok(changed)
        })
        .await
    }

    /// Deletes a disabled domain with its users, groups and projects. Forbidden for an enabled domain and the default domain.
    pub async fn delete_domain(&self, id: &str) -> Result<(), ServiceError> {
        if id == DEFAULT_DOMAIN {
            return Err(of_default("delete"));
        }
        let id = id.to_owned();
        let deleted = self.write(move |conn| match records::find(conn, &id)?.enabled {
            true => Ok(false),
            false => records::delete(conn, &id).map(|()| true),
        });
        match deleted.await? {
            true => Ok(()),
            false => Err(ServiceError::Forbidden(
                "You are not authorized to perform the requested action: cannot delete a domain that is enabled, please disable it first."
                    .into(),
            )),
        }
    }

    /// True if the user or group, and the project or domain, are in this domain. False if one of them is unknown.
    pub async fn are_in_domain(&self, actor: &Actor, target: &Target, domain_id: &str) -> Result<bool, ServiceError> {
        let (actor, target, domain_id) = (actor.clone(), target.clone(), domain_id.to_owned());
        self.read(move |conn| {
            let actor = match &actor {
                Actor::User(id) => users::by_id(conn, id)?.map(|user| user.domain_id),
                Actor::Group(id) => groups::by_id(conn, id)?.map(|group| group.domain_id),
            };
            Ok(actor.as_ref() == Some(&domain_id) && domain_of(conn, &target)?.as_ref() == Some(&domain_id))
        })
        .await
    }
}

/// Returns the id of the domain of a project, or of the domain itself. None for the system and for what is unknown.
fn domain_of(conn: &mut Conn, target: &Target) -> Result<Option<String>, DbError> {
    Ok(match target {
        Target::Project(id) => projects::by_id(conn, id)?.map(|project| project.domain_id),
        Target::Domain(id) => records::by_id(conn, id)?.map(|domain| domain.id),
        Target::System => None,
    })
}

fn of_default(what: &str) -> ServiceError {
    ServiceError::Forbidden(reason!("You are not authorized to perform the requested action: {what} the default domain."))
}
