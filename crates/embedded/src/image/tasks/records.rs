//! The tasks of the image service: the imports of the last days.

use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::image::schema::image_tasks;

/// The maximum number of an image's tasks that are kept.
const MAX_PER_IMAGE: i64 = 20;

/// An import that has succeeded.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = image_tasks)]
pub struct ImageTask {
    pub id: String,
    pub image_id: String,
    /// The project of the user who asked for it.
    pub owner: String,
    pub user_id: String,
    pub request_id: String,
    /// The method of the import.
    pub method: String,
    pub created_at: NaiveDateTime,
    pub expires_at: NaiveDateTime,
}

/// Stores a task. Removes expired ones, and the image's oldest beyond twenty.
pub fn insert(conn: &mut Conn, task: &ImageTask) -> Result<(), DbError> {
    diesel::delete(image_tasks::table.filter(image_tasks::expires_at.le(task.created_at))).execute(conn)?;
    let surplus: Vec<String> = newest_first(conn, &task.image_id)?.into_iter().skip(MAX_PER_IMAGE as usize - 1).map(|old| old.id).collect();
    diesel::delete(image_tasks::table.filter(image_tasks::id.eq_any(surplus))).execute(conn)?;
    diesel::insert_into(image_tasks::table).values(task).execute(conn)?;
    Ok(())
}

fn newest_first(conn: &mut Conn, image_id: &str) -> Result<Vec<ImageTask>, DbError> {
    let of_image = image_tasks::table.filter(image_tasks::image_id.eq(image_id));
    let newest = of_image.order((image_tasks::created_at.desc(), image_tasks::id.desc()));
    Ok(newest.select(ImageTask::as_select()).load(conn)?)
}

/// Returns the image's tasks that have not expired, newest first.
pub fn of_image(conn: &mut Conn, image_id: &str, now: NaiveDateTime) -> Result<Vec<ImageTask>, DbError> {
    Ok(newest_first(conn, image_id)?.into_iter().filter(|task| task.expires_at > now).collect())
}

/// Returns the task with this id, if it has not expired.
pub fn find(conn: &mut Conn, id: &str, now: NaiveDateTime) -> Result<Option<ImageTask>, DbError> {
    let task = image_tasks::table.find(id).select(ImageTask::as_select()).first(conn).optional()?;
    Ok(task.filter(|task| task.expires_at > now))
}

/// Returns a page of all tasks that have not expired, newest first, after the one with the id `marker`.
pub fn page(conn: &mut Conn, marker: Option<&ImageTask>, limit: i64, now: NaiveDateTime) -> Result<Vec<ImageTask>, DbError> {
    let mut query = image_tasks::table.filter(image_tasks::expires_at.gt(now)).select(ImageTask::as_select()).into_boxed();
    if let Some(marker) = marker {
        let (at, id) = (marker.created_at, &marker.id);
        query = query.filter(image_tasks::created_at.lt(at).or(image_tasks::created_at.eq(at).and(image_tasks::id.lt(id))));
    }
    Ok(query.order((image_tasks::created_at.desc(), image_tasks::id.desc())).limit(limit).load(conn)?)
}
