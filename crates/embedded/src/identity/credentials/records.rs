//! Users' credentials for other programs, with sealed contents.

use cellshift_domain::reason;
use cellshift_store::{Conn, DbError};
use diesel::prelude::*;

use crate::identity::schema::credentials;
use crate::identity::{statements, storable};

/// A credential with its contents sealed.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = credentials, treat_none_as_null = true)]
pub struct CredentialRow {
    pub id: String,
    pub user_id: String,
    pub project_id: Option<String>,
    #[diesel(column_name = type_)]
    pub kind: String,
    pub sealed_blob: String,
}

statements::find!(credentials, CredentialRow, "credential");

/// Stores a new credential. Conflict if the id is taken.
pub fn insert(conn: &mut Conn, row: &CredentialRow) -> Result<(), DbError> {
    if by_id(conn, &row.id)?.is_some() {
        let why = "Conflict occurred attempting to store credential - Duplicate entry found";
        return Err(DbError::Conflict(reason!("{why} with ID {}.", row.id)));
    }
    diesel::insert_into(credentials::table).values(row).execute(conn)?;
    Ok(())
}

/// Returns all credentials, or those of a user or of a type, ordered by id.
pub fn list(conn: &mut Conn, user_id: Option<&str>, kind: Option<&str>) -> Result<Vec<CredentialRow>, DbError> {
    if [user_id, kind].into_iter().flatten().any(|text| !storable(text)) {
        return Ok(Vec::new());
    }
    let mut query = credentials::table.select(CredentialRow::as_select()).order(credentials::id).into_boxed();
    if let Some(user_id) = user_id {
        query = query.filter(credentials::user_id.eq(user_id));
    }
    if let Some(kind) = kind {
        query = query.filter(credentials::type_.eq(kind));
    }
    Ok(query.load(conn)?)
}

/// Returns the number of a user's credentials.
pub fn count(conn: &mut Conn, user_id: &str) -> Result<i64, DbError> {
    Ok(credentials::table.filter(credentials::user_id.eq(user_id)).count().get_result(conn)?)
}

/// True if there is any credential.
pub fn any(conn: &mut Conn) -> Result<bool, DbError> {
    Ok(credentials::table.select(credentials::id).first::<String>(conn).optional()?.is_some())
}

/// Stores the changed fields of the credential with the row's id.
pub fn update(conn: &mut Conn, row: &CredentialRow) -> Result<(), DbError> {
    diesel::update(credentials::table.find(&row.id)).set(row).execute(conn)?;
    Ok(())
}

/// Deletes a credential. NotFound if there is none with this id.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    find(conn, id)?;
    diesel::delete(credentials::table.find(id)).execute(conn)?;
    Ok(())
}

statements::delete_with_owners!(credentials);
