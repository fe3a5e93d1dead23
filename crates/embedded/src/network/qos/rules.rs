//! The rules of a QoS policy that Neutron refuses beside others, and those that must not change while a server has a port.

use cellshift_store::Conn;

use crate::ServiceError;
use crate::network::in_use;
use crate::network::ports::records as ports;
use crate::network::records::{QosRule, QosRuleKind};
use crate::transaction::TransactionError;

/// Refuses a rule that another one of its policy excludes.
pub(in crate::network) fn fits_beside(rule: &QosRule, of_policy: &[QosRule]) -> Result<(), TransactionError> {
    let (policy, kind) = (rule.policy_id, rule.kind.name());
    for other in of_policy.iter().filter(|other| other.id != rule.id) {
        let value = |value: &dyn std::fmt::Display, existing: &dyn std::fmt::Display| {
            in_use(format!(
                "Unable to add the rule with value {value} to the policy {policy} as the existing rule of type {} restricts the same with \
                 value as {existing}",
                other.kind.name()
            ))
        };
        let mixes = (rule.direction == "any") != (other.direction == "any");
        match (rule.kind, other.kind) {
            (one, another) if one == another && rule.direction == other.direction => {
                return Err(in_use(format!("Rule {kind} conflicts with rule {} which already exists in QoS Policy {policy}.", other.id)));
            }
            (QosRuleKind::MinimumPacketRate, QosRuleKind::MinimumPacketRate) if mixes => {
                return Err(value(&rule.direction, &other.direction));
            }
            (QosRuleKind::MinimumBandwidth, QosRuleKind::BandwidthLimit)
                if rule.direction == other.direction && rule.amount > other.amount =>
            {
                return Err(value(&rule.amount, &other.amount));
            }
            (QosRuleKind::BandwidthLimit, QosRuleKind::MinimumBandwidth)
                if rule.direction == other.direction && rule.amount < other.amount =>
            {
                return Err(value(&rule.amount, &other.amount));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses a change of a guaranteed minimum while servers have ports with its policy: placement has allocated it for them.
pub(in crate::network) fn may_change(conn: &mut Conn, rule: &QosRule) -> Result<(), TransactionError> {
    let guarantees = matches!(rule.kind, QosRuleKind::MinimumBandwidth | QosRuleKind::MinimumPacketRate);
    if guarantees && ports::count_of_servers_with_qos_policy(conn, &rule.policy_id.to_string())? > 0 {
        return Err(ServiceError::NotImplemented("Cannot update QoS policies/rules backed by resources tracked in Placement".into()).into());
    }
    Ok(())
}
