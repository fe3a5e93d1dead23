//! `/os-security-group-rules`: adds and removes rules for incoming traffic.

use actix_web::http::StatusCode;
use actix_web::web;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::security_groups::{find, names_of, refused, rule_view, uuid, visible};
use super::{is_there, scope_of};
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, empty, not_found, ok};
use crate::http::compute::body::rules::{UuidOrNull, UuidText};
use crate::http::compute::body::{ALWAYS, Body};
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::services::proxies::{NetworkProxy, NewSecurityGroupRule, SecurityGroup};

/// `POST /os-security-group-rules`.
pub(super) static CREATE: Body<RuleBody> = Body::whole(ALWAYS);

/// Fields that are not known are allowed, as in Nova.
#[derive(Deserialize, JsonSchema)]
pub(super) struct RuleBody {
    security_group_rule: RuleFields,
}

/// The schema knows the ids alone, as in Nova: the values of the other fields are checked by what they mean together.
#[derive(Deserialize, JsonSchema)]
struct RuleFields {
    #[schemars(with = "UuidText")]
    parent_group_id: String,
    /// The group from which traffic may come.
    #[serde(default)]
    #[schemars(with = "UuidOrNull")]
    group_id: Option<String>,
    #[serde(default)]
    #[schemars(skip)]
    ip_protocol: Value,
    #[serde(default)]
    #[schemars(skip)]
    from_port: Value,
    #[serde(default)]
    #[schemars(skip)]
    to_port: Value,
    #[serde(default)]
    #[schemars(skip)]
    cidr: Value,
}

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/os-security-group-rules").route(web::post().to(create)))
        .service(web::resource("/os-security-group-rules/{id}").route(web::delete().to(delete)));
}

async fn create(Call { api: network, catalog, caller, version, .. }: Call<dyn NetworkProxy>, body: Document) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-security-groups:rule:create")?;
    let fields = CREATE.read(version, &body).await?.security_group_rule;
    let groups = visible(&network, &caller.0).await?;
    let parent = find(&groups, uuid(&fields.parent_group_id)?)?;
    let remote = match &fields.group_id {
        Some(remote) => Some(find(&groups, uuid(remote)?)?.id),
        None => None,
    };
    let rule = new_rule(&fields, parent, remote)?;
    let made = network.add_security_group_rule(scope_of(&caller.0), rule).await.map_err(refused)?;
    ok(&json!({"security_group_rule": rule_view(&made, &names_of(&groups))}))
}

async fn delete(Call { api: network, catalog, caller, version, .. }: Call<dyn NetworkProxy>, id: web::Path<String>) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-security-groups:rule:delete")?;
    let id = uuid(&id)?;
    let groups = visible(&network, &caller.0).await?;
    if !groups.iter().flat_map(|group| &group.rules).any(|rule| rule.id == id) {
        return Err(not_found(format!("Security group rule {id} does not exist")));
    }
    network.remove_security_group_rule(scope_of(&caller.0), id).await.map_err(refused)?;
    empty(StatusCode::ACCEPTED)
}

/// Translates a rule of the compute API, for traffic from the group `remote` or from a block, into the network service's terms.
fn new_rule(fields: &RuleFields, parent: &SecurityGroup, remote: Option<Uuid>) -> Result<NewSecurityGroupRule, ApiError> {
    let protocol = text(&fields.ip_protocol).filter(|protocol| !protocol.is_empty());
    let (from, to) = ports(fields, protocol.as_deref(), remote.is_some())?;
    if remote.is_none() && (protocol.is_none() || from.is_none() || to.is_none()) {
        return Err(bad_request("Not enough parameters to build a valid rule."));
    }
    // As in Nova, a group's rule without both ports is for every protocol.
    let protocol = protocol.filter(|_| from.is_some() && to.is_some());
    let cidr = match remote {
        Some(_) => None,
        None => Some(text(&fields.cidr).filter(|cidr| !cidr.is_empty()).unwrap_or_else(|| "0.0.0.0/0".to_owned())),
    };
    let of_ipv6 = cidr.as_ref().is_some_and(|cidr| cidr.contains(':'));
    let protocol = match protocol {
        Some(protocol) => {
            check(&protocol, from.unwrap_or(-1), to.unwrap_or(-1))?;
            let named = if of_ipv6 && protocol.eq_ignore_ascii_case("icmp") { "icmpv6".to_owned() } else { protocol.to_lowercase() };
            Some((named, stored(from), stored(to)))
        }
        None => None,
    };
    Ok(NewSecurityGroupRule {
        security_group_id: parent.id,
        project_id: parent.project_id.clone(),
        is_ipv6: of_ipv6,
        protocol,
        remote_ip_prefix: cidr,
        remote_group_id: remote,
    })
}

/// Returns a port whose range has been checked; none for -1, which means all ports.
fn stored(port: Option<i64>) -> Option<i32> {
    port.and_then(|port| i32::try_from(port).ok()).filter(|port| *port != -1)
}

/// Returns the ports, or type and code, of a rule. A rule for a group takes all of them where it names none.
fn ports(fields: &RuleFields, protocol: Option<&str>, of_group: bool) -> Result<(Option<i64>, Option<i64>), ApiError> {
    let is_icmp = protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case("icmp"));
    let named = (&fields.from_port, &fields.to_port);
    if of_group && named.0.is_null() && named.1.is_null() {
        return Ok(match protocol.map(str::to_uppercase).as_deref() {
            Some("ICMP") => (Some(-1), Some(-1)),
            Some("TCP" | "UDP") => (Some(1), Some(65_535)),
            _ => (None, None),
        });
    }
    let read = |value: &Value| match value {
        Value::Null => Ok(None),
        other => match text(other).and_then(|text| text.trim().parse::<i64>().ok()) {
            Some(number) => Ok(Some(number)),
            None if is_icmp => Err(bad_request("Invalid input received: Type and Code must be integers for ICMP protocol type")),
            None => Err(bad_request("Invalid input received: To and From ports must be integers")),
        },
    };
    Ok((read(named.0)?, read(named.1)?))
}

fn check(protocol: &str, from: i64, to: i64) -> Result<(), ApiError> {
    let invalid = |why: String| Err(bad_request(format!("Invalid port range {from}:{to}. {why}")));
    match protocol.to_uppercase().as_str() {
        "TCP" | "UDP" if from > to => invalid("Former value cannot be greater than the later".to_owned()),
        upper @ ("TCP" | "UDP") if from < 1 || to > 65_535 => invalid(format!("Valid {upper} ports should be between 1-65535")),
        "ICMP" if !(-1..=255).contains(&from) || !(-1..=255).contains(&to) => invalid("For ICMP, the type:code must be valid".to_owned()),
        "TCP" | "UDP" | "ICMP" => Ok(()),
        _ => Err(bad_request(format!("Invalid IP protocol {}", protocol.chars().take(100).collect::<String>()))),
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
