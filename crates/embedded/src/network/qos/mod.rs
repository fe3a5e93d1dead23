//! QoS policies and their rules.

pub(super) mod records;
pub(super) mod routes;
mod rules;

use cellshift_domain::reason;
use std::collections::BTreeMap;

use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError, Of};
use uuid::Uuid;

use super::attributes::{QOS_POLICY_ITSELF, QOS_RULE, checked};
use super::change::Change;
use super::ports::records as ports;
use super::records::{Attributes, QosPolicy, QosRule, QosRuleKind, Scope, patched, take_owner};
use super::{EmbeddedNetwork, absent, in_use};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use records::{self as table, PolicyRow, RuleRow};

/// The marks that RFC 2474 and its successors define.
const DSCP_MARKS: [i64; 22] = [0, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 44, 46, 48, 56];

impl EmbeddedNetwork {
    /// Returns the policies that the caller may use, with their rules, oldest first.
    pub async fn qos_policies(&self, scope: Scope) -> Result<Vec<QosPolicy>, ServiceError> {
        self.read(move |conn| {
            let rows = table::list(conn)?.into_iter().filter(|row| scope.may_see(&row.project_id, row.shared)).collect();
            Ok(records(conn, rows, Of::All)?)
        })
        .await
    }

    /// Returns a policy that the caller may use.
    pub async fn qos_policy(&self, scope: Scope, id: Uuid) -> Result<QosPolicy, ServiceError> {
        self.read(move |conn| visible(conn, &scope, id)).await
    }

    /// Makes a policy without rules. Only administrators may.
    pub async fn create_qos_policy(&self, scope: Scope, mut attributes: Attributes) -> Result<QosPolicy, ServiceError> {
        administrators_only(&scope)?;
        let project_id = take_owner(&scope, &mut attributes)?;
        let now = self.now();
        let blank = QosPolicy { id: self.new_id(), project_id, created_at: now, updated_at: now, ..QosPolicy::default() };
        let policy = patched(&blank, &checked(QOS_POLICY_ITSELF, attributes, true)?)?;
        self.write(None, move |conn| {
            check_default(conn, &policy)?;
            table::insert(conn, &row(&policy)?)?;
            Ok(policy)
        })
        .await
    }

    /// Changes a policy. Only administrators may.
    pub async fn update_qos_policy(&self, scope: Scope, id: Uuid, change: impl Into<Change>) -> Result<QosPolicy, ServiceError> {
        administrators_only(&scope)?;
        let (now, change) = (self.now(), change.into().checked(QOS_POLICY_ITSELF)?);
        self.write(None, move |conn| {
            table::hold(conn, &id.to_string())?;
            let before = visible(conn, &scope, id)?;
            let mut after = patched(&before, &change.on(&before.tags)?)?;
            after.updated_at = now;
            check_default(conn, &after)?;
            table::save(conn, &row(&after)?)?;
            Ok(after)
        })
        .await
    }

    /// Deletes a policy. Conflict while a port or a network names it.
    pub async fn delete_qos_policy(&self, scope: Scope, id: Uuid) -> Result<(), ServiceError> {
        administrators_only(&scope)?;
        self.write(None, move |conn| {
            visible(conn, &scope, id)?;
            let text = id.to_string();
            if ports::count_with_qos_policy(conn, &text)? + table::count_networks(conn, &text)? > 0 {
                return Err(in_use(format!("QoS Policy {id} is used by a port or a network.")));
            }
            table::delete(conn, &text)?;
            Ok(())
        })
        .await
    }

    /// Adds a rule. Only administrators may. Conflict if the policy has a rule of this kind and direction.
    pub async fn create_qos_rule(
        &self,
        scope: Scope,
        policy: Uuid,
        kind: QosRuleKind,
        attributes: Attributes,
    ) -> Result<QosRule, ServiceError> {
        administrators_only(&scope)?;
        let blank = QosRule { id: self.new_id(), policy_id: policy, kind, direction: "egress".into(), amount: -1, burst: None };
        let rule = with_attributes(blank, attributes)?;
        self.write(None, move |conn| {
            table::hold(conn, &policy.to_string())?;
            let others = visible(conn, &scope, policy)?.rules;
            rules::fits_beside(&rule, &others)?;
            rules::may_change(conn, &rule)?;
            table::insert_rule(conn, &rule_row(&rule))?;
            Ok(rule)
        })
        .await
    }

    /// Changes a rule. Only administrators may.
    pub async fn update_qos_rule(&self, scope: Scope, policy: Uuid, id: Uuid, attributes: Attributes) -> Result<QosRule, ServiceError> {
        administrators_only(&scope)?;
        self.write(None, move |conn| {
            table::hold(conn, &policy.to_string())?;
            let rule = with_attributes(rule_of(conn, &scope, policy, id)?, attributes)?;
            rules::fits_beside(&rule, &visible(conn, &scope, policy)?.rules)?;
            rules::may_change(conn, &rule)?;
            table::save_rule(conn, &rule_row(&rule))?;
            Ok(rule)
        })
        .await
    }

    /// Removes a rule. Only administrators may.
    pub async fn delete_qos_rule(&self, scope: Scope, policy: Uuid, id: Uuid) -> Result<(), ServiceError> {
        administrators_only(&scope)?;
        self.write(None, move |conn| {
            table::hold(conn, &policy.to_string())?;
            let rule = rule_of(conn, &scope, policy, id)?;
            rules::may_change(conn, &rule)?;
            table::delete_rule(conn, &id.to_string())?;
            Ok(())
        })
        .await
    }
}

/// Refuses a second default policy of a project. The database refuses the second of two that are made at once.
fn check_default(conn: &mut Conn, policy: &QosPolicy) -> Result<(), TransactionError> {
    let other = if policy.is_default { table::default_of(conn, &policy.project_id)? } else { None };
    match other.filter(|id| *id != policy.id.to_string()) {
        Some(_) => Err(in_use(format!("A default QoS policy exists for project {}.", policy.project_id))),
        None => Ok(()),
    }
}

/// Returns the default policy of a project, which its new networks get.
pub(super) fn default_of(conn: &mut Conn, project: &str) -> Result<Option<Uuid>, DbError> {
    table::default_of(conn, project)?.map(|id| read_id("qos_policies.id", &id)).transpose()
}

/// Refuses a policy that the caller may not use.
pub(super) fn check_policy(conn: &mut Conn, scope: &Scope, policy: Option<Uuid>) -> Result<(), TransactionError> {
    policy.map_or(Ok(()), |id| visible(conn, scope, id).map(|_| ()))
}

/// Converts a row into a rule for callers.
pub(super) fn rule(row: RuleRow) -> Result<QosRule, DbError> {
    Ok(QosRule {
        id: read_id("qos_rules.id", &row.id)?,
        policy_id: read_id("qos_rules.policy_id", &row.policy_id)?,
        kind: QosRuleKind::parse(&row.kind).ok_or_else(|| DbError::unreadable("qos_rules.kind", &row.kind))?,
        direction: row.direction,
        amount: row.amount,
        burst: row.burst,
    })
}

fn administrators_only(scope: &Scope) -> Result<(), ServiceError> {
    if scope.admin { Ok(()) } else { Err(ServiceError::Forbidden("Changing QoS policies is disallowed by policy".into())) }
}

fn with_attributes(mut rule: QosRule, attributes: Attributes) -> Result<QosRule, ServiceError> {
    let (amount, burst) = rule.kind.attributes();
    let mut changes = Attributes::new();
    for (name, value) in attributes {
        let column = match name.as_str() {
            "direction" if rule.kind.has_direction() => "direction",
            name if name == amount => "amount",
            name if Some(name) == burst => "burst",
            other => return Err(ServiceError::Invalid(reason!("Unrecognized attribute '{other}' for a {} rule", rule.kind.name()))),
        };
        changes.insert(column.to_owned(), value);
    }
    rule = patched(&rule, &checked(QOS_RULE, changes, true)?)?;
    let directions: &[&str] =
        if rule.kind == QosRuleKind::MinimumPacketRate { &["egress", "ingress", "any"] } else { &["egress", "ingress"] };
    if !directions.contains(&rule.direction.as_str()) {
        return Err(ServiceError::Invalid(reason!("Invalid input for direction. Reason: '{}' is not in {directions:?}.", rule.direction)));
    }
    if rule.kind == QosRuleKind::DscpMarking && !DSCP_MARKS.contains(&rule.amount) {
        return Err(ServiceError::Invalid(reason!("Invalid input for dscp_mark. Reason: '{}' is not in {DSCP_MARKS:?}.", rule.amount)));
    }
    if rule.amount < 0 || rule.burst.is_some_and(|burst| burst < 0) {
        return Err(ServiceError::Invalid(reason!("A {} rule needs {amount}, a number that is not negative", rule.kind.name())));
    }
    Ok(rule)
}

fn rule_of(conn: &mut Conn, scope: &Scope, policy: Uuid, id: Uuid) -> Result<QosRule, TransactionError> {
    let stored = visible(conn, scope, policy)?.rules.into_iter().find(|rule| rule.id == id);
    stored.ok_or_else(|| absent("QoS rule", id))
}

fn visible(conn: &mut Conn, scope: &Scope, id: Uuid) -> Result<QosPolicy, TransactionError> {
    let row = table::find(conn, &id.to_string())?.filter(|row| scope.may_see(&row.project_id, row.shared));
    let row = row.ok_or_else(|| absent("QoS policy", id))?;
    records(conn, vec![row], Of::These(&[id.to_string()]))?.pop().ok_or_else(|| absent("QoS policy", id))
}

fn records(conn: &mut Conn, rows: Vec<PolicyRow>, of: Of<'_>) -> Result<Vec<QosPolicy>, DbError> {
    let mut rules: BTreeMap<String, Vec<QosRule>> = BTreeMap::new();
    for row in table::rules(conn, of)? {
        rules.entry(row.policy_id.clone()).or_default().push(rule(row)?);
    }
    rows.into_iter()
        .map(|row| {
            Ok(QosPolicy {
                id: read_id("qos_policies.id", &row.id)?,
                rules: rules.remove(&row.id).unwrap_or_default(),
                name: row.name,
                project_id: row.project_id,
                description: row.description,
                shared: row.shared,
                is_default: row.is_default,
                tags: serde_json::from_str(&row.tags)?,
                created_at: row.created_at.and_utc(),
                updated_at: row.updated_at.and_utc(),
            })
        })
        .collect()
}

fn row(policy: &QosPolicy) -> Result<PolicyRow, DbError> {
    Ok(PolicyRow {
        id: policy.id.to_string(),
        name: policy.name.clone(),
        project_id: policy.project_id.clone(),
        description: policy.description.clone(),
        shared: policy.shared,
        is_default: policy.is_default,
        tags: serde_json::to_string(&policy.tags)?,
        created_at: policy.created_at.naive_utc(),
        updated_at: policy.updated_at.naive_utc(),
    })
}

fn rule_row(rule: &QosRule) -> RuleRow {
    RuleRow {
        id: rule.id.to_string(),
        policy_id: rule.policy_id.to_string(),
        kind: rule.kind.name().to_owned(),
        direction: rule.direction.clone(),
        amount: rule.amount,
        burst: rule.burst,
    }
}
