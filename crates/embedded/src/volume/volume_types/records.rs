//! The records of volume types.

use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::volume::schema::{volume_type_access, volume_types, volumes};

/// A type's row.
#[derive(Clone, PartialEq, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = volume_types)]
pub struct TypeRow {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    pub is_public: bool,
    /// A JSON object of strings.
    pub extra_specs: String,
    pub created_at: NaiveDateTime,
    /// The type's QoS specs.
    pub qos_specs_id: Option<String>,
}

/// Stores a new type. Conflict if the name is taken.
pub fn insert(conn: &mut Conn, new: &TypeRow) -> Result<(), DbError> {
    diesel::insert_into(volume_types::table).values(new).execute(conn)?;
    Ok(())
}

/// Returns all types, oldest first.
pub fn list(conn: &mut Conn) -> Result<Vec<TypeRow>, DbError> {
    let by_age = volume_types::table.order((volume_types::created_at, volume_types::name));
    Ok(by_age.select(TypeRow::as_select()).load(conn)?)
}

/// Returns the type with this id or name, if any. The id goes first.
pub fn by_id_or_name(conn: &mut Conn, text: &str) -> Result<Option<TypeRow>, DbError> {
    let by_id = volume_types::table.find(text).select(TypeRow::as_select()).first(conn).optional()?;
    match by_id {
        Some(row) => Ok(Some(row)),
        None => Ok(volume_types::table.filter(volume_types::name.eq(text)).select(TypeRow::as_select()).first(conn).optional()?),
    }
}

/// Replaces a type's fields. The volumes of a renamed type follow. Conflict if the name is taken.
pub fn update(conn: &mut Conn, old_name: &str, changed: &TypeRow) -> Result<(), DbError> {
    diesel::update(volume_types::table.find(&changed.id))
        .set((
            volume_types::name.eq(&changed.name),
            volume_types::description.eq(&changed.description),
            volume_types::is_public.eq(changed.is_public),
            volume_types::extra_specs.eq(&changed.extra_specs),
        ))
        .execute(conn)?;
    if old_name != changed.name {
        let of_type = volumes::table.filter(volumes::volume_type.eq(old_name));
        diesel::update(of_type).set(volumes::volume_type.eq(&changed.name)).execute(conn)?;
    }
    Ok(())
}

/// Locks the type's row for the rest of the transaction. False if there is none.
pub fn take(conn: &mut Conn, id: &str) -> Result<bool, DbError> {
    Ok(diesel::update(volume_types::table.find(id)).set(volume_types::id.eq(id)).execute(conn)? > 0)
}

/// Returns the number of volumes of a type.
pub fn used(conn: &mut Conn, name: &str) -> Result<i64, DbError> {
    Ok(volumes::table.filter(volumes::volume_type.eq(name)).count().get_result(conn)?)
}

/// Deletes a type, and the access to it.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(volume_type_access::table.filter(volume_type_access::type_id.eq(id))).execute(conn)?;
    diesel::delete(volume_types::table.find(id)).execute(conn)?;
    Ok(())
}

/// Returns the projects that may use a type.
pub fn projects(conn: &mut Conn, id: &str) -> Result<Vec<String>, DbError> {
    let of_type = volume_type_access::table.filter(volume_type_access::type_id.eq(id)).order(volume_type_access::project_id);
    Ok(of_type.select(volume_type_access::project_id).load(conn)?)
}

/// Returns the types that a project may use although they are not public.
pub fn of_project(conn: &mut Conn, project: &str) -> Result<Vec<String>, DbError> {
    let of_project = volume_type_access::table.filter(volume_type_access::project_id.eq(project));
    Ok(of_project.select(volume_type_access::type_id).load(conn)?)
}

/// Gives a project access. Conflict if it has it.
pub fn add_project(conn: &mut Conn, id: &str, project: &str) -> Result<(), DbError> {
    let access = (volume_type_access::type_id.eq(id), volume_type_access::project_id.eq(project));
    diesel::insert_into(volume_type_access::table).values(access).execute(conn)?;
    Ok(())
}

/// Takes a project's access away. False if it had none.
pub fn remove_project(conn: &mut Conn, id: &str, project: &str) -> Result<bool, DbError> {
    Ok(diesel::delete(volume_type_access::table.find((id, project))).execute(conn)? > 0)
}
