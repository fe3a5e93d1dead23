//! The page's session: a token in a cookie that scripts cannot read.

use actix_web::http::StatusCode;
use actix_web::http::header::{COOKIE, HeaderMap, HeaderValue, SET_COOKIE};
use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::FOLDER;
use crate::domain::context::RequestContext;
use crate::domain::policy::Target;
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::compute::catalog::Catalog;
use crate::http::error::{ApiError, ErrorForm};
use crate::http::json::Json;
use crate::http::ops::Operators;
use crate::services::identity::{self, AuthenticationError, NameInDomain, Session, Sessions};

const COOKIE_NAME: &str = "cellshift_session";

/// The rules by which the page decides which pages and buttons it shows. The routes judge each request all the same.
const RULES: [&str; 59] = [
    "ops:audit",
    "ops:cells",
    "ops:cells:update",
    "ops:chaos",
    "ops:debts",
    "ops:destinations",
    "ops:drains",
    "ops:group_moves",
    "ops:heal_allocations",
    "ops:migrations",
    "ops:notifications",
    "ops:queued_deletes",
    "ops:servers",
    "ops:summary",
    "os_compute_api:os-admin-actions:inject_network_info",
    "os_compute_api:os-admin-actions:reset_state",
    "os_compute_api:os-admin-password",
    "os_compute_api:os-attach-interfaces:create",
    "os_compute_api:os-attach-interfaces:delete",
    "os_compute_api:os-console-output",
    "os_compute_api:os-create-backup",
    "os_compute_api:os-deferred-delete:force",
    "os_compute_api:os-deferred-delete:restore",
    "os_compute_api:os-evacuate",
    "os_compute_api:os-lock-server:lock",
    "os_compute_api:os-lock-server:unlock",
    "os_compute_api:os-migrate-server:migrate",
    "os_compute_api:os-migrate-server:migrate_live",
    "os_compute_api:os-pause-server:pause",
    "os_compute_api:os-pause-server:unpause",
    "os_compute_api:os-remote-consoles",
    "os_compute_api:os-rescue",
    "os_compute_api:os-security-groups:add",
    "os_compute_api:os-security-groups:remove",
    "os_compute_api:os-services:update",
    "os_compute_api:os-shelve:shelve",
    "os_compute_api:os-shelve:shelve_offload",
    "os_compute_api:os-shelve:unshelve",
    "os_compute_api:os-suspend-server:resume",
    "os_compute_api:os-suspend-server:suspend",
    "os_compute_api:os-unrescue",
    "os_compute_api:os-volumes-attachments:create",
    "os_compute_api:os-volumes-attachments:delete",
    "os_compute_api:servers:allow_all_filters",
    "os_compute_api:servers:confirm_resize",
    "os_compute_api:servers:create",
    "os_compute_api:servers:create_image",
    "os_compute_api:servers:delete",
    "os_compute_api:servers:index:get_all_tenants",
    "os_compute_api:servers:migrations:delete",
    "os_compute_api:servers:migrations:force_complete",
    "os_compute_api:servers:reboot",
    "os_compute_api:servers:rebuild",
    "os_compute_api:servers:resize",
    "os_compute_api:servers:revert_resize",
    "os_compute_api:servers:start",
    "os_compute_api:servers:stop",
    "os_compute_api:servers:trigger_crash_dump",
    "os_compute_api:servers:update",
];

/// The fields of the login form; or a token alone, in a link that `cellshift ui` made.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    user: Option<String>,
    password: Option<String>,
    project: Option<String>,
    /// The name of the user's domain; the default domain if it is missing or empty.
    #[serde(default)]
    domain: String,
    /// The name of the project's domain; the user's if it is missing or empty.
    #[serde(default)]
    project_domain: String,
    token: Option<String>,
}

/// Answers `POST /ui/login`: issues a token as the identity API does, and keeps it in the cookie.
pub async fn log_in(request: HttpRequest, sessions: web::Data<dyn Sessions>, body: Json<Login>) -> Result<HttpResponse, ApiError> {
    let session = match body.into_inner() {
        Login { user: None, password: None, project: None, token: Some(token), .. } => sessions.exchange(&token).await,
        Login { user: Some(user), password: Some(password), project: Some(project), domain, project_domain, token: None } => {
            let non_empty = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
            let project_domain = non_empty(if project_domain.is_empty() { &domain } else { &project_domain });
            let user = NameInDomain { name: user, domain: non_empty(&domain) };
            let project = NameInDomain { name: project, domain: project_domain };
            sessions.log_in(identity::Login { user, password, project }).await
        }
        _ => {
            let message = "A login has user, password and project, or a token alone.";
            return Err(ApiError::new(ErrorForm::Compute, StatusCode::BAD_REQUEST, message));
        }
    };
    let Session { token, user, project, expires_at } = session.map_err(refused)?;
    let body = json!({
        "user": {"id": user.id, "name": user.name},
        "project": {"id": project.id, "name": project.name},
        "expires_at": expires_at,
    });
    Ok(HttpResponse::Ok().insert_header((SET_COOKIE, cookie(&request, &token))).json(body))
}

fn refused(error: AuthenticationError) -> ApiError {
    match error {
        AuthenticationError::Unauthorized => ApiError::new(ErrorForm::Compute, StatusCode::UNAUTHORIZED, error.to_string()),
        AuthenticationError::Service(error) => ApiError::from_service(ErrorForm::Compute, error),
    }
}

/// Answers `GET /ui/session`: who is logged in, and which of the page's rules allow them what they decide.
pub async fn show(caller: Caller, catalog: web::Data<Catalog>, operators: web::Data<Operators>) -> HttpResponse {
    let RequestContext { user_id, user_name, project_id, project_name, roles, .. } = &caller.0;
    let may = |rule: &str| catalog.policy.check(rule, &caller.0, &Target::own(&caller.0));
    let rules: Map<String, Value> = RULES.iter().map(|rule| ((*rule).to_owned(), json!(may(rule)))).collect();
    HttpResponse::Ok().json(json!({
        "user": {"id": user_id, "name": user_name},
        "project": {"id": project_id, "name": project_name},
        "roles": roles,
        "rules": rules,
        "chaos": operators.chaos.is_some(),
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

/// Answers `POST /ui/logout`: revokes the token and removes the cookie.
pub async fn log_out(request: HttpRequest, _: Caller, sessions: web::Data<dyn Sessions>) -> Result<HttpResponse, ApiError> {
    if let Some(token) = request.headers().get("X-Auth-Token").and_then(|token| token.to_str().ok()) {
        sessions.log_out(token).await.map_err(|error| ApiError::from_service(ErrorForm::Compute, error))?;
    }
    Ok(HttpResponse::NoContent().insert_header((SET_COOKIE, expired_cookie(&request))).finish())
}

/// Returns the token of the request's session.
pub fn token(headers: &HeaderMap) -> Option<HeaderValue> {
    let lines = headers.get_all(COOKIE).filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let value = pairs.find(|(name, _)| *name == COOKIE_NAME)?.1;
    HeaderValue::from_str(value).ok()
}

fn cookie(request: &HttpRequest, token: &str) -> String {
    format!("{COOKIE_NAME}={token}; {}", attributes(request))
}

/// Returns the line that removes the cookie.
pub fn expired_cookie(request: &HttpRequest) -> String {
    format!("{COOKIE_NAME}=; Max-Age=0; {}", attributes(request))
}

/// The cookie ends with the browser. It is sent to the page's folder alone, which lies below that of the public endpoint.
fn attributes(request: &HttpRequest) -> String {
    let base = base_url::of(request);
    let (scheme, rest) = base.split_once("://").unwrap_or(("http", &base));
    let folder = rest.split_once('/').map(|(_, folder)| format!("/{folder}")).unwrap_or_default();
    let secure = if scheme == "https" { "; Secure" } else { "" };
    format!("Path={folder}{FOLDER}; HttpOnly; SameSite=Strict{secure}")
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;
    use crate::http::clients::Clients;

    #[test]
    fn the_cookie_fits_the_public_endpoint() {
        for (public, expected) in [
            (None, "cellshift_session=t; Path=/ui; HttpOnly; SameSite=Strict"),
            (Some("https://cloud.example"), "cellshift_session=t; Path=/ui; HttpOnly; SameSite=Strict; Secure"),
            (Some("https://cloud.example/base/"), "cellshift_session=t; Path=/base/ui; HttpOnly; SameSite=Strict; Secure"),
        ] {
            let clients = Clients::new(public.map(str::to_owned), Vec::new(), "127.0.0.1:8774".parse().unwrap());
            assert_eq!(cookie(&TestRequest::default().app_data(clients).to_http_request(), "t"), expected);
        }
    }

    #[test]
    fn the_token_is_found_among_other_cookies() {
        let headers = |line: &str| TestRequest::default().insert_header((COOKIE, line)).to_http_request().headers().clone();
        assert_eq!(token(&headers("a=b; cellshift_session=gAAA-_=; c")).unwrap(), "gAAA-_=");
        assert_eq!(token(&headers("xcellshift_session=1; cellshift_sessions=2")), None);
        assert_eq!(token(&HeaderMap::new()), None);
    }
}
