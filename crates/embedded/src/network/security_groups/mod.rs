//! Security groups and rules. Each project has a group named `default`, which is made when it is first needed.

pub(super) mod protocols;
pub(super) mod records;
pub(super) mod routes;
pub(super) mod rule_routes;

use std::collections::{BTreeMap, HashSet};

use cellshift_domain::quota_grant::QuotaGrant;
use cellshift_domain::reason;
use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError, Of};
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::attributes::{SECURITY_GROUP, SECURITY_GROUP_RULE, checked};
use super::change::Change;
use super::ports::records as ports;
use super::records::{Attributes, Scope, SecurityGroup, SecurityGroupRule, patched, take_id, take_owner};
use super::{EmbeddedNetwork, absent, in_use, quotas};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use records::{self as table, GroupRow, RuleRow};

const DEFAULT: &str = "default";

impl EmbeddedNetwork {
    /// Returns the project's default group. Makes it with its rules if there is none.
    pub async fn default_security_group(&self, project: String) -> Result<Uuid, ServiceError> {
        let of = project.clone();
        if let Some(id) = self.read(move |conn| default_id(conn, &of)).await? {
            return Ok(id);
        }
        self.make_turn(&project).await?;
        let default = self.new_default(project);
        self.write(None, move |conn| default.ensure(conn)).await
    }

    /// Prepares a default group for the project, in case it has none.
    pub(super) fn new_default(&self, project: String) -> DefaultGroup {
        let group = self.new_group(DEFAULT, project, "Default security group");
        let rules = self.rules_of_new_group(&group, true);
        DefaultGroup { group, rules }
    }

    /// Returns the groups that the caller may see, with their rules, oldest first.
    pub async fn security_groups(&self, scope: Scope) -> Result<Vec<SecurityGroup>, ServiceError> {
        // A caller without a project (system scope) has no default group.
        if !scope.project_id.is_empty() {
            self.default_security_group(scope.project_id.clone()).await?;
        }
        self.read(move |conn| {
            let rows = table::list(conn)?.into_iter().filter(|row| scope.may_see(&row.project_id, false)).collect();
            Ok(records(conn, rows, Of::All)?)
        })
        .await
    }

    /// Returns a group that the caller may see.
    pub async fn security_group(&self, scope: Scope, id: Uuid) -> Result<SecurityGroup, ServiceError> {
        self.read(move |conn| Ok(visible(conn, &scope, id)?.0)).await
    }

    /// Makes a group that allows all outgoing and no incoming traffic.
    pub async fn create_security_group(&self, scope: Scope, mut attributes: Attributes) -> Result<SecurityGroup, ServiceError> {
        let project = take_owner(&scope, &mut attributes)?;
        let default = self.new_default(project.clone());
        let group = patched(&self.new_group("", project, ""), &checked(SECURITY_GROUP, attributes, true)?)?;
        if group.name.eq_ignore_ascii_case(DEFAULT) {
            return Err(ServiceError::Conflict("Default security group already exists.".into()));
        }
        let rules = self.rules_of_new_group(&group, false);
        let limits = self.limits.clone();
        self.make_turn(&group.project_id).await?;
        self.write(None, move |conn| {
            default.ensure(conn)?;
            let granted = quotas::take(conn, &limits, &group.project_id)?;
            let rules = quotas::take_for_each(conn, &limits, &group.project_id, &rules)?;
            insert(conn, granted, &group, false, rules)?;
            Ok(visible(conn, &scope, group.id)?.0)
        })
        .await
    }

    /// Changes a group. The default group keeps its name.
    pub async fn update_security_group(&self, scope: Scope, id: Uuid, change: impl Into<Change>) -> Result<SecurityGroup, ServiceError> {
        let (now, change) = (self.now(), change.into().checked(SECURITY_GROUP)?);
        self.write(None, move |conn| {
            table::hold(conn, &id.to_string())?;
            let (before, is_default) = visible(conn, &scope, id)?;
            let mut after = patched(&before, &change.on(&before.tags)?)?;
            if is_default && after.name != before.name {
                return Err(in_use("Updating the name of the default security group is not allowed.".into()));
            }
            if !is_default && after.name.eq_ignore_ascii_case(DEFAULT) {
                return Err(in_use("Default security group already exists.".into()));
            }
            after.updated_at = now;
            table::save(conn, &row(&after, is_default)?)?;
            Ok(after)
        })
        .await
    }

    /// Deletes a group. Conflict if a port names it. Only administrators may delete a default group.
    pub async fn delete_security_group(&self, scope: Scope, id: Uuid) -> Result<(), ServiceError> {
        self.write(None, move |conn| {
            let (_, is_default) = visible(conn, &scope, id)?;
            if is_default && !scope.admin {
                return Err(in_use("Insufficient rights for removing default security group.".into()));
            }
            if ports::count_with_security_group(conn, &id.to_string())? > 0 {
                return Err(in_use(format!("Security Group {id} in use.")));
            }
            table::delete(conn, &id.to_string())?;
            Ok(())
        })
        .await
    }

    /// Adds a rule. Conflict if the group has an equal rule.
    pub async fn create_security_group_rule(&self, scope: Scope, mut attributes: Attributes) -> Result<SecurityGroupRule, ServiceError> {
        let project_id = take_owner(&scope, &mut attributes)?;
        let group = take_id(&mut attributes, "security_group_id")?;
        if !attributes.contains_key("direction") {
            return Err(ServiceError::Invalid("Failed to parse request. Required attribute 'direction' not specified".into()));
        }
        if let Some(named) =
            attributes.get("remote_group_id").and_then(Value::as_str).filter(|id| !id.is_empty() && Uuid::parse_str(id).is_err())
        {
            // As in Neutron any text names a group, which may be missing.
            return Err(ServiceError::NotFound(reason!("Security group {named:.255} could not be found.")));
        }
        let mut attributes = checked(SECURITY_GROUP_RULE, attributes, true)?;
        // Null means "any", or the default.
        attributes.retain(|_, value| !value.is_null());
        let blank = new_rule(self.new_id(), group, &project_id, ("ingress", "IPv4"), None, self.now());
        let mut rule = patched(&blank, &attributes)?;
        protocols::check(&mut rule)?;
        let limits = self.limits.clone();
        self.make_turn(&rule.project_id).await?;
        self.write(None, move |conn| {
            let (group, _) = visible(conn, &scope, rule.security_group_id)?;
            let granted = quotas::take(conn, &limits, &rule.project_id)?;
            if let Some(remote) = rule.remote_group_id {
                visible(conn, &scope, remote)?;
            }
            let same = |other: &&SecurityGroupRule| {
                SecurityGroupRule { id: rule.id, created_at: rule.created_at, description: rule.description.clone(), ..(*other).clone() }
                    == rule
            };
            if let Some(other) = group.security_group_rules.iter().find(same) {
                return Err(in_use(format!("Security group rule already exists. Rule id is {}.", other.id)));
            }
            table::insert_rule(conn, granted, &rule_row(&rule))?;
            Ok(rule)
        })
        .await
    }

    /// Removes a rule.
    pub async fn delete_security_group_rule(&self, scope: Scope, id: Uuid) -> Result<(), ServiceError> {
        self.write(None, move |conn| {
            let rule_row = table::find_rule(conn, &id.to_string())?;
            if rule_row.is_none_or(|row| !scope.may_see(&row.project_id, false)) {
                return Err(absent("Security group rule", id));
            }
            table::delete_rule(conn, &id.to_string())?;
            Ok(())
        })
        .await
    }

    fn new_group(&self, name: &str, project_id: String, description: &str) -> SecurityGroup {
        let now = self.now();
        SecurityGroup {
            id: self.new_id(),
            name: name.to_owned(),
            project_id,
            description: description.to_owned(),
            stateful: true,
            tags: Vec::new(),
            security_group_rules: Vec::new(),
            created_at: now,
            updated_at: now,
        }
    }

    /// Allows all outgoing traffic. A default group also allows traffic from its own members.
    fn rules_of_new_group(&self, group: &SecurityGroup, is_default: bool) -> Vec<SecurityGroupRule> {
        let mut kinds = vec![(("egress", "IPv4"), None), (("egress", "IPv6"), None)];
        if is_default {
            kinds.extend([(("ingress", "IPv4"), Some(group.id)), (("ingress", "IPv6"), Some(group.id))]);
        }
        let rule = |(kind, remote)| new_rule(self.new_id(), group.id, &group.project_id, kind, remote, group.created_at);
        kinds.into_iter().map(rule).collect()
    }
}

/// A prepared default group, in case the project has none.
pub(super) struct DefaultGroup {
    group: SecurityGroup,
    rules: Vec<SecurityGroupRule>,
}

impl DefaultGroup {
    /// Returns the id of the project's default group, or makes the group. This happens in the transaction of the request that needs the
    /// group, so that a refused request leaves none. The project must have a row of turns ([`EmbeddedNetwork::make_turn`]).
    pub(super) fn ensure(&self, conn: &mut Conn) -> Result<Uuid, TransactionError> {
        quotas::take_turn(conn, &self.group.project_id)?;
        match default_id(conn, &self.group.project_id)? {
            Some(id) => Ok(id),
            None => {
                const REASON: &str = "each project has a default group, whatever its quota";
                let rules = self.rules.iter().map(|rule| (QuotaGrant::without_check(REASON), rule));
                insert(conn, QuotaGrant::without_check(REASON), &self.group, true, rules)?;
                Ok(self.group.id)
            }
        }
    }
}

/// Refuses groups that the caller may not use.
pub(super) fn check(conn: &mut Conn, scope: &Scope, groups: &[Uuid]) -> Result<(), TransactionError> {
    let ids: Vec<String> = groups.iter().map(Uuid::to_string).collect();
    let owners = table::owners(conn, &ids)?.into_iter().filter(|(_, project)| scope.may_see(project, false));
    let usable: HashSet<String> = owners.map(|(id, _)| id).collect();
    match ids.into_iter().find(|id| !usable.contains(id)) {
        Some(id) => Err(absent("Security group", id)),
        None => Ok(()),
    }
}

fn default_id(conn: &mut Conn, project: &str) -> Result<Option<Uuid>, TransactionError> {
    Ok(table::default_of(conn, project)?.map(|row| read_id("security_groups.id", &row.id)).transpose()?)
}

fn visible(conn: &mut Conn, scope: &Scope, id: Uuid) -> Result<(SecurityGroup, bool), TransactionError> {
    let row = table::find(conn, &id.to_string())?.filter(|row| scope.may_see(&row.project_id, false));
    let row = row.ok_or_else(|| absent("Security group", id))?;
    let is_default = row.is_default;
    let record = records(conn, vec![row], Of::These(&[id.to_string()]))?.pop().ok_or_else(|| absent("Security group", id))?;
    Ok((record, is_default))
}

fn records(conn: &mut Conn, rows: Vec<GroupRow>, of: Of<'_>) -> Result<Vec<SecurityGroup>, DbError> {
    let mut rules: BTreeMap<String, Vec<SecurityGroupRule>> = BTreeMap::new();
    for row in table::rules(conn, of)? {
        rules.entry(row.security_group_id.clone()).or_default().push(rule(row)?);
    }
    rows.into_iter()
        .map(|row| {
            Ok(SecurityGroup {
                id: read_id("security_groups.id", &row.id)?,
                security_group_rules: rules.remove(&row.id).unwrap_or_default(),
                name: row.name,
                project_id: row.project_id,
                description: row.description,
                stateful: row.stateful,
                tags: serde_json::from_str(&row.tags)?,
                created_at: row.created_at.and_utc(),
                updated_at: row.updated_at.and_utc(),
            })
        })
        .collect()
}

fn insert<'a>(
    conn: &mut Conn,
    granted: QuotaGrant<GroupRow>,
    group: &SecurityGroup,
    is_default: bool,
    rules: impl IntoIterator<Item = (QuotaGrant<RuleRow>, &'a SecurityGroupRule)>,
) -> Result<(), DbError> {
    table::insert(conn, granted, &row(group, is_default)?)?;
    for (granted, rule) in rules {
        table::insert_rule(conn, granted, &rule_row(rule))?;
    }
    Ok(())
}

fn new_rule(
    id: Uuid,
    group: Uuid,
    project_id: &str,
    (direction, ethertype): (&str, &str),
    remote: Option<Uuid>,
    now: DateTime<Utc>,
) -> SecurityGroupRule {
    SecurityGroupRule {
        id,
        security_group_id: group,
        project_id: project_id.to_owned(),
        direction: direction.to_owned(),
        ethertype: ethertype.to_owned(),
        protocol: None,
        port_range_min: None,
        port_range_max: None,
        remote_ip_prefix: None,
        remote_group_id: remote,
        description: String::new(),
        created_at: now,
    }
}

fn rule(row: RuleRow) -> Result<SecurityGroupRule, DbError> {
    Ok(SecurityGroupRule {
        id: read_id("security_group_rules.id", &row.id)?,
        security_group_id: read_id("security_group_rules.security_group_id", &row.security_group_id)?,
        project_id: row.project_id,
        direction: row.direction,
        ethertype: row.ethertype,
        protocol: row.protocol,
        port_range_min: row.port_range_min,
        port_range_max: row.port_range_max,
        remote_ip_prefix: row.remote_ip_prefix,
        remote_group_id: row.remote_group_id.as_deref().map(|id| read_id("security_group_rules.remote_group_id", id)).transpose()?,
        description: row.description,
        created_at: row.created_at.and_utc(),
    })
}

fn rule_row(rule: &SecurityGroupRule) -> RuleRow {
    RuleRow {
        id: rule.id.to_string(),
        security_group_id: rule.security_group_id.to_string(),
        project_id: rule.project_id.clone(),
        direction: rule.direction.clone(),
        ethertype: rule.ethertype.clone(),
        protocol: rule.protocol.clone(),
        port_range_min: rule.port_range_min,
        port_range_max: rule.port_range_max,
        remote_ip_prefix: rule.remote_ip_prefix.clone(),
        remote_group_id: rule.remote_group_id.map(|id| id.to_string()),
        description: rule.description.clone(),
        created_at: rule.created_at.naive_utc(),
    }
}

fn row(group: &SecurityGroup, is_default: bool) -> Result<GroupRow, DbError> {
    Ok(GroupRow {
        id: group.id.to_string(),
        name: group.name.clone(),
        project_id: group.project_id.clone(),
        description: group.description.clone(),
        stateful: group.stateful,
        is_default,
        tags: serde_json::to_string(&group.tags)?,
        created_at: group.created_at.naive_utc(),
        updated_at: group.updated_at.naive_utc(),
    })
}
