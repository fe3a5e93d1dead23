//! The IP protocols of security group rules, and the ports, types and ethertypes that fit each.

use crate::ServiceError;
use crate::network::cidr::Cidr;
use crate::network::records::SecurityGroupRule;
use cellshift_domain::reason;
use cellshift_domain::reason::Reason;

const NAMES: &[(&str, u8)] = &[
    ("ah", 51),
    ("dccp", 33),
    ("egp", 8),
    ("esp", 50),
    ("gre", 47),
    ("hopopt", 0),
    ("icmp", 1),
    ("icmpv6", 58),
    ("igmp", 2),
    ("ip", 0),
    ("ipip", 4),
    ("ipv6-encap", 41),
    ("ipv6-frag", 44),
    ("ipv6-icmp", 58),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("ipv6-route", 43),
    ("ospf", 89),
    ("pgm", 113),
    ("rsvp", 46),
    ("sctp", 132),
    ("tcp", 6),
    ("udp", 17),
    ("udplite", 136),
    ("vrrp", 112),
];
/// Protocols that exist only in IPv6.
const OF_IPV6: &[u8] = &[41, 43, 44, 58, 59, 60];
/// Protocols with ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: &[u8] = &[6, 17, 33, 132, 136];
const ICMP: &[u8] = &[1, 58];

/// Returns the number for a protocol's name or digits.
pub(in crate::network) fn number(protocol: &str) -> Option<u8> {
    let number = NAMES.iter().find(|(name, _)| *name == protocol).map(|(_, number)| *number);
    number.or_else(|| protocol.bytes().all(|b| b.is_ascii_digit()).then(|| protocol.parse().ok()).flatten())
}

/// Refuses a rule whose parts do not fit together; the form of each part has been checked. Spells ICMP as the rule's IP version does.
pub(in crate::network) fn check(rule: &mut SecurityGroupRule) -> Result<(), ServiceError> {
    if rule.ethertype == "IPv6" {
        match rule.protocol.as_deref() {
            Some("icmp" | "icmpv6") => rule.protocol = Some("ipv6-icmp".into()),
            Some("1") => rule.protocol = Some("58".into()),
            _ => {}
        }
    }
    if (rule.port_range_min, rule.port_range_max) == (Some(1), Some(65_535)) {
        (rule.port_range_min, rule.port_range_max) = (None, None);
    }
    check_ports(rule).and_then(|()| check_version(rule)).map_err(ServiceError::Invalid)?;
    if rule.remote_ip_prefix.is_some() && rule.remote_group_id.is_some() {
        return Err(ServiceError::Invalid("Only remote_ip_prefix or remote_group_id may be provided.".into()));
    }
    Ok(())
}

fn check_ports(rule: &SecurityGroupRule) -> Result<(), Reason> {
    let (low, high) = (rule.port_range_min, rule.port_range_max);
    if low.is_none() && high.is_none() {
        return Ok(());
    }
    let Some(name) = &rule.protocol else { return Err("Must also specify protocol if port range is given.".into()) };
    match number(name) {
        Some(protocol) if WITH_PORTS.contains(&protocol) => match low.zip(high) {
            Some((low, high)) if low > 0 && low <= high => Ok(()),
            _ if low == Some(0) || high == Some(0) => Err("Invalid value for port 0".into()),
            _ => Err("For TCP/UDP protocols, port_range_min must be <= port_range_max".into()),
        },
        Some(protocol) if ICMP.contains(&protocol) => {
            let parts = [("type", "port_range_min", low), ("code", "port_range_max", high)];
            for (field, attribute, value) in parts {
                if let Some(value) = value.filter(|value| !(0..=255).contains(value)) {
                    return Err(reason!("Invalid value for ICMP {field} ({attribute}) {value}. It must be 0 to 255."));
                }
            }
            match (low, high) {
                (None, Some(code)) => {
                    Err(reason!("ICMP code (port-range-max) {code} is provided but ICMP type (port-range-min) is missing."))
                }
                _ => Ok(()),
            }
        }
        _ => Err(reason!("Invalid protocol {name} for port range, only valid for TCP, UDP, DCCP, SCTP and UDPLITE.")),
    }
}

fn check_version(rule: &SecurityGroupRule) -> Result<(), Reason> {
    let (ethertype, version) = (&rule.ethertype, if rule.ethertype == "IPv6" { 6 } else { 4 });
    if let Some(name) = rule.protocol.as_ref().filter(|name| version == 4 && number(name).is_some_and(|n| OF_IPV6.contains(&n))) {
        return Err(reason!("Invalid ethertype {ethertype} for protocol {name}."));
    }
    match &rule.remote_ip_prefix {
        Some(prefix) if Cidr::parse(prefix).is_none_or(|block| block.version() != version) => {
            Err(reason!("Conflicting value ethertype {ethertype} for CIDR {prefix}"))
        }
        _ => Ok(()),
    }
}
