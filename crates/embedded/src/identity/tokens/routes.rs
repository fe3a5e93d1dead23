//! Tokens are issued, shown and revoked; also lists the scopes that the caller's token could have.

use actix_web::http::{Method, StatusCode};
use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_domain::moment;
use cellshift_web::base_url;
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::json::Json;
use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ServiceError;
use crate::identity::catalog::view::{self as catalog, Reader};
use crate::identity::rights::{reads_system, require};
use crate::identity::routes::{Call, bad_request, collection, failed, is_set, listed, not_found};
use crate::identity::{
    ApplicationCredentialRef, AuthenticationError, Credential, DomainName, DomainRef, EmbeddedIdentity, IssuedToken, ProjectRef, Scope,
    ScopeRequest, Target, Token, UserRef,
};
use crate::request_bodies::{RequestBody, bodies, not_null};
use crate::resource::Query;

pub fn configure(cfg: &mut web::ServiceConfig) {
    let tokens = web::resource("/auth/tokens").route(web::post().to(issue)).route(web::get().to(show));
    cfg.service(tokens.route(web::head().to(show)).route(web::delete().to(revoke)));
    cfg.service(web::resource("/auth/catalog").route(web::get().to(own_catalog)));
    cfg.service(web::resource("/auth/projects").route(web::get().to(own_projects)));
    cfg.service(web::resource("/auth/domains").route(web::get().to(own_domains)));
    cfg.service(web::resource("/auth/system").route(web::get().to(own_system)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = bodies! { "identity POST /auth/tokens" => AuthBody };

#[derive(Deserialize, JsonSchema)]
struct AuthBody {
    auth: Auth,
}

#[derive(Deserialize, JsonSchema)]
struct Auth {
    identity: Identity,
    #[serde(default)]
    #[schemars(with = "Option<ScopeFields>")]
    scope: Value,
}

/// The scope of a token. `unscoped` may also be the whole scope, as a text.
#[derive(Deserialize, JsonSchema)]
struct ScopeFields {
    #[serde(default, deserialize_with = "not_null")]
    unscoped: Option<Value>,
    system: Option<SystemFields>,
    domain: Option<Reference>,
    project: Option<Reference>,
}

#[derive(Deserialize, JsonSchema)]
struct SystemFields {
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Identity {
    methods: Vec<String>,
    password: Option<Password>,
    token: Option<TokenId>,
    application_credential: Option<Secret>,
}

#[derive(Deserialize, JsonSchema)]
struct Secret {
    id: Option<String>,
    name: Option<String>,
    user: Option<UserName>,
    secret: String,
}

#[derive(Deserialize, JsonSchema)]
struct Password {
    user: PasswordUser,
}

#[derive(Deserialize, JsonSchema)]
struct PasswordUser {
    #[serde(flatten)]
    user: UserName,
    password: String,
}

/// A user as clients name it.
#[derive(Deserialize, JsonSchema)]
struct UserName {
    id: Option<String>,
    name: Option<String>,
    domain: Option<Reference>,
}

#[derive(Deserialize, JsonSchema)]
struct TokenId {
    id: String,
}

/// A domain or project as clients name it.
#[derive(Deserialize, JsonSchema)]
struct Reference {
    id: Option<String>,
    name: Option<String>,
    domain: Option<Box<Reference>>,
}

async fn issue(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    query: web::Query<Query>,
    Json(body): Json<AuthBody>,
) -> Result<HttpResponse, ApiError> {
    let scope = read_scope(body.auth.scope)?;
    let credentials = read_credentials(body.auth.identity, &scope)?;
    let IssuedToken { id, token } = identity.authenticate(credentials, scope).await.map_err(refused)?;
    let body = json!({"token": render(&request, &identity, &token, !is_set(&query, "nocatalog")).await?});
    Ok(HttpResponse::Created().insert_header(("X-Subject-Token", id)).insert_header(("Vary", "X-Auth-Token")).json(body))
}

/// Returns the credentials that the methods name. Each must succeed, so an unknown method fails.
fn read_credentials(identity: Identity, scope: &ScopeRequest) -> Result<Vec<Credential>, ApiError> {
    let Identity { methods, password, token, application_credential } = identity;
    let uses = |method: &str| methods.iter().any(|other| other == method);
    let missing = |method: &str| bad_request(format!("auth.identity.methods names {method}, and auth.identity.{method} is missing."));
    let mut credentials = Vec::new();
    // The cheaper credential is checked first: a garbage token must not cost a password hash.
    if uses("token") {
        credentials.push(Credential::Token(token.ok_or_else(|| missing("token"))?.id));
    }
    if uses("password") {
        let Password { user } = password.ok_or_else(|| missing("password"))?;
        credentials.push(Credential::Password { user: read_user("password", &user.user)?, password: user.password });
    }
    if uses("application_credential") {
        if *scope != ScopeRequest::Default {
            let message = "Error authenticating with application credential: Application credentials cannot request a scope.";
            return Err(ApiError::new(ErrorForm::Identity, StatusCode::UNAUTHORIZED, message));
        }
        let Secret { id, name, user, secret } = application_credential.ok_or_else(|| missing("application_credential"))?;
        let credential = match (id, name, user) {
            (Some(id), ..) => ApplicationCredentialRef::Id(id),
            (None, Some(name), Some(user)) => ApplicationCredentialRef::Name { name, user: read_user("application_credential", &user)? },
            _ => return Err(bad_request("auth.identity.application_credential needs an id, or a name and a user.")),
        };
        credentials.push(Credential::ApplicationCredential { credential, secret });
    }
    if methods.iter().any(|method| !["password", "token", "application_credential"].contains(&method.as_str())) {
        return Err(refused(AuthenticationError::Unauthorized));
    }
    Ok(credentials)
}

async fn show(call: Call, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    // Services may validate their users' tokens. Only administrators may check a token's validity with HEAD.
    let (action, services) = match *call.request.method() {
        Method::HEAD => ("identity:check_token", false),
        _ => ("identity:validate_token", call.caller.0.has_role("service")),
    };
    let (id, token) = subject(&call).await?;
    require(action, services || reads_system(&call.caller) || call.caller.0.user_id == token.user_id)?;
    let body = json!({"token": render(&call.request, &call.service, &token, !is_set(&query, "nocatalog")).await?});
    Ok(HttpResponse::Ok().insert_header(("X-Subject-Token", id)).insert_header(("Vary", "X-Auth-Token")).json(body))
}

async fn revoke(call: Call) -> Result<HttpResponse, ApiError> {
    let (id, token) = subject(&call).await?;
    require("identity:revoke_token", call.caller.0.is_admin() || call.caller.0.user_id == token.user_id)?;
    call.service.revoke_token(&id).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn own_catalog(call: Call) -> Result<HttpResponse, ApiError> {
    if call.caller.0.project_id.is_empty() {
        let message = "A project-scoped token is required to produce a service catalog.";
        return Err(ApiError::new(ErrorForm::Identity, StatusCode::FORBIDDEN, message));
    }
    let reader = Reader { user_id: &call.caller.0.user_id, project_id: Some(&call.caller.0.project_id) };
    let entries = catalog::of(&call.service, &base_url::of(&call.request), &reader).await?;
    Ok(HttpResponse::Ok().json(collection(&call.request, "catalog", entries)))
}

async fn own_projects(call: Call) -> Result<HttpResponse, ApiError> {
    let projects = call.service.projects_of(&call.caller.0.user_id).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(listed(&call, &projects)))
}

async fn own_domains(call: Call) -> Result<HttpResponse, ApiError> {
    let domains = call.service.domains_of(&call.caller.0.user_id).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(listed(&call, &domains)))
}

async fn own_system(call: Call) -> Result<HttpResponse, ApiError> {
    let roles = call.service.roles_of(&call.caller.0.user_id, Target::System).await.map_err(failed)?;
    let entries = if roles.is_empty() { Vec::new() } else { vec![json!({"all": true})] };
    Ok(HttpResponse::Ok().json(collection(&call.request, "system", entries)))
}

/// Returns the token of the request's subject.
async fn subject(call: &Call) -> Result<(String, Token), ApiError> {
    let header = call.request.headers().get("X-Subject-Token").and_then(|value| value.to_str().ok());
    let id = header.ok_or_else(|| bad_request("The header X-Subject-Token is missing."))?;
    let missing = || not_found("token", "it is unknown, expired or revoked");
    let token = call.service.validate_token(id).await.map_err(|error| match error {
        ServiceError::NotFound(_) => missing(),
        other => failed(other),
    })?;
    Ok((id.to_owned(), token))
}

fn read_user(method: &str, user: &UserName) -> Result<UserRef, ApiError> {
    match (&user.id, &user.name, &user.domain) {
        (Some(id), _, _) => Ok(UserRef::Id(id.clone())),
        (None, Some(name), Some(domain)) => Ok(UserRef::Name { name: name.clone(), domain: read_domain(domain)? }),
        _ => Err(bad_request(format!("auth.identity.{method}.user needs an id, or a name and a domain."))),
    }
}

fn read_domain(domain: &Reference) -> Result<DomainRef, ApiError> {
    match (&domain.id, &domain.name) {
        (Some(id), _) => Ok(DomainRef::Id(id.clone())),
        (None, Some(name)) => Ok(DomainRef::Name(name.clone())),
        (None, None) => Err(bad_request("A domain needs an id or a name.")),
    }
}

fn read_scope(scope: Value) -> Result<ScopeRequest, ApiError> {
    if scope.is_null() {
        return Ok(ScopeRequest::Default);
    }
    if scope == "unscoped" {
        return Ok(ScopeRequest::Unscoped);
    }
    let scope: ScopeFields = serde_json::from_value(scope).map_err(|e| bad_request(format!("auth.scope: {e}")))?;
    match scope {
        ScopeFields { unscoped: Some(_), .. } => Ok(ScopeRequest::Unscoped),
        ScopeFields { system: Some(SystemFields { all: true }), .. } => Ok(ScopeRequest::System),
        ScopeFields { domain: Some(domain), .. } => Ok(ScopeRequest::Domain(read_domain(&domain)?)),
        ScopeFields { project: Some(Reference { id: Some(id), .. }), .. } => Ok(ScopeRequest::Project(ProjectRef::Id(id))),
        ScopeFields { project: Some(Reference { name: Some(name), domain: Some(domain), .. }), .. } => {
            Ok(ScopeRequest::Project(ProjectRef::Name { name, domain: read_domain(&domain)? }))
        }
        _ => Err(bad_request("auth.scope names neither a project (id, or name and domain), a domain, the system, nor unscoped.")),
    }
}

pub(in crate::identity) fn refused(error: AuthenticationError) -> ApiError {
    match error {
        AuthenticationError::Unauthorized => ApiError::new(ErrorForm::Identity, StatusCode::UNAUTHORIZED, error.to_string()),
        AuthenticationError::Service(error) => failed(error),
    }
}

async fn render(request: &HttpRequest, identity: &EmbeddedIdentity, token: &Token, with_catalog: bool) -> Result<Value, ApiError> {
    let domain = |domain: &DomainName| json!({"id": domain.id, "name": domain.name});
    let mut body = json!({
        "methods": token.methods,
        "user": {"id": token.user_id, "name": token.user_name, "domain": domain(&token.user_domain), "password_expires_at": null},
        "audit_ids": token.audit_ids,
        "issued_at": time(token.issued_at),
        "expires_at": time(token.expires_at),
    });
    if let Some(credential) = &token.application_credential {
        body["application_credential"] = json!({"id": credential.id, "name": credential.name, "restricted": credential.restricted});
    }
    match &token.scope {
        Scope::Unscoped => return Ok(body),
        Scope::Project { project, domain: owner } => {
            body["project"] = json!({"id": project.id, "name": project.name, "domain": domain(owner)});
            body["is_domain"] = json!(false);
        }
        Scope::Domain(own) => body["domain"] = domain(own),
        Scope::System => body["system"] = json!({"all": true}),
    }
    body["roles"] = token.roles.iter().map(|role| json!({"id": role.id, "name": role.name})).collect();
    if with_catalog {
        let project_id = match &token.scope {
            Scope::Project { project, .. } => Some(project.id.as_str()),
            _ => None,
        };
        let reader = Reader { user_id: &token.user_id, project_id };
        body["catalog"] = Value::Array(catalog::of(identity, &base_url::of(request), &reader).await?);
    }
    Ok(body)
}

pub(in crate::identity) fn time(time: DateTime<Utc>) -> String {
    moment::micros_with_zone(time)
}
