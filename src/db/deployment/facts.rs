//! The ids by which unmarked databases recognise each other. Reads only tables that exist since the first release, in any release's form.
//! Changes nothing. Blocking.

use std::collections::BTreeSet;

use diesel::prelude::*;

use uuid::Uuid;

use crate::db::{DbError, connection};

/// The table in which diesel records migrations.
const MIGRATIONS: &str = "__diesel_schema_migrations";

diesel::table! {
    cell_mappings (uuid) {
        uuid -> Text,
        name -> Text,
        database_url -> Text,
    }
}

diesel::table! {
    instance_mappings (instance_uuid) {
        instance_uuid -> Text,
        cell_uuid -> Nullable<Text>,
        project_id -> Text,
    }
}

diesel::table! {
    projects (id) {
        id -> Text,
    }
}

diesel::table! {
    images (id) {
        id -> Text,
        status -> Text,
    }
}

diesel::table! {
    volumes (id) {
        id -> Text,
        status -> Text,
    }
}

diesel::table! {
    resource_providers (uuid) {
        uuid -> Text,
    }
}

diesel::table! {
    instances (uuid) {
        uuid -> Text,
    }
}

diesel::table! {
    compute_nodes (uuid) {
        uuid -> Text,
    }
}

/// A set of ids.
pub type Ids = BTreeSet<String>;

/// A cell as the API database maps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MappedCell {
    pub uuid: Uuid,
    pub name: String,
    pub url: String,
}

/// The ids in an API database.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ApiFacts {
    pub cells: Vec<MappedCell>,
    /// Servers, each with the cell of its mapping.
    pub servers: Vec<(String, Option<String>)>,
    /// Projects that have servers.
    pub projects: Ids,
}

/// The ids in a services database.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServicesFacts {
    pub projects: Ids,
    /// Images and volumes whose bytes are stored in files.
    pub with_bytes: Ids,
    pub providers: Ids,
}

/// Returns the cells that an API database maps.
pub fn cells(url: &str) -> Result<Vec<MappedCell>, DbError> {
    let mut conn = connection::open_to_look(url)?;
    if !connection::tables(&mut conn)?.contains("cell_mappings") {
        return Ok(Vec::new());
    }
    let rows: Vec<(String, String, String)> = cell_mappings::table.load(&mut conn)?;
    rows.into_iter().map(mapped_cell).collect()
}

/// Adds the servers that an API database maps.
pub fn read_servers(url: &str, facts: &mut ApiFacts) -> Result<(), DbError> {
    let mut conn = connection::open_to_look(url)?;
    if connection::tables(&mut conn)?.contains("instance_mappings") {
        let rows: Vec<(String, Option<String>, String)> = instance_mappings::table.load(&mut conn)?;
        facts.projects = rows.iter().map(|(_, _, project)| project.clone()).collect();
        facts.servers = rows.into_iter().map(|(server, cell, _)| (server, cell)).collect();
    }
    Ok(())
}

/// Reads the ids in a services database.
pub fn of_services(url: &str) -> Result<ServicesFacts, DbError> {
    let mut conn = connection::open_to_look(url)?;
    let tables = connection::tables(&mut conn)?;
    let mut facts = ServicesFacts::default();
    if tables.contains("projects") {
        facts.projects = projects::table.select(projects::id).load::<String>(&mut conn)?.into_iter().collect();
    }
    if tables.contains("images") {
        facts.with_bytes.extend(with_status(images::table.load(&mut conn)?, |status| status == "active"));
    }
    if tables.contains("volumes") {
        let has_bytes = |status: &str| !["creating", "error", "deleting"].contains(&status);
        facts.with_bytes.extend(with_status(volumes::table.load(&mut conn)?, has_bytes));
    }
    if tables.contains("resource_providers") {
        facts.providers = resource_providers::table.select(resource_providers::uuid).load::<String>(&mut conn)?.into_iter().collect();
    }
    Ok(facts)
}

/// Reads the ids of servers and compute nodes in a cell's database.
pub fn of_cell(url: &str) -> Result<Ids, DbError> {
    let mut conn = connection::open_to_look(url)?;
    let tables = connection::tables(&mut conn)?;
    let mut ids = Ids::new();
    if tables.contains("instances") {
        ids.extend(instances::table.select(instances::uuid).load::<String>(&mut conn)?);
    }
    if tables.contains("compute_nodes") {
        ids.extend(compute_nodes::table.select(compute_nodes::uuid).load::<String>(&mut conn)?);
    }
    Ok(ids)
}

/// True if a table has a row. Those that record the migrations do not count.
pub fn has_rows(url: &str) -> Result<bool, DbError> {
    let mut conn = connection::open_to_look(url)?;
    let tables = connection::tables(&mut conn)?;
    let looks: Vec<String> =
        tables.iter().filter(|table| *table != MIGRATIONS).map(|table| format!("EXISTS (SELECT 1 FROM \"{table}\")")).collect();
    if looks.is_empty() {
        return Ok(false);
    }
    Ok(diesel::select(diesel::dsl::sql::<diesel::sql_types::Bool>(&looks.join(" OR "))).first(&mut conn)?)
}

fn mapped_cell((uuid, name, url): (String, String, String)) -> Result<MappedCell, DbError> {
    let uuid = Uuid::parse_str(&uuid).map_err(|_| DbError::unreadable("cell_mappings.uuid", &uuid))?;
    Ok(MappedCell { uuid, name, url })
}

fn with_status(rows: Vec<(String, String)>, has_status: impl Fn(&str) -> bool) -> impl Iterator<Item = String> {
    rows.into_iter().filter(move |(_, status)| has_status(status)).map(|(id, _)| id)
}
