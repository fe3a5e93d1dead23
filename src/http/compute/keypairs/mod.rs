//! `/os-keypairs`: users' public keys.

mod material;
mod pkcs12;
mod x509;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use chrono::{DateTime, Utc};
use material::Generated;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Answer, bad_request, empty, fault, forbidden, moment, ok, unavailable};
use super::body::Body;
use super::body::rules::{ShortText, rules};
use super::catalog::Catalog;
use super::query::Query;
use super::quota_usage::Holder;
use super::schema::{self, Schema};
use crate::db::DbError;
use crate::domain::key_pair::KeyPair;
use crate::domain::policy::Target;
use crate::domain::quota_grant::QuotaGrant;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/os-keypairs").route(web::get().to(list)).route(web::post().to(create)))
        .service(web::resource("/os-keypairs/{name}").route(web::get().to(show)).route(web::delete().to(delete)));
}

/// The schemas of this resource, by request.
pub(in crate::http) static SCHEMAS: &[(&str, &Schema)] = &[("POST /os-keypairs", &CREATE.schema)];

static CREATE: Body<NewKeyPair> = Body::within("keypair", &[1, 2, 10, 92]);

rules! {
    /// The name of a key pair, which has a few more characters from 2.92 on.
    KeyPairName = json!({"versions": [[1, name_of(r"^[_\- a-zA-Z0-9]+$")], [92, name_of(r"^[_\-@. a-zA-Z0-9]+$")]]});
    /// A public key or a certificate.
    PublicKey = json!({"type": "string", "maxLength": 65535});
    /// The type of a key pair.
    KeyType = json!({"enum": ["ssh", "x509"]});
}

fn name_of(characters: &str) -> Value {
    json!({"allOf": [schema::name(), {"pattern": characters}]})
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewKeyPair {
    #[schemars(with = "KeyPairName")]
    name: String,
    #[serde(default)]
    #[schemars(with = "PublicKey", extend("required_since" = 92))]
    public_key: Option<String>,
    #[serde(default, rename = "type")]
    #[schemars(with = "KeyType", extend("since" = 2))]
    key_type: Option<String>,
    #[serde(default)]
    #[schemars(with = "ShortText", extend("since" = 10))]
    user_id: Option<String>,
}

/// Returns the owner of the key pairs: the caller, or from 2.10 on the user in the query. 403 unless the rule allows it.
fn owner(caller: &Caller, version: ApiVersion, api: &Catalog, named: Option<&str>, rule: &str) -> Result<String, ApiError> {
    let user = named.filter(|_| version.at_least(10)).unwrap_or(&caller.0.user_id);
    api.policy.authorize(rule, &caller.0, &Target { project_id: "", user_id: user })?;
    Ok(user.to_owned())
}

async fn create(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, body: Document) -> Answer {
    let new = CREATE.read(version, &body).await?;
    let user = owner(&caller, version, &api, new.user_id.as_deref(), "os_compute_api:os-keypairs:create")?;
    let key_type = new.key_type.unwrap_or_else(|| "ssh".to_owned());
    let (granted, most) = has_room(&api, &caller.0.project_id, &user).await?;
    let now = api.env.now();
    let (public_key, private_key) = match new.public_key {
        Some(public_key) => (public_key, None),
        None => {
            let pair = generated(&api, &key_type, &user, now).await?;
            (pair.public_key, Some(pair.private_key))
        }
    };
    let fingerprint = fingerprint_of(&key_type, &public_key)?;
    let key = KeyPair { id: 0, created_at: now, user_id: user, name: new.name, fingerprint, public_key, key_type };
    let key = match most.filter(|_| api.counting.recheck) {
        None => api.api.create_key_pair(key, granted).await?,
        Some(most) => api.api.create_key_pair_within(key, most).await?.ok_or_else(no_room)?,
    };
    let mut view = brief(&key, version);
    view["user_id"] = json!(key.user_id);
    if let Some(private_key) = private_key {
        view["private_key"] = json!(private_key);
    }
    let status = if version.at_least(2) { StatusCode::CREATED } else { StatusCode::OK };
    Ok(HttpResponse::build(status).json(json!({"keypair": view})))
}

/// Returns the grant of a key pair, and the limit of the user's key pairs, if there is one. 403 if the user has reached it.
async fn has_room(api: &Catalog, project: &str, user: &str) -> Result<(QuotaGrant<KeyPair>, Option<i64>), ApiError> {
    let limits = Holder { project, user }.limits(api).await?.of_user();
    let used = api.api.key_pairs(user, None, None).await?.len() as i64;
    let limit = limits.get("key_pairs").copied().unwrap_or(-1);
    let granted = QuotaGrant::within(limit, used, 1).ok_or_else(no_room)?;
    Ok((granted, Some(limit).filter(|most| *most >= 0)))
}

fn no_room() -> ApiError {
    forbidden("Quota exceeded, too many key pairs.")
}

fn invalid(reason: impl std::fmt::Display) -> ApiError {
    bad_request(format!("Keypair data is invalid: {reason}"))
}

fn fingerprint_of(key_type: &str, public_key: &str) -> Result<String, ApiError> {
    match key_type {
        "x509" => x509::fingerprint(public_key),
        _ => material::ssh_fingerprint(public_key),
    }
    .map_err(invalid)
}

/// A pair that is made here. The answer has its private key; nobody else does.
async fn generated(api: &Catalog, key_type: &str, user: &str, now: DateTime<Utc>) -> Result<Generated, ApiError> {
    let seed = material::seed([api.env.uuid(), api.env.uuid(), api.env.uuid()]);
    if key_type != "x509" {
        return material::generate(&seed).map_err(|error| fault(&error));
    }
    let holder = x509::Holder::new(user).map_err(invalid)?;
    let busy = || unavailable("too many key pairs are being made, try again shortly");
    let turn = api.key_turns.take().await.ok_or_else(busy)?;
    // A worker that searched for primes would hold up its other requests.
    let pair = api.env.run_blocking(move || {
        let _turn = turn;
        x509::generate(&holder, seed, now)
    });
    pair.await.map_err(|error| fault(&error))
}

async fn list(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest) -> Answer {
    let query = Query::of(&request)?;
    if version.at_least(75) {
        query.only(&["user_id", "limit", "marker"])?;
    }
    let user = owner(&caller, version, &api, query.get("user_id"), "os_compute_api:os-keypairs:index")?;
    if version.at_most(34) {
        let keys = api.api.key_pairs(&user, None, None).await?;
        return ok(&json!({"keypairs": views(&keys, version)}));
    }
    let page = query.page(api.max_limit)?;
    let keys = api.api.key_pairs(&user, page.marker.as_deref(), i64::try_from(page.limit).ok()).await;
    let keys = keys.map_err(|error| match (error, &page.marker) {
        (DbError::NotFound(_), Some(marker)) => bad_request(format!("Marker {marker} could not be found.")),
        (error, _) => error.into(),
    })?;
    let mut body = json!({"keypairs": views(&keys, version)});
    if let Some(next) = page.next(&request, &query, "os-keypairs", keys.len(), keys.last().map(|key| key.name.clone())) {
        body["keypairs_links"] = next;
    }
    ok(&body)
}

fn views(keys: &[KeyPair], version: ApiVersion) -> Vec<Value> {
    keys.iter().map(|key| json!({"keypair": brief(key, version)})).collect()
}

fn brief(key: &KeyPair, version: ApiVersion) -> Value {
    let mut view = json!({"name": key.name, "public_key": key.public_key, "fingerprint": key.fingerprint});
    if version.at_least(2) {
        view["type"] = json!(key.key_type);
    }
    view
}

async fn show(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest, name: web::Path<String>) -> Answer {
    let query = Query::of(&request)?;
    if version.at_least(75) {
        query.only(&["user_id"])?;
    }
    let user = owner(&caller, version, &api, query.get("user_id"), "os_compute_api:os-keypairs:show")?;
    let key = api.api.key_pair(&user, &name).await?;
    let mut view = brief(&key, version);
    view["user_id"] = json!(key.user_id);
    view["id"] = json!(key.id);
    view["created_at"] = json!(moment(key.created_at));
    view["updated_at"] = Value::Null;
    view["deleted"] = json!(false);
    view["deleted_at"] = Value::Null;
    ok(&json!({"keypair": view}))
}

async fn delete(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest, name: web::Path<String>) -> Answer {
    let query = Query::of(&request)?;
    if version.at_least(75) {
        query.only(&["user_id"])?;
    }
    let user = owner(&caller, version, &api, query.get("user_id"), "os_compute_api:os-keypairs:delete")?;
    api.api.delete_key_pair(&user, &name).await?;
    empty(if version.at_least(2) { StatusCode::NO_CONTENT } else { StatusCode::ACCEPTED })
}
