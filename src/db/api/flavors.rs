//! Flavors, and the projects that may use private flavors.

use chrono::{DateTime, Utc};
use diesel::prelude::*;

use super::ApiDb;
use super::schema::{flavor_projects as access, flavors};
use crate::db::columns::{Sql, StringMap};
use crate::db::{Conn, DbError};
use crate::domain::flavor::{Flavor, FlavorRecord, FlavorScope};
use crate::domain::reason;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = flavors)]
struct FlavorRow {
    #[diesel(skip_insertion)]
    id: i32,
    #[diesel(serialize_as = Sql<DateTime<Utc>>)]
    created_at: DateTime<Utc>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    updated_at: Option<DateTime<Utc>>,
    flavorid: String,
    name: String,
    vcpus: i32,
    memory_mb: i32,
    root_gb: i32,
    ephemeral_gb: i32,
    swap_mb: i32,
    rxtx_factor: f64,
    #[diesel(serialize_as = Sql<StringMap>)]
    extra_specs: StringMap,
    is_public: bool,
    disabled: bool,
    description: Option<String>,
}

impl From<FlavorRow> for FlavorRecord {
    fn from(row: FlavorRow) -> FlavorRecord {
        FlavorRecord {
            id: row.id,
            created_at: row.created_at,
            updated_at: row.updated_at,
            rxtx_factor: row.rxtx_factor,
            flavor: Flavor {
                id: row.flavorid,
                name: row.name,
                vcpus: row.vcpus,
                memory_mb: row.memory_mb,
                root_gb: row.root_gb,
                ephemeral_gb: row.ephemeral_gb,
                swap_mb: row.swap_mb,
                extra_specs: row.extra_specs,
                is_public: row.is_public,
                disabled: row.disabled,
                description: row.description,
            },
        }
    }
}

impl ApiDb {
    /// Creates a flavor. Conflict if its id or name is taken.
    pub async fn create_flavor(&self, flavor: Flavor) -> Result<FlavorRecord, DbError> {
        self.create_flavor_with_factor(flavor, 1.0).await
    }

    /// Creates a flavor with an `rxtx_factor` from the client.
    pub async fn create_flavor_with_factor(&self, flavor: Flavor, rxtx_factor: f64) -> Result<FlavorRecord, DbError> {
        let now = self.db.env().now();
        self.db
            .write(move |conn| {
                let present: Option<String> = flavors::table
                    .filter(flavors::flavorid.eq(&flavor.id).or(flavors::name.eq(&flavor.name)))
                    .select(flavors::flavorid)
                    .first(conn)
                    .optional()?;
                match present {
                    Some(id) if id == flavor.id => return Err(DbError::Conflict(reason!("Flavor with ID {id} already exists."))),
                    Some(_) => return Err(DbError::Conflict(reason!("Flavor with name {} already exists.", flavor.name))),
                    None => {}
                }
                let flavorid = flavor.id.clone();
                diesel::insert_into(flavors::table).values(row_of(flavor, rxtx_factor, now)).execute(conn)?;
                get(conn, &flavorid)
            })
            .await
    }

    /// Returns the flavors of a scope, ordered by id.
    pub async fn flavors(&self, scope: FlavorScope) -> Result<Vec<FlavorRecord>, DbError> {
        self.db
            .read(move |conn| {
                let mut query = flavors::table.into_boxed();
                query = match scope {
                    FlavorScope::All => query,
                    FlavorScope::Public => query.filter(flavors::is_public.eq(true)),
                    FlavorScope::Private => query.filter(flavors::is_public.eq(false)),
                    FlavorScope::OfProject(project) => {
                        let grants = access::table.filter(access::project_id.eq(project)).select(access::flavor_id);
                        query.filter(flavors::is_public.eq(true).or(flavors::id.eq_any(grants)))
                    }
                };
                let rows: Vec<FlavorRow> = query.order(flavors::id).select(FlavorRow::as_select()).load(conn)?;
                Ok(rows.into_iter().map(FlavorRecord::from).collect())
            })
            .await
    }

    /// Returns the flavor with this public id.
    pub async fn flavor(&self, flavorid: &str) -> Result<FlavorRecord, DbError> {
        let id = flavorid.to_owned();
        self.db.read(move |conn| get(conn, &id)).await
    }

    /// True if the project may use the flavor.
    pub async fn may_use_flavor(&self, flavorid: &str, project_id: &str) -> Result<bool, DbError> {
        let (id, project) = (flavorid.to_owned(), project_id.to_owned());
        self.db
            .read(move |conn| {
                let record = get(conn, &id)?;
                let grants: i64 = access::table.find((record.id, project)).count().get_result(conn)?;
                Ok(record.flavor.is_public || grants > 0)
            })
            .await
    }

    /// Changes the description.
    pub async fn set_flavor_description(&self, flavorid: &str, description: Option<String>) -> Result<FlavorRecord, DbError> {
        let (id, now) = (flavorid.to_owned(), self.db.env().now());
        self.db
            .write(move |conn| {
                let set = (flavors::description.eq(description), flavors::updated_at.eq(Sql(Some(now))));
                diesel::update(flavors::table.filter(flavors::flavorid.eq(&id))).set(set).execute(conn)?;
                get(conn, &id)
            })
            .await
    }

    /// Changes the extra specs with `edit`, and stores its result.
    pub async fn edit_extra_specs<F>(&self, flavorid: &str, edit: F) -> Result<StringMap, DbError>
    where
        F: FnOnce(StringMap) -> Result<StringMap, DbError> + Send + 'static,
    {
        let (id, now) = (flavorid.to_owned(), self.db.env().now());
        self.db
            .write(move |conn| {
                // Locks the row on PostgreSQL, so that two edits follow each other and none is lost.
                let flavor = flavors::table.filter(flavors::flavorid.eq(&id));
                diesel::update(flavor).set(flavors::updated_at.eq(flavors::updated_at)).execute(conn)?;
                let record = get(conn, &id)?;
                let specs = edit(record.flavor.extra_specs)?;
                let set = (flavors::extra_specs.eq(Sql(specs.clone())), flavors::updated_at.eq(Sql(Some(now))));
                diesel::update(flavors::table.find(record.id)).set(set).execute(conn)?;
                Ok(specs)
            })
            .await
    }

    /// Removes a flavor. Servers keep their own copies.
    pub async fn delete_flavor(&self, flavorid: &str) -> Result<(), DbError> {
        let id = flavorid.to_owned();
        self.db
            .write(move |conn| match diesel::delete(flavors::table.filter(flavors::flavorid.eq(&id))).execute(conn)? {
                0 => Err(not_found(&id)),
                _ => Ok(()),
            })
            .await
    }

    /// Returns the projects that may use the private flavor, sorted.
    pub async fn flavor_access(&self, flavorid: &str) -> Result<Vec<String>, DbError> {
        let id = flavorid.to_owned();
        self.db
            .read(move |conn| {
                let record = get(conn, &id)?;
                Ok(access::table.filter(access::flavor_id.eq(record.id)).order(access::project_id).select(access::project_id).load(conn)?)
            })
            .await
    }

    /// Lets a project use a private flavor. Conflict if it may already, or if the flavor is public.
    pub async fn add_flavor_access(&self, flavorid: &str, project_id: &str) -> Result<(), DbError> {
        let (id, project) = (flavorid.to_owned(), project_id.to_owned());
        self.db
            .write(move |conn| {
                let record = get(conn, &id)?;
                if record.flavor.is_public {
                    return Err(DbError::Conflict("Can not add access to a public flavor.".into()));
                }
                let grants: i64 = access::table.find((record.id, &project)).count().get_result(conn)?;
                if grants > 0 {
                    return Err(DbError::Conflict(reason!(
                        "Flavor access already exists for flavor {id} and project {project} combination."
                    )));
                }
                let row = (access::flavor_id.eq(record.id), access::project_id.eq(project));
                diesel::insert_into(access::table).values(row).execute(conn)?;
                Ok(())
            })
            .await
    }

    /// Takes the right to use a flavor from a project. [`DbError::NotFound`] if the project does not have it.
    pub async fn remove_flavor_access(&self, flavorid: &str, project_id: &str) -> Result<(), DbError> {
        let (id, project) = (flavorid.to_owned(), project_id.to_owned());
        self.db
            .write(move |conn| {
                let record = get(conn, &id)?;
                match diesel::delete(access::table.find((record.id, &project))).execute(conn)? {
                    0 => Err(DbError::NotFound(format!("Flavor access for {id} / {project} combination"))),
                    _ => Ok(()),
                }
            })
            .await
    }
}

fn row_of(flavor: Flavor, rxtx_factor: f64, now: DateTime<Utc>) -> FlavorRow {
    FlavorRow {
        id: 0,
        created_at: now,
        updated_at: None,
        flavorid: flavor.id,
        name: flavor.name,
        vcpus: flavor.vcpus,
        memory_mb: flavor.memory_mb,
        root_gb: flavor.root_gb,
        ephemeral_gb: flavor.ephemeral_gb,
        swap_mb: flavor.swap_mb,
        rxtx_factor,
        extra_specs: flavor.extra_specs,
        is_public: flavor.is_public,
        disabled: flavor.disabled,
        description: flavor.description,
    }
}

fn get(conn: &mut Conn, flavorid: &str) -> Result<FlavorRecord, DbError> {
    let row = flavors::table.filter(flavors::flavorid.eq(flavorid)).select(FlavorRow::as_select()).first(conn).optional()?;
    row.map(FlavorRecord::from).ok_or_else(|| not_found(flavorid))
}

fn not_found(flavorid: &str) -> DbError {
    DbError::NotFound(format!("Flavor {flavorid}"))
}
