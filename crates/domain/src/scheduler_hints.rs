//! Scheduler hints: a user's wishes for the host of a server, kept for its later moves.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;
use uuid::Uuid;

use super::host_query::HostQuery;

/// Hints by name.
pub type Hints = BTreeMap<String, Value>;

/// Servers; the server must share a host with one of them.
pub const SAME_HOST: &str = "same_host";
/// Servers; the server must not share a host with any of them.
pub const DIFFERENT_HOST: &str = "different_host";
const NEAR: &str = "build_near_host_ip";
const CIDR: &str = "cidr";
const QUERY: &str = "query";

/// The API's hints, each with the filter that follows it; none for a hint that no filter follows.
const HINTS: [(&str, Option<&str>); 7] = [
    (SAME_HOST, Some("SameHostFilter")),
    (DIFFERENT_HOST, Some("DifferentHostFilter")),
    (NEAR, Some("SimpleCIDRAffinityFilter")),
    (CIDR, Some("SimpleCIDRAffinityFilter")),
    (QUERY, Some("JsonFilter")),
    ("target_cell", None),
    ("different_cell", None),
];

/// Refuses malformed hints, and hints that no enabled filter would follow: a wish is not ignored silently.
pub fn check(hints: &Hints, enabled_filters: &[String]) -> Result<(), String> {
    for (hint, filter) in HINTS.iter().filter(|(hint, _)| hints.contains_key(*hint)) {
        match filter {
            Some(filter) if enabled_filters.iter().any(|enabled| enabled == filter) => {}
            Some(filter) => return Err(format!("The scheduler hint {hint} cannot be followed: {filter} is not enabled.")),
            None => return Err(format!("The scheduler hint {hint} is not supported.")),
        }
    }
    for hint in [SAME_HOST, DIFFERENT_HOST] {
        if texts(hints, hint).iter().any(|text| Uuid::parse_str(text).is_err()) {
            return Err(format!("The scheduler hint {hint} must name servers by their ids."));
        }
    }
    neighbourhood(hints)?;
    query(hints)?;
    Ok(())
}

/// Returns the servers that a hint names: one, or a list.
pub fn servers_named(hints: &Hints, hint: &str) -> Vec<Uuid> {
    texts(hints, hint).into_iter().filter_map(|text| Uuid::parse_str(text).ok()).collect()
}

fn texts<'a>(hints: &'a Hints, hint: &str) -> Vec<&'a str> {
    match hints.get(hint) {
        Some(Value::Array(several)) => several.iter().map(|one| one.as_str().unwrap_or_default()).collect(),
        Some(one) => vec![one.as_str().unwrap_or_default()],
        None => Vec::new(),
    }
}

/// Returns the condition on hosts in the hint `query`.
pub fn query(hints: &Hints) -> Result<Option<HostQuery>, String> {
    let Some(hint) = hints.get(QUERY) else { return Ok(None) };
    let read = hint.as_str().ok_or("it must be a list, written as text".to_owned()).and_then(HostQuery::parse);
    read.map(Some).map_err(|why| format!("The scheduler hint {QUERY} cannot be read: {why}."))
}

/// A network around an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbourhood {
    address: IpAddr,
    /// The number of leading bits that its addresses share.
    prefix: u32,
}

impl Neighbourhood {
    /// True if the address is in the network. An address of the other family never is.
    pub fn contains(&self, other: IpAddr) -> bool {
        let (width, differing) = match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (32, u128::from(u32::from(own) ^ u32::from(other))),
            (IpAddr::V6(own), IpAddr::V6(other)) => (128, u128::from(own) ^ u128::from(other)),
            _ => return false,
        };
        differing.checked_shr(width - self.prefix).unwrap_or(0) == 0
    }
}

/// Returns the network of the hints `build_near_host_ip` and `cidr`. By default `cidr` is `/24`.
pub fn neighbourhood(hints: &Hints) -> Result<Option<Neighbourhood>, String> {
    let Some(near) = hints.get(NEAR) else {
        return match hints.contains_key(CIDR) {
            true => Err(format!("The scheduler hint {CIDR} needs {NEAR} beside it.")),
            false => Ok(None),
        };
    };
    let wrong = |hint: &str| format!("The scheduler hint {hint} cannot be read.");
    let address: IpAddr = near.as_str().and_then(|text| text.parse().ok()).ok_or_else(|| wrong(NEAR))?;
    let cidr = hints.get(CIDR).map_or(Some("/24"), Value::as_str);
    let prefix = cidr.and_then(|text| prefix(text.strip_prefix('/')?, address)).ok_or_else(|| wrong(CIDR))?;
    Ok(Some(Neighbourhood { address, prefix }))
}

/// Parses a number of bits, or a mask of the address's family.
fn prefix(text: &str, address: IpAddr) -> Option<u32> {
    let width = if address.is_ipv4() { 32 } else { 128 };
    if let Ok(bits) = text.parse::<u32>() {
        return Some(bits).filter(|bits| *bits <= width);
    }
    let mask = match text.parse().ok()? {
        IpAddr::V4(mask) if address.is_ipv4() => u128::from(u32::from(mask)) << 96,
        IpAddr::V6(mask) if address.is_ipv6() => u128::from(mask),
        _ => return None,
    };
    let bits = mask.leading_ones();
    (mask.checked_shl(bits).unwrap_or(0) == 0).then_some(bits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hints(value: Value) -> Hints {
        value.as_object().unwrap().clone().into_iter().collect()
    }

    #[test]
    fn an_address_is_near_or_not() {
        for (value, address, near) in [
            (json!({"build_near_host_ip": "10.0.1.7"}), "10.0.1.200", true),
            (json!({"build_near_host_ip": "10.0.1.7"}), "10.0.2.7", false),
            (json!({"build_near_host_ip": "10.0.1.7", "cidr": "/16"}), "10.0.2.7", true),
            (json!({"build_near_host_ip": "10.0.1.7", "cidr": "/255.255.255.255"}), "10.0.1.8", false),
            (json!({"build_near_host_ip": "10.0.1.7", "cidr": "/0"}), "99.0.1.8", true),
            (json!({"build_near_host_ip": "10.0.1.7", "cidr": "/0"}), "fd00::1", false),
            (json!({"build_near_host_ip": "fd00::1", "cidr": "/64"}), "fd00::2", true),
            (json!({"build_near_host_ip": "fd00::1", "cidr": "/128"}), "fd00::2", false),
        ] {
            let network = neighbourhood(&hints(value.clone())).unwrap().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), near, "{value} {address}");
        }
    }

    #[test]
    fn a_hint_that_would_be_passed_over_is_refused() {
        let enabled = ["SameHostFilter", "DifferentHostFilter", "SimpleCIDRAffinityFilter", "JsonFilter"].map(str::to_owned);
        let id = Uuid::from_u128(7);
        for good in [
            json!({}),
            json!({"same_host": id, "different_host": [id, id], "query": "[]", "mine": "is shown"}),
            json!({"build_near_host_ip": "10.0.0.1", "cidr": "/8"}),
        ] {
            assert_eq!(check(&hints(good.clone()), &enabled), Ok(()), "{good}");
        }
        assert!(check(&hints(json!({"same_host": id})), &[]).is_err(), "no filter follows it");
        for wrong in [
            json!({"same_host": "web-1"}),
            json!({"query": {"=": 1}}),
            json!({"query": "[\"?\"]"}),
            json!({"cidr": "/8"}),
            json!({"build_near_host_ip": "here"}),
            json!({"build_near_host_ip": "10.0.0.1", "cidr": "/33"}),
            json!({"build_near_host_ip": "10.0.0.1", "cidr": "/255.0.255.0"}),
            json!({"build_near_host_ip": "10.0.0.1", "cidr": "/ffff::"}),
            json!({"target_cell": "cell1"}),
            json!({"different_cell": "cell1"}),
        ] {
            assert!(check(&hints(wrong.clone()), &enabled).is_err(), "{wrong}");
        }
    }
}
