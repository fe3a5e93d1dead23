//! The schemas of the identity API's answers, which has no microversions.

use serde_json::{Value, json};

use super::Route;
use super::parts::{account, always_null, boolean, list, micros, moment, nothing, object, one_of, only, or_null, perhaps, plus, text, url};

/// The tables, each with the root of its routes.
pub static TABLES: [(&str, &[Route]); 2] = [("/identity", ROOTS), ("/identity/v3", ROUTES)];

static ROOTS: &[Route] = &[("GET", "", &[0], |_| only("versions", only("values", list(version()))))];

static ROUTES: &[Route] = &[
    ("GET", "", &[0], |_| only("version", version())),
    ("POST", "/auth/tokens", &[0], |_| only("token", token())),
    ("GET", "/auth/tokens", &[0], |_| only("token", token())),
    ("DELETE", "/auth/tokens", &[0], nothing),
    ("GET", "/auth/catalog", &[0], |_| collection("catalog", catalog_service())),
    ("GET", "/auth/projects", &[0], |_| collection("projects", project())),
    ("GET", "/auth/domains", &[0], |_| collection("domains", domain())),
    ("GET", "/auth/system", &[0], |_| collection("system", everything())),
    ("GET", "/users", &[0], |_| collection("users", user())),
    ("POST", "/users", &[0], |_| only("user", user())),
    ("GET", "/users/{}", &[0], |_| only("user", user())),
    ("PATCH", "/users/{}", &[0], |_| only("user", user())),
    ("DELETE", "/users/{}", &[0], nothing),
    ("POST", "/users/{}/password", &[0], nothing),
    ("GET", "/users/{}/projects", &[0], |_| collection("projects", project())),
    ("GET", "/users/{}/groups", &[0], |_| collection("groups", group())),
    ("GET", "/users/{}/application_credentials", &[0], |_| collection("application_credentials", application_credential())),
    ("POST", "/users/{}/application_credentials", &[0], |_| only("application_credential", with_secret())),
    ("GET", "/users/{}/application_credentials/{}", &[0], |_| only("application_credential", application_credential())),
    ("DELETE", "/users/{}/application_credentials/{}", &[0], nothing),
    ("GET", "/users/{}/credentials/OS-EC2", &[0], |_| collection("credentials", access_key())),
    ("POST", "/users/{}/credentials/OS-EC2", &[0], |_| only("credential", access_key())),
    ("GET", "/users/{}/credentials/OS-EC2/{}", &[0], |_| only("credential", access_key())),
    ("DELETE", "/users/{}/credentials/OS-EC2/{}", &[0], nothing),
    ("GET", "/credentials", &[0], |_| collection("credentials", credential())),
    ("POST", "/credentials", &[0], |_| only("credential", credential())),
    ("GET", "/credentials/{}", &[0], |_| only("credential", credential())),
    ("PATCH", "/credentials/{}", &[0], |_| only("credential", credential())),
    ("DELETE", "/credentials/{}", &[0], nothing),
    ("GET", "/groups", &[0], |_| collection("groups", group())),
    ("POST", "/groups", &[0], |_| only("group", group())),
    ("GET", "/groups/{}", &[0], |_| only("group", group())),
    ("PATCH", "/groups/{}", &[0], |_| only("group", group())),
    ("DELETE", "/groups/{}", &[0], nothing),
    ("GET", "/groups/{}/users", &[0], |_| collection("users", user())),
    ("PUT", "/groups/{}/users/{}", &[0], nothing),
    ("GET", "/groups/{}/users/{}", &[0], nothing),
    ("DELETE", "/groups/{}/users/{}", &[0], nothing),
    ("GET", "/projects", &[0], |_| collection("projects", project())),
    ("POST", "/projects", &[0], |_| only("project", project())),
    ("GET", "/projects/{}", &[0], |_| only("project", project())),
    ("PATCH", "/projects/{}", &[0], |_| only("project", project())),
    ("DELETE", "/projects/{}", &[0], nothing),
    ("GET", "/projects/{}/tags", &[0], |_| collection("tags", text())),
    ("PUT", "/projects/{}/tags", &[0], |_| collection("tags", text())),
    ("DELETE", "/projects/{}/tags", &[0], nothing),
    ("GET", "/projects/{}/tags/{}", &[0], nothing),
    ("PUT", "/projects/{}/tags/{}", &[0], nothing),
    ("DELETE", "/projects/{}/tags/{}", &[0], nothing),
    ("GET", "/roles", &[0], |_| collection("roles", role())),
    ("POST", "/roles", &[0], |_| only("role", role())),
    ("GET", "/roles/{}", &[0], |_| only("role", role())),
    ("PATCH", "/roles/{}", &[0], |_| only("role", role())),
    ("DELETE", "/roles/{}", &[0], nothing),
    ("GET", "/domains", &[0], |_| collection("domains", domain())),
    ("POST", "/domains", &[0], |_| only("domain", domain())),
    ("GET", "/domains/{}", &[0], |_| only("domain", domain())),
    ("PATCH", "/domains/{}", &[0], |_| only("domain", domain())),
    ("DELETE", "/domains/{}", &[0], nothing),
    ("GET", "/role_assignments", &[0], |_| collection("role_assignments", assignment())),
    ("PUT", "/{}/{}/users/{}/roles/{}", &[0], nothing),
    ("GET", "/{}/{}/users/{}/roles/{}", &[0], nothing),
    ("DELETE", "/{}/{}/users/{}/roles/{}", &[0], nothing),
    ("GET", "/{}/{}/users/{}/roles", &[0], |_| collection("roles", role())),
    ("PUT", "/{}/users/{}/roles/{}", &[0], nothing),
    ("GET", "/{}/users/{}/roles/{}", &[0], nothing),
    ("DELETE", "/{}/users/{}/roles/{}", &[0], nothing),
    ("GET", "/{}/users/{}/roles", &[0], |_| collection("roles", role())),
    ("PUT", "/{}/{}/groups/{}/roles/{}", &[0], nothing),
    ("GET", "/{}/{}/groups/{}/roles/{}", &[0], nothing),
    ("DELETE", "/{}/{}/groups/{}/roles/{}", &[0], nothing),
    ("GET", "/{}/{}/groups/{}/roles", &[0], |_| collection("roles", role())),
    ("PUT", "/{}/groups/{}/roles/{}", &[0], nothing),
    ("GET", "/{}/groups/{}/roles/{}", &[0], nothing),
    ("DELETE", "/{}/groups/{}/roles/{}", &[0], nothing),
    ("GET", "/{}/groups/{}/roles", &[0], |_| collection("roles", role())),
    ("GET", "/services", &[0], |_| collection("services", service())),
    ("POST", "/services", &[0], |_| only("service", service())),
    ("GET", "/services/{}", &[0], |_| only("service", service())),
    ("PATCH", "/services/{}", &[0], |_| only("service", service())),
    ("DELETE", "/services/{}", &[0], nothing),
    ("GET", "/endpoints", &[0], |_| collection("endpoints", endpoint())),
    ("POST", "/endpoints", &[0], |_| only("endpoint", endpoint())),
    ("GET", "/endpoints/{}", &[0], |_| only("endpoint", endpoint())),
    ("PATCH", "/endpoints/{}", &[0], |_| only("endpoint", endpoint())),
    ("DELETE", "/endpoints/{}", &[0], nothing),
    ("GET", "/regions", &[0], |_| collection("regions", region())),
    ("POST", "/regions", &[0], |_| only("region", region())),
    ("GET", "/regions/{}", &[0], |_| only("region", region())),
    ("PATCH", "/regions/{}", &[0], |_| only("region", region())),
    ("PUT", "/regions/{}", &[0], |_| only("region", region())),
    ("DELETE", "/regions/{}", &[0], nothing),
];

fn self_link() -> Value {
    only("self", url())
}

/// Describes a whole collection: there are no pages.
fn collection(name: &str, item: Value) -> Value {
    object(json!({name: list(item), "links": object(json!({"self": url(), "previous": always_null(), "next": always_null()}))}))
}

/// Describes an object without fields.
fn empty() -> Value {
    object(json!({}))
}

fn version() -> Value {
    let link = object(json!({"rel": one_of(&["self"]), "href": url()}));
    let media = object(json!({"base": one_of(&["application/json"]), "type": one_of(&["application/vnd.openstack.identity-v3+json"])}));
    object(json!({
        "id": {"type": "string", "pattern": r"^v3\.[0-9]+$"}, "status": one_of(&["stable"]), "updated": text(),
        "links": list(link), "media-types": list(media),
    }))
}

fn named() -> Value {
    object(json!({"id": account(), "name": text()}))
}

/// Describes an account with the domain that owns it.
fn in_domain() -> Value {
    plus(named(), json!({"domain": named()}))
}

/// Describes the scope of the system.
fn everything() -> Value {
    only("all", json!({"enum": [true]}))
}

fn token() -> Value {
    let audit_ids = json!({"type": "array", "items": text(), "minItems": 1, "maxItems": 2});
    let token = object(json!({
        "methods": list(text()), "user": plus(in_domain(), json!({"password_expires_at": always_null()})),
        "audit_ids": audit_ids, "issued_at": moment(), "expires_at": moment(),
    }));
    perhaps(
        token,
        json!({
            "project": in_domain(), "is_domain": boolean(), "domain": named(), "system": everything(), "roles": list(named()),
            "catalog": list(catalog_service()),
            "application_credential": plus(named(), json!({"restricted": boolean()})),
        }),
    )
}

fn catalog_service() -> Value {
    let endpoint = object(json!({
        "id": account(), "interface": interface(), "region": or_null(text()), "region_id": or_null(text()), "url": text(),
    }));
    object(json!({"id": account(), "name": text(), "type": text(), "endpoints": list(endpoint)}))
}

fn interface() -> Value {
    one_of(&["public", "internal", "admin"])
}

fn user() -> Value {
    let user = object(json!({
        "id": account(), "name": text(), "domain_id": account(), "description": text(), "enabled": boolean(),
        "password_expires_at": always_null(), "options": empty(), "links": self_link(),
    }));
    perhaps(user, json!({"email": text(), "default_project_id": account()}))
}

fn group() -> Value {
    object(json!({"id": account(), "name": text(), "domain_id": account(), "description": text(), "links": self_link()}))
}

fn project() -> Value {
    object(json!({
        "id": account(), "name": text(), "domain_id": account(), "parent_id": account(), "is_domain": json!({"enum": [false]}),
        "description": text(), "enabled": boolean(), "tags": list(text()), "options": empty(), "links": self_link(),
    }))
}

fn domain() -> Value {
    object(json!({
        "id": account(), "name": text(), "description": text(), "enabled": boolean(), "tags": list(text()), "options": empty(),
        "links": self_link(),
    }))
}

fn role() -> Value {
    object(json!({
        "id": account(), "name": text(), "description": text(), "domain_id": always_null(),
        "options": perhaps(empty(), json!({"immutable": boolean()})), "links": self_link(),
    }))
}

/// Describes an assignment, with names and domains if they are asked for.
fn assignment() -> Value {
    let party = perhaps(only("id", account()), json!({"name": text(), "domain": named()}));
    let role = perhaps(only("id", account()), json!({"name": text()}));
    let mut scope = perhaps(empty(), json!({"project": party, "domain": role, "system": everything()}));
    (scope["minProperties"], scope["maxProperties"]) = (json!(1), json!(1));
    let links = perhaps(only("assignment", url()), json!({"membership": url()}));
    perhaps(object(json!({"role": role, "scope": scope, "links": links})), json!({"user": party, "group": party}))
}

fn service() -> Value {
    object(json!({
        "id": account(), "name": text(), "type": text(), "description": text(), "enabled": boolean(), "links": self_link(),
    }))
}

fn endpoint() -> Value {
    object(json!({
        "id": account(), "service_id": account(), "interface": interface(), "region": or_null(text()), "region_id": or_null(text()),
        "url": text(), "enabled": boolean(), "links": self_link(),
    }))
}

fn region() -> Value {
    object(json!({"id": text(), "description": text(), "parent_region_id": or_null(text()), "links": self_link()}))
}

fn application_credential() -> Value {
    let role = plus(named(), json!({"domain_id": always_null()}));
    object(json!({
        "id": account(), "name": text(), "description": or_null(text()), "user_id": account(), "project_id": account(), "roles": list(role),
        "expires_at": or_null(micros()), "unrestricted": boolean(), "links": self_link(),
    }))
}

fn with_secret() -> Value {
    plus(application_credential(), json!({"secret": text()}))
}

fn credential() -> Value {
    object(json!({
        "id": account(), "user_id": account(), "project_id": or_null(account()), "type": text(), "blob": or_null(text()),
        "links": self_link(),
    }))
}

fn access_key() -> Value {
    object(json!({
        "user_id": account(), "tenant_id": account(), "access": text(), "secret": text(), "trust_id": always_null(), "links": self_link(),
    }))
}
