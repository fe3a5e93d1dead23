//! The catalog's regions: the one that is built in, and those that administrators add.

pub mod records;
pub mod routes;

use cellshift_domain::reason;
use cellshift_store::Conn;
use schemars::JsonSchema;
use serde::Deserialize;

use super::catalog::{Outcome, REGION, SERVICES_MAX, missing, refuse_built_in, too_many};
use super::{Catalog, EmbeddedIdentity, Region, ServiceError, words};
use crate::request_bodies::nullable;

/// The fields of a new region, or those that change. The id of a region stays.
#[derive(Clone, Default, Debug, Deserialize, JsonSchema)]
pub struct Fields {
    pub id: Option<String>,
    pub description: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub parent_region_id: Option<Option<String>>,
}

impl EmbeddedIdentity {
    /// Makes a region, with a random id if none is given. Conflict if the id is taken.
    pub async fn create_region(&self, fields: Fields) -> Result<Region, ServiceError> {
        let region = Region {
            id: words::name("region", &fields.id.unwrap_or_else(|| self.new_id()))?,
            description: words::text("description", fields.description.as_deref().unwrap_or_default())?,
            parent_region_id: fields.parent_region_id.flatten(),
        };
        self.change(move |conn, catalog| {
            if region.id == REGION || catalog.regions.iter().any(|other| other.id == region.id) {
                let id = &region.id;
                return Ok(Err(ServiceError::Conflict(reason!("Conflict occurred attempting to store region: Duplicate ID, {id}."))));
            }
            if catalog.regions.len() >= SERVICES_MAX {
                return Ok(Err(too_many("regions", SERVICES_MAX)));
            }
            store(conn, &catalog, region)
        })
        .await
    }

    /// Changes a region. Forbidden for the one that is built in.
    pub async fn update_region(&self, id: &str, fields: Fields) -> Result<Region, ServiceError> {
        refuse_built_in_region(id)?;
        let description = fields.description.map(|text| words::text("description", &text)).transpose()?;
        let id = id.to_owned();
        self.change(move |conn, catalog| {
            let Some(mut region) = catalog.regions.iter().find(|region| region.id == id).cloned() else {
                return Ok(Err(missing("region", &id)));
            };
            region.description = description.unwrap_or(region.description);
            region.parent_region_id = fields.parent_region_id.unwrap_or(region.parent_region_id);
            store(conn, &catalog, region)
        })
        .await
    }

    /// Deletes a region and those below it. Forbidden for the one that is built in, and while endpoints are in one of them.
    pub async fn delete_region(&self, id: &str) -> Result<(), ServiceError> {
        refuse_built_in_region(id)?;
        let id = id.to_owned();
        self.change(move |conn, catalog| {
            if !catalog.regions.iter().any(|region| region.id == id) {
                return Ok(Err(missing("region", &id)));
            }
            let gone = with_those_below(&catalog.regions, &id);
            if catalog.endpoints.iter().any(|endpoint| endpoint.region_id.as_ref().is_some_and(|region| gone.contains(region))) {
                return Ok(Err(ServiceError::Forbidden(reason!(
                    "Unable to delete region {id} because it or its child regions have associated endpoints."
                ))));
            }
            records::delete(conn, &gone).map(Ok)
        })
        .await
    }
}

fn store(conn: &mut Conn, catalog: &Catalog, region: Region) -> Outcome<Region> {
    if let Some(parent) = &region.parent_region_id {
        if !has_region(catalog, parent) {
            return Ok(Err(missing("region", parent)));
        }
        if *parent == region.id || with_those_below(&catalog.regions, &region.id).contains(parent) {
            return Ok(Err(words::invalid("parent_region_id", "a region cannot be below itself")));
        }
    }
    records::save(conn, &region).map(|()| Ok(region))
}

pub(super) fn has_region(catalog: &Catalog, id: &str) -> bool {
    id == REGION || catalog.regions.iter().any(|region| region.id == id)
}

/// Returns the ids of a region and of all regions below it.
fn with_those_below(regions: &[Region], id: &str) -> Vec<String> {
    let mut ids = vec![id.to_owned()];
    let mut next = 0;
    while next < ids.len() {
        let below = regions.iter().filter(|region| region.parent_region_id.as_ref() == Some(&ids[next])).map(|region| region.id.clone());
        let new: Vec<String> = below.filter(|id| !ids.contains(id)).collect();
        ids.extend(new);
        next += 1;
    }
    ids
}

fn refuse_built_in_region(id: &str) -> Result<(), ServiceError> {
    refuse_built_in("region", id, id == REGION)
}
