//! The catalog as tokens show it.

use cellshift_web::error::ApiError;
use serde_json::{Value, json};

use crate::identity::routes::failed;
use crate::identity::{Catalog, CatalogService, EmbeddedIdentity, Endpoint};

/// Whose catalog it is.
pub(in crate::identity) struct Reader<'a> {
    pub(in crate::identity) user_id: &'a str,
    /// None if the token is not scoped to a project.
    pub(in crate::identity) project_id: Option<&'a str>,
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
fn filled(url: &str, reader: &Reader<'_>) -> Option<String> {
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

#[test]
fn an_endpoint_of_projects_is_shown_with_a_project_only() {
    let of = |project_id| Reader { user_id: "u", project_id };
    assert_eq!(filled("http://a/v1/$(project_id)s/%(user_id)s", &of(Some("p"))).as_deref(), Some("http://a/v1/p/u"));
    assert_eq!(filled("http://a/v1/AUTH_%(tenant_id)s", &of(Some("p"))).as_deref(), Some("http://a/v1/AUTH_p"));
    assert_eq!(filled("http://a/v1/$(project_id)s", &of(None)), None);
    assert_eq!(filled("http://a/v1", &of(None)).as_deref(), Some("http://a/v1"));
}
