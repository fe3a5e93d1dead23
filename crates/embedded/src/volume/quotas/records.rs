//! The records of limits: of projects, and of the class that holds for projects without their own.

use cellshift_store::{Conn, DbError};
use diesel::prelude::*;

use crate::volume::schema::{volume_quota_classes, volume_quotas};

/// Returns the limits that are set for a project, by resource.
pub fn of_project(conn: &mut Conn, project_id: &str) -> Result<Vec<(String, i64)>, DbError> {
    let of_project = volume_quotas::table.filter(volume_quotas::project_id.eq(project_id)).order(volume_quotas::resource);
    Ok(of_project.select((volume_quotas::resource, volume_quotas::hard_limit)).load(conn)?)
}

/// Sets a project's limit; -1 means no limit.
pub fn set(conn: &mut Conn, project_id: &str, resource: &str, limit: i64) -> Result<(), DbError> {
    diesel::delete(volume_quotas::table.find((project_id, resource))).execute(conn)?;
    diesel::insert_into(volume_quotas::table)
        .values((volume_quotas::project_id.eq(project_id), volume_quotas::resource.eq(resource), volume_quotas::hard_limit.eq(limit)))
        .execute(conn)?;
    Ok(())
}

/// Removes all limits of a project.
pub fn delete(conn: &mut Conn, project_id: &str) -> Result<(), DbError> {
    diesel::delete(volume_quotas::table.filter(volume_quotas::project_id.eq(project_id))).execute(conn)?;
    Ok(())
}

/// Returns the limits of a class, by resource.
pub fn of_class(conn: &mut Conn, class: &str) -> Result<Vec<(String, i64)>, DbError> {
    let of_class = volume_quota_classes::table.filter(volume_quota_classes::class.eq(class)).order(volume_quota_classes::resource);
    Ok(of_class.select((volume_quota_classes::resource, volume_quota_classes::hard_limit)).load(conn)?)
}

/// Sets the limit of a class; -1 means no limit.
pub fn set_of_class(conn: &mut Conn, class: &str, resource: &str, limit: i64) -> Result<(), DbError> {
    diesel::delete(volume_quota_classes::table.find((class, resource))).execute(conn)?;
    let limit =
        (volume_quota_classes::class.eq(class), volume_quota_classes::resource.eq(resource), volume_quota_classes::hard_limit.eq(limit));
    diesel::insert_into(volume_quota_classes::table).values(limit).execute(conn)?;
    Ok(())
}

/// Gives all limits of a resource another name.
pub fn rename(conn: &mut Conn, resource: &str, new: &str) -> Result<(), DbError> {
    delete_resource(conn, new)?;
    let of_projects = volume_quotas::table.filter(volume_quotas::resource.eq(resource));
    diesel::update(of_projects).set(volume_quotas::resource.eq(new)).execute(conn)?;
    let of_classes = volume_quota_classes::table.filter(volume_quota_classes::resource.eq(resource));
    diesel::update(of_classes).set(volume_quota_classes::resource.eq(new)).execute(conn)?;
    Ok(())
}

/// Removes all limits of a resource.
pub fn delete_resource(conn: &mut Conn, resource: &str) -> Result<(), DbError> {
    diesel::delete(volume_quotas::table.filter(volume_quotas::resource.eq(resource))).execute(conn)?;
    diesel::delete(volume_quota_classes::table.filter(volume_quota_classes::resource.eq(resource))).execute(conn)?;
    Ok(())
}
