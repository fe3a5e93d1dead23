//! QoS policies, their rules, and the rule types.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use serde_json::{Map, Value, json};

use crate::network::query::ListQuery;
use crate::network::records::{QosPolicy, QosRule, QosRuleKind};
use crate::network::resource::{self, resource};
use crate::network::routes::{Call, attributes, error, id_of, reader, refusal, with, writer};

pub(in crate::network) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/qos/rule-types").route(web::get().to(rule_types)))
        .configure(resource::configure::<QosPolicy>)
        .service(
            web::resource("/network/v2.0/qos/policies/{id}/{kind}_rules").route(web::get().to(rules)).route(web::post().to(create_rule)),
        )
        .service(
            web::resource("/network/v2.0/qos/policies/{id}/{kind}_rules/{rule}")
                .route(web::get().to(show_rule))
                .route(web::put().to(update_rule))
                .route(web::delete().to(delete_rule)),
        );
}

async fn rule_types(caller: Caller) -> Result<HttpResponse, ApiError> {
    reader(&caller)?;
    let types: Vec<Value> = QosRuleKind::ALL.into_iter().map(|kind| json!({"type": kind.name()})).collect();
    Ok(HttpResponse::Ok().json(json!({"rule_types": types})))
}

resource! {
    QosPolicy, kind: "QoS policy", path: "qos/policies", name: "policy", collection: "policies",
    list: qos_policies, find: qos_policy, create: create_qos_policy, update: update_qos_policy, delete: delete_qos_policy, body: body
}

async fn rules(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (id, kind) = (id_of("QoS policy", &path.0)?, kind_of(&path.1)?);
    let query = ListQuery::of(&call.request)?;
    let policy = call.service.qos_policy(reader(&call.caller)?, id).await.map_err(refusal)?;
    let items = policy.rules.iter().filter(|rule| rule.kind == kind).map(rule_body).collect();
    query.answer(&call.request, &format!("{}_rules", kind.name()), items)
}

async fn create_rule(call: Call, path: web::Path<(String, String)>, Json(body): Json<Value>) -> Result<HttpResponse, ApiError> {
    let (id, kind) = (id_of("QoS policy", &path.0)?, kind_of(&path.1)?);
    let rule = attributes(body, &format!("{}_rule", kind.name()))?;
    let rule = call.service.create_qos_rule(writer(&call.caller)?, id, kind, rule).await.map_err(refusal)?;
    Ok(HttpResponse::Created().json(named(&rule)))
}

async fn show_rule(call: Call, path: web::Path<(String, String, String)>) -> Result<HttpResponse, ApiError> {
    let (policy, kind, id) = (id_of("QoS policy", &path.0)?, kind_of(&path.1)?, id_of("QoS rule", &path.2)?);
    let policy = call.service.qos_policy(reader(&call.caller)?, policy).await.map_err(refusal)?;
    let absent = || error(StatusCode::NOT_FOUND, format!("QoS rule {id} could not be found."));
    let rule = policy.rules.iter().find(|rule| rule.id == id && rule.kind == kind).ok_or_else(absent)?;
    Ok(HttpResponse::Ok().json(named(rule)))
}

async fn update_rule(call: Call, path: web::Path<(String, String, String)>, Json(body): Json<Value>) -> Result<HttpResponse, ApiError> {
    let (policy, kind, id) = (id_of("QoS policy", &path.0)?, kind_of(&path.1)?, id_of("QoS rule", &path.2)?);
    let changes = attributes(body, &format!("{}_rule", kind.name()))?;
    let rule = call.service.update_qos_rule(writer(&call.caller)?, policy, id, changes).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(named(&rule)))
}

async fn delete_rule(call: Call, path: web::Path<(String, String, String)>) -> Result<HttpResponse, ApiError> {
    kind_of(&path.1)?;
    let (policy, id) = (id_of("QoS policy", &path.0)?, id_of("QoS rule", &path.2)?);
    call.service.delete_qos_rule(writer(&call.caller)?, policy, id).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

fn kind_of(name: &str) -> Result<QosRuleKind, ApiError> {
    QosRuleKind::parse(name).ok_or_else(|| error(StatusCode::NOT_FOUND, format!("There are no {name} rules.")))
}

fn body(policy: &QosPolicy, _: &Caller) -> Result<Value, ApiError> {
    let typed = |rule: &QosRule| {
        let mut value = rule_body(rule);
        value["type"] = json!(rule.kind.name());
        value["qos_policy_id"] = json!(rule.policy_id);
        value
    };
    with(policy, json!({"rules": policy.rules.iter().map(typed).collect::<Vec<_>>()}))
}

fn named(rule: &QosRule) -> Value {
    let mut map = Map::new();
    map.insert(format!("{}_rule", rule.kind.name()), rule_body(rule));
    Value::Object(map)
}

fn rule_body(rule: &QosRule) -> Value {
    let (amount, burst) = rule.kind.attributes();
    let mut value = json!({"id": rule.id});
    if rule.kind.has_direction() {
        value["direction"] = json!(rule.direction);
    }
    value[amount] = json!(rule.amount);
    if let Some(burst) = burst {
        value[burst] = json!(rule.burst.unwrap_or(0));
    }
    value
}
