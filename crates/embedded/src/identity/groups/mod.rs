//! Groups of users, and the roles that their members have by them.

pub mod records;
pub mod routes;

use cellshift_store::{Conn, DbError};

use super::{EmbeddedIdentity, Group, GroupChanges, ServiceError, User, statements, words};
use crate::identity::tokens::revocations;
use crate::identity::users::records as users;

/// A group to make.
#[derive(Clone, Debug)]
pub struct NewGroup {
    pub domain_id: String,
    pub name: String,
    pub description: String,
}

statements::readers!(Group, group, groups);

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
            both_exist(conn, &group_id, &user_id)?;
            records::add_member(conn, &group_id, &user_id)
        })
        .await
    }

    /// NotFound if the group or the user is unknown.
    pub async fn is_member(&self, group_id: &str, user_id: &str) -> Result<bool, ServiceError> {
        let (group_id, user_id) = (group_id.to_owned(), user_id.to_owned());
        self.read(move |conn| {
            both_exist(conn, &group_id, &user_id)?;
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

/// NotFound if the group or the user is unknown.
fn both_exist(conn: &mut Conn, group_id: &str, user_id: &str) -> Result<(), DbError> {
    records::find(conn, group_id)?;
    users::find(conn, user_id).map(drop)
}
