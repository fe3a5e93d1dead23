//! The projects with which images are shared.

use cellshift_domain::reason;
use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::image::schema::image_members;

/// A project with which an image is shared.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = image_members)]
pub struct ImageMember {
    pub image_id: String,
    pub member_id: String,
    /// `pending`, `accepted` or `rejected`.
    pub status: String,
    pub created_at: NaiveDateTime,
    pub updated_at: NaiveDateTime,
}

/// Returns the members of an image, ordered by id.
pub fn members(conn: &mut Conn, image_id: &str) -> Result<Vec<ImageMember>, DbError> {
    let of_image = image_members::table.filter(image_members::image_id.eq(image_id));
    Ok(of_image.order(image_members::member_id).select(ImageMember::as_select()).load(conn)?)
}

/// Returns all members of all images, ordered by image and member.
pub fn all_members(conn: &mut Conn) -> Result<Vec<ImageMember>, DbError> {
    let all = image_members::table.order((image_members::image_id, image_members::member_id));
    Ok(all.select(ImageMember::as_select()).load(conn)?)
}

/// Shares an image with a project. Conflict if it is shared already.
pub fn add_member(conn: &mut Conn, member: &ImageMember) -> Result<(), DbError> {
    let others = members(conn, &member.image_id)?;
    if others.iter().any(|m| m.member_id == member.member_id) {
        return Err(DbError::Conflict(reason!("Project {} is a member of image {} already.", member.member_id, member.image_id)));
    }
    diesel::insert_into(image_members::table).values(member).execute(conn)?;
    Ok(())
}

/// Sets whether the member accepts the image.
pub fn set_member_status(conn: &mut Conn, image_id: &str, member_id: &str, status: &str, now: NaiveDateTime) -> Result<(), DbError> {
    let changed = diesel::update(image_members::table.find((image_id, member_id)))
        .set((image_members::status.eq(status), image_members::updated_at.eq(now)))
        .execute(conn)?;
    expect_row(changed, member_id)
}

/// Ends sharing with a project. NotFound if it is not shared.
pub fn remove_member(conn: &mut Conn, image_id: &str, member_id: &str) -> Result<(), DbError> {
    expect_row(diesel::delete(image_members::table.find((image_id, member_id))).execute(conn)?, member_id)
}

fn expect_row(changed: usize, id: &str) -> Result<(), DbError> {
    if changed == 0 { Err(DbError::NotFound(id.to_owned())) } else { Ok(()) }
}
