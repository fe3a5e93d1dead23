//! The catalog as tokens show it.

use cellshift_web::error::ApiError;
use serde_json::{Value, json};

use crate::identity::routes::failed;
use crate::identity::{Catalog, CatalogService, EmbeddedIdentity, Endpoint};

/// Whose catalog it is.
pub struct Reader<'a> {
    /// The id of the user whose token it is.
    pub user_id: &'a str,
    /// None if the token is not scoped to a project.
    pub project_id: Option<&'a str>,
}

/// Returns the catalog of the services and endpoints that are enabled.
pub(in crate::identity) async fn of(identity: &EmbeddedIdentity, base: &str, reader: &Reader<'_>) -> Result<Vec<Value>, ApiError> {
    let Catalog { services, endpoints, .. } = identity.catalog(base).await.map_err(failed)?;
    let render_service = |service: &CatalogService| {
        let own = endpoints.iter().filter(|endpoint| endpoint.enabled && endpoint.service_id == service.id);
        let own: Vec<Value> = own.filter_map(|endpoint| render_endpoint(endpoint, reader)).collect();
        json!({"id": service.id, "type": service.service_type, "name": service.name, "endpoints": own})
    };
    Ok(services.iter().filter(|service| service.enabled).map(render_service).collect())
}

fn render_endpoint(endpoint: &Endpoint, reader: &Reader<'_>) -> Option<Value> {
    let url = filled(&endpoint.url, reader)?;
    let region = &endpoint.region_id;
    Some(json!({"id": endpoint.id, "interface": endpoint.interface, "region": region, "region_id": region, "url": url}))
}

/// Fills in `$(project_id)s` and its like. None if the URL names a project and there is none.
pub fn filled(url: &str, reader: &Reader<'_>) -> Option<String> {
    let mut url = url.to_owned();
    for sign in ["$", "%"] {
        for name in ["project_id", "tenant_id"] {
            let place = format!("{sign}({name})s");
            if url.contains(&place) {
                url = url.replace(&place, reader.project_id?);
            }
        }
        url = url.replace(&format!("{sign}(user_id)s"), reader.user_id);
    }
    Some(url)
}
