//! The forms of values in requests. Each check returns the value in its stored form, or an error text. Each list has a bound, and sets find
//! duplicates, so that no check takes quadratic time.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::cidr::Cidr;

/// A value in its stored form, or an error text.
pub(super) type Checked = Result<Value, String>;

/// The maximum length of a tag in characters.
pub const TAG_MAX: usize = 60;
/// The maximum number of a resource's tags.
pub const TAGS_MAX: usize = 50;
const NAMESERVERS_MAX: usize = 5;
const HOST_ROUTES_MAX: usize = 20;
/// The maximum number of a router's routes.
pub const ROUTER_ROUTES_MAX: usize = 30;
const POOLS_MAX: usize = 100;
/// The maximum number of a subnet pool's blocks.
pub const PREFIXES_MAX: usize = 100;
const ZONE_HINTS_MAX: usize = 10;
const ADDRESS_PAIRS_MAX: usize = 10;
const DHCP_OPTIONS_MAX: usize = 50;
const SECURITY_GROUPS_MAX: usize = 100;
/// Far above any configured limit: refuses a longer list before other code handles it.
const FIXED_IPS_MAX: usize = 1000;
const TEXT_MAX: usize = 255;
/// The maximum size of a binding's profile, as JSON in bytes.
const PROFILE_MAX: usize = 4095;
/// DHCP options whose value may be empty.
const MAY_BE_EMPTY: &[&str] = &["router", "classless-static-route"];
const SHOWN_MAX: usize = 100;

/// The keys of an object in a request.
pub(super) struct Keys {
    required: &'static [&'static str],
    optional: &'static [&'static str],
}

impl Keys {
    /// Returns all keys.
    pub(super) fn all(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.required.iter().chain(self.optional).copied()
    }
}

pub(super) const FIXED_IP: Keys = Keys { required: &[], optional: &["subnet_id", "ip_address"] };
pub(super) const ADDRESS_PAIR: Keys = Keys { required: &["ip_address"], optional: &["mac_address"] };
pub(super) const DHCP_OPTION: Keys = Keys { required: &["opt_name", "opt_value"], optional: &["ip_version"] };
pub(super) const ROUTE: Keys = Keys { required: &["destination", "nexthop"], optional: &[] };
pub(super) const GATEWAY: Keys = Keys { required: &["network_id"], optional: &["enable_snat", "external_fixed_ips"] };
pub(super) const POOL: Keys = Keys { required: &["start", "end"], optional: &[] };

/// Shortens a text for error messages.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => shortened(text),
        other => shortened(&other.to_string()),
    }
}

fn string(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| format!("'{}' is not a valid string", shown(value)))
}

pub(super) fn text(value: &Value, most: usize) -> Checked {
    if string(value)?.chars().count() > most {
        return Err(format!("'{}' exceeds maximum length of {most}", shown(value)));
    }
    Ok(value.clone())
}

pub(super) fn name(value: &Value, most: usize) -> Checked {
    let name = string(value)?;
    if !name.is_empty() && name.trim().is_empty() {
        return Err(format!("'{name}' is blank"));
    }
    text(value, most)
}

pub(super) fn some_name(value: &Value) -> Checked {
    match string(value)?.trim().is_empty() {
        true => Err("'' Can not be empty".to_owned()),
        false => text(value, TEXT_MAX),
    }
}

pub(super) fn flag(value: &Value) -> Checked {
    let parsed = match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => as_flag(text),
        Value::Number(number) => as_flag(&number.to_string()),
        _ => None,
    };
    parsed.map(Value::Bool).ok_or_else(|| format!("'{}' cannot be converted to boolean", shown(value)))
}

/// Parses a flag.
pub fn as_flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

pub(super) fn number(value: &Value, least: i64, most: i64) -> Checked {
    let number = match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let number = number.ok_or_else(|| format!("'{}' is not an integer", shown(value)))?;
    if (least..=most).contains(&number) {
        return Ok(Value::from(number));
    }
    Err(format!("'{number}' is not in the range of {least} to {most}"))
}

pub(super) fn one_of(value: &Value, options: &[&str]) -> Checked {
    if options.contains(&string(value)?) { Ok(value.clone()) } else { Err(format!("'{}' is not in {options:?}", shown(value))) }
}

fn uuid(value: &Value) -> Result<Uuid, String> {
    Uuid::parse_str(string(value)?).map_err(|_| format!("'{}' is not a valid UUID", shown(value)))
}

pub(super) fn id(value: &Value) -> Checked {
    uuid(value).map(|id| Value::from(id.to_string()))
}

/// An empty text means none, because clients send it.
pub(super) fn id_or_empty(value: &Value) -> Checked {
    if value.as_str() == Some("") { Ok(Value::Null) } else { id(value) }
}

/// Returns the elements of a list, if it is not too long.
fn list<'a>(value: &'a Value, what: &str, most: usize) -> Result<&'a [Value], String> {
    let list = value.as_array().ok_or_else(|| format!("'{}' is not a list of {what}", shown(value)))?;
    if list.len() > most { Err(format!("{} {what} are more than the {most} that are allowed", list.len())) } else { Ok(list) }
}

/// Checks each element, and refuses duplicates.
fn distinct(list: &[Value], check: impl Fn(&Value) -> Checked) -> Checked {
    let (mut seen, mut values) = (HashSet::new(), Vec::with_capacity(list.len()));
    for element in list {
        let element = check(element)?;
        if !seen.insert(element.to_string()) {
            return Err(format!("Duplicate item '{}'", shown(&element)));
        }
        values.push(element);
    }
    Ok(Value::Array(values))
}

/// Returns an object that has these keys and no others.
fn object<'a>(value: &'a Value, Keys { required, optional }: &Keys) -> Result<&'a Map<String, Value>, String> {
    let map = value.as_object().ok_or_else(|| format!("'{}' is not a dictionary", shown(value)))?;
    if let Some(missing) = required.iter().find(|key| !map.contains_key(**key)) {
        return Err(format!("'{}' lacks the key '{missing}'", shown(value)));
    }
    match map.keys().find(|key| !required.contains(&key.as_str()) && !optional.contains(&key.as_str())) {
        Some(unknown) => Err(format!("Unrecognized attribute(s) '{}'", shortened(unknown))),
        None => Ok(map),
    }
}

fn ip(value: &Value) -> Result<IpAddr, String> {
    string(value)?.parse().map_err(|_| format!("'{}' is not a valid IP address", shown(value)))
}

pub(super) fn address(value: &Value) -> Checked {
    ip(value).map(|address| Value::from(address.to_string()))
}

pub(super) fn tags(value: &Value) -> Checked {
    let Some(list) = value.as_array() else { return Err(format!("'{}' is not a list", shown(value))) };
    if list.len() > TAGS_MAX {
        return Err(format!("The number of tags exceed the per-resource limit of {TAGS_MAX}"));
    }
    distinct(list, |tag| match string(tag)? {
        "" => Err("a tag is not empty".to_owned()),
        _ => text(tag, TAG_MAX),
    })
}

pub(super) fn mac(value: &Value) -> Checked {
    let mac = string(value)?.to_ascii_lowercase().replace('-', ":");
    let parts: Vec<&str> = mac.split(':').take(7).collect();
    let sound = parts.len() == 6 && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()));
    if !sound || mac == "00:00:00:00:00:00" {
        return Err(format!("'{}' is not a valid MAC address", shown(value)));
    }
    Ok(Value::from(mac))
}

pub(super) fn fixed_ips(value: &Value) -> Checked {
    distinct_addresses(list(value, "fixed IPs", FIXED_IPS_MAX)?)
}

/// Allows several addresses in one subnet, but no address twice.
fn distinct_addresses(list: &[Value]) -> Checked {
    let (mut seen, mut addresses) = (HashSet::new(), Vec::with_capacity(list.len()));
    for request in list {
        let map = object(request, &FIXED_IP)?;
        let mut fixed = Map::new();
        if let Some(subnet) = map.get("subnet_id").filter(|subnet| !subnet.is_null()) {
            fixed.insert("subnet_id".into(), id(subnet)?);
        }
        if let Some(text) = map.get("ip_address").filter(|text| !text.is_null()) {
            let address = ip(text)?;
            if !seen.insert(address) {
                return Err(format!("Duplicate IP address '{address}'"));
            }
            fixed.insert("ip_address".into(), Value::from(address.to_string()));
        }
        addresses.push(Value::Object(fixed));
    }
    Ok(Value::Array(addresses))
}

pub(super) fn security_groups(value: &Value) -> Checked {
    if value.is_null() {
        return Ok(json!([]));
    }
    distinct(list(value, "security groups", SECURITY_GROUPS_MAX)?, id)
}

pub(super) fn address_pairs(value: &Value) -> Checked {
    if value.is_null() {
        return Ok(json!([]));
    }
    distinct(list(value, "allowed address pairs", ADDRESS_PAIRS_MAX)?, |pair| {
        let map = object(pair, &ADDRESS_PAIR)?;
        let text = string(&map["ip_address"])?;
        let (address, value) = match text.split_once('/') {
            None => (ip(&map["ip_address"])?, address(&map["ip_address"])?),
            Some((first, _)) => {
                let block = Cidr::parse(text).ok_or_else(|| format!("'{}' is not a valid IP subnet", shortened(text)))?;
                (first.parse().map_err(|_| format!("'{}' is not a valid IP subnet", shortened(text)))?, Value::from(block.to_string()))
            }
        };
        if address.is_multicast() {
            return Err(format!("'{}' is a multicast address", shortened(text)));
        }
        let mut pair = Map::from_iter([("ip_address".to_owned(), value)]);
        if let Some(mac_value) = map.get("mac_address").filter(|mac_value| !mac_value.is_null()) {
            pair.insert("mac_address".into(), mac(mac_value)?);
        }
        Ok(Value::Object(pair))
    })
}

pub(super) fn dhcp_options(value: &Value) -> Checked {
    distinct(list(value, "DHCP options", DHCP_OPTIONS_MAX)?, |option| {
        let map = object(option, &DHCP_OPTION)?;
        let name = one_line(&map["opt_name"])?;
        let mut option = Map::from_iter([("opt_name".to_owned(), Value::from(name))]);
        let empty_is_fine = MAY_BE_EMPTY.contains(&name) && map["opt_value"].as_str() == Some("");
        let option_value = match &map["opt_value"] {
            option_text if option_text.is_null() || empty_is_fine => option_text.clone(),
            option_text => Value::from(one_line(option_text)?),
        };
        option.insert("opt_value".into(), option_value);
        if let Some(version) = map.get("ip_version") {
            option.insert("ip_version".into(), ip_version(version)?);
        }
        Ok(Value::Object(option))
    })
}

/// Checks an IP version: 4 or 6.
pub(super) fn ip_version(value: &Value) -> Checked {
    number(value, 4, 6).ok().filter(|version| version.as_i64() != Some(5)).ok_or_else(|| format!("'{}' is not 4 or 6", shown(value)))
}

fn one_line(value: &Value) -> Result<&str, String> {
    let line = string(value)?;
    text(value, TEXT_MAX)?;
    if line.trim().is_empty() || line.contains(['\n', '\r']) {
        return Err(format!("'{}' is empty or has several lines", shown(value)));
    }
    Ok(line)
}

pub(super) fn nameservers(value: &Value) -> Checked {
    if value.is_null() {
        return Ok(json!([]));
    }
    distinct(list(value, "DNS name servers", NAMESERVERS_MAX)?, address)
}

pub(super) fn host_routes(value: &Value) -> Checked {
    routes(value, "host routes", HOST_ROUTES_MAX)
}

pub(super) fn router_routes(value: &Value) -> Checked {
    routes(value, "routes", ROUTER_ROUTES_MAX)
}

fn routes(value: &Value, what: &str, most: usize) -> Checked {
    if value.is_null() {
        return Ok(json!([]));
    }
    distinct(list(value, what, most)?, |route| {
        let map = object(route, &ROUTE)?;
        let (destination, next) = (string(&map["destination"])?, ip(&map["nexthop"])?);
        let wrong = || format!("'{}' is not a valid CIDR", shortened(destination));
        let block = Cidr::parse(destination).ok_or_else(wrong)?;
        // A destination with host bits is not a network.
        if !block.starts_at(destination) {
            return Err(wrong());
        }
        if block.version() != if next.is_ipv6() { 6 } else { 4 } {
            return Err(format!("the nexthop {next} is not of the IP version of {block}"));
        }
        Ok(json!({"destination": block.to_string(), "nexthop": next.to_string()}))
    })
}

/// Checks a router's gateway: an external network, and perhaps addresses on it. An empty object means none.
pub(super) fn gateway(value: &Value) -> Checked {
    if value.as_object().is_some_and(Map::is_empty) {
        return Ok(Value::Null);
    }
    let map = object(value, &GATEWAY)?;
    let mut gateway = Map::from_iter([("network_id".to_owned(), id(&map["network_id"])?)]);
    if let Some(snat) = map.get("enable_snat") {
        gateway.insert("enable_snat".into(), flag(snat)?);
    }
    if let Some(addresses) = map.get("external_fixed_ips").filter(|addresses| !addresses.is_null()) {
        gateway.insert("external_fixed_ips".into(), fixed_ips(addresses)?);
    }
    Ok(Value::Object(gateway))
}

/// Checks hints of availability zones. There are no zones of networks and routers, so the list is empty.
pub(super) fn zone_hints(value: &Value) -> Checked {
    match list(value, "availability zones", ZONE_HINTS_MAX)?.first() {
        None => Ok(json!([])),
        Some(zone) => Err(format!("AvailabilityZone {} could not be found", shown(zone))),
    }
}

pub(super) fn pools(value: &Value) -> Checked {
    distinct(list(value, "allocation pools", POOLS_MAX)?, |pool| {
        let map = object(pool, &POOL)?;
        Ok(json!({"start": address(&map["start"])?, "end": address(&map["end"])?}))
    })
}

/// Checks a block of addresses. The stored one has no host bits.
pub(super) fn block(value: &Value) -> Checked {
    let text = string(value)?;
    let block = Cidr::parse(text).ok_or_else(|| format!("'{}' is not a valid IP subnet", shortened(text)))?;
    Ok(Value::from(block.to_string()))
}

pub(super) fn prefixes(value: &Value) -> Checked {
    distinct(list(value, "prefixes", PREFIXES_MAX)?, block)
}

pub(super) fn profile(value: &Value) -> Checked {
    if !value.is_object() {
        return Err(format!("'{}' is not a dictionary", shown(value)));
    }
    if value.to_string().len() > PROFILE_MAX {
        return Err(format!("the profile is larger than {PROFILE_MAX} bytes"));
    }
    Ok(value.clone())
}

pub(super) fn ethertype(value: &Value) -> Checked {
    let ethertype = ["IPv4", "IPv6"].into_iter().find(|ethertype| value.as_str().is_some_and(|word| word.eq_ignore_ascii_case(ethertype)));
    match ethertype {
        Some(ethertype) => Ok(Value::from(ethertype)),
        None if value.as_str() == Some("") => Ok(Value::Null),
        None => Err(format!("'{}' is not in ['IPv4', 'IPv6']", shown(value))),
    }
}

/// Checks a protocol: a known name or a number from 0 to 255. "any" and an empty text mean none.
pub(super) fn protocol(value: &Value) -> Checked {
    let protocol = match value {
        Value::String(text) => text.to_ascii_lowercase(),
        other => other.to_string(),
    };
    if protocol.is_empty() || protocol == "any" {
        return Ok(Value::Null);
    }
    match super::security_groups::protocols::number(&protocol) {
        // 0 means none too.
        Some(0) if protocol == "0" => Ok(Value::Null),
        Some(_) => Ok(Value::from(protocol)),
        None => Err(format!("'{}' is not a known protocol, nor an integer of 0 to 255", shown(value))),
    }
}

pub(super) fn port_number(value: &Value) -> Checked {
    if value.as_str() == Some("") {
        return Ok(Value::Null);
    }
    let number = number(value, i64::MIN, i64::MAX)?;
    if number.as_i64().is_some_and(|number| (0..=65_535).contains(&number)) {
        Ok(number)
    } else {
        Err(format!("Invalid value for port {number}"))
    }
}

/// Checks a block. A single address becomes a block of one address.
pub(super) fn prefix(value: &Value) -> Checked {
    let text = string(value)?;
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let whole = |address: IpAddr| format!("{address}/{}", if address.is_ipv6() { 128 } else { 32 });
    match (Cidr::parse(text), text.parse::<IpAddr>()) {
        // Keeps the request's host bits, as Neutron does.
        (Some(_), _) => Ok(value.clone()),
        (None, Ok(address)) => Ok(Value::from(whole(address))),
        (None, Err(_)) => Err(format!("'{}' is not a valid CIDR", shortened(text))),
    }
}
