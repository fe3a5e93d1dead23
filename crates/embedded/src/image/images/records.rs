//! The rows of images, and their statements.

use cellshift_env::guard::{Guard, stands};
use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::image::schema::{image_members, images};

/// An image's row.
#[derive(Clone, PartialEq, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = images)]
pub struct ImageRow {
    pub id: String,
    pub name: Option<String>,
    pub status: String,
    pub visibility: String,
    pub owner: String,
    pub disk_format: Option<String>,
    pub container_format: Option<String>,
    pub min_disk: i32,
    pub min_ram: i32,
    pub size: Option<i64>,
    pub os_hash_value: Option<String>,
    pub protected: bool,
    pub hidden: bool,
    /// A JSON object of strings.
    pub properties: String,
    /// A JSON array of strings.
    pub tags: String,
    pub created_at: NaiveDateTime,
    pub updated_at: NaiveDateTime,
}

/// Selects images. `None` does not filter.
#[derive(Clone, Default, Debug)]
pub struct ImageQuery {
    pub ids: Option<Vec<String>>,
    pub names: Option<Vec<String>>,
    pub statuses: Option<Vec<String>>,
    pub owner: Option<String>,
}

/// Stores a new image.
pub fn insert(conn: &mut Conn, image: &ImageRow) -> Result<(), DbError> {
    diesel::insert_into(images::table).values(image).execute(conn)?;
    Ok(())
}

/// Returns the image with this id, if any.
pub fn by_id(conn: &mut Conn, id: &str) -> Result<Option<ImageRow>, DbError> {
    Ok(images::table.find(id).select(ImageRow::as_select()).first(conn).optional()?)
}

/// Returns the selected images, newest first.
pub fn list(conn: &mut Conn, query: &ImageQuery) -> Result<Vec<ImageRow>, DbError> {
    let mut statement = images::table.select(ImageRow::as_select()).into_boxed();
    if let Some(ids) = &query.ids {
        statement = statement.filter(images::id.eq_any(ids));
    }
    if let Some(names) = &query.names {
        statement = statement.filter(images::name.eq_any(names));
    }
    if let Some(statuses) = &query.statuses {
        statement = statement.filter(images::status.eq_any(statuses));
    }
    if let Some(owner) = &query.owner {
        statement = statement.filter(images::owner.eq(owner));
    }
    Ok(statement.order((images::created_at.desc(), images::id.desc())).load(conn)?)
}

/// Replaces the fields that a user may change. Status, size and hash belong to the upload and stay.
pub fn update(conn: &mut Conn, image: &ImageRow) -> Result<(), DbError> {
    let changed = diesel::update(images::table.find(&image.id))
        .set((
            images::name.eq(&image.name),
            images::visibility.eq(&image.visibility),
            images::owner.eq(&image.owner),
            images::disk_format.eq(&image.disk_format),
            images::container_format.eq(&image.container_format),
            images::min_disk.eq(image.min_disk),
            images::min_ram.eq(image.min_ram),
            images::protected.eq(image.protected),
            images::hidden.eq(image.hidden),
            images::properties.eq(&image.properties),
            images::tags.eq(&image.tags),
            images::updated_at.eq(image.updated_at),
        ))
        .execute(conn)?;
    if changed == 0 { Err(DbError::NotFound(image.id.clone())) } else { Ok(()) }
}

/// Moves an image without bytes from one of the statuses `from` to `to`. False if its status is not in `from`.
pub fn set_status(conn: &mut Conn, id: &str, from: &[&str], to: &str, now: NaiveDateTime) -> Result<bool, DbError> {
    let changed = diesel::update(images::table.find(id).filter(images::status.eq_any(from.to_vec())))
        .set((images::status.eq(to), images::updated_at.eq(now)))
        .execute(conn)?;
    Ok(changed > 0)
}

/// Gives an image the status `to`, `active` or `uploading` (staged), and its bytes' size and hash. False if it has bytes already or is gone.
pub fn receive(conn: &mut Conn, id: &str, to: &str, size: i64, hash: &str, now: NaiveDateTime) -> Result<bool, DbError> {
    let status: Option<String> = images::table.find(id).select(images::status).first(conn).optional()?;
    let with_place = ["queued", "saving", "active"];
    let Some(status) = status.filter(|status| with_place.contains(&status.as_str())) else { return Ok(false) };
    if stands(Guard::ImageOnce) && status == "active" {
        return Ok(false);
    }
    // On PostgreSQL another upload may have ended since the status was read.
    let changed = diesel::update(images::table.find(id).filter(images::status.eq(status)))
        .set((images::status.eq(to), images::size.eq(size), images::os_hash_value.eq(hash), images::updated_at.eq(now)))
        .execute(conn)?;
    Ok(changed > 0)
}

/// Deletes an image and its members. False if there is none.
pub fn delete(conn: &mut Conn, id: &str) -> Result<bool, DbError> {
    diesel::delete(image_members::table.filter(image_members::image_id.eq(id))).execute(conn)?;
    Ok(diesel::delete(images::table.find(id)).execute(conn)? > 0)
}
