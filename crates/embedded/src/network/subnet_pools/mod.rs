//! Subnet pools: their blocks, the bounds of the subnets that are taken from them, and who may use them.

pub(super) mod records;
pub(super) mod routes;

use cellshift_domain::reason;
use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError};
use serde_json::Value;
use uuid::Uuid;

use super::attributes::{SUBNET_POOL, checked};
use super::blocks;
use super::change::Change;
use super::cidr::Cidr;
use super::makings::{Making, creates};
use super::records::{Attributes, Scope, SubnetPool, guard, patched, take_owner};
use super::{EmbeddedNetwork, absent, quotas};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use records::{self as table, PoolRow};

const ADMIN_ONLY: &[&str] = &["shared", "is_default"];
/// The attributes that have a default of their IP version.
const BOUNDS: [&str; 3] = ["default_prefixlen", "min_prefixlen", "max_prefixlen"];

impl EmbeddedNetwork {
    /// Returns the pools that the caller may use, oldest first.
    pub async fn subnet_pools(&self, scope: Scope) -> Result<Vec<SubnetPool>, ServiceError> {
        self.read(move |conn| {
            let rows = table::list(conn)?.into_iter().filter(|row| scope.may_see(&row.project_id, row.shared));
            Ok(rows.map(record).collect::<Result<_, DbError>>()?)
        })
        .await
    }

    /// Returns a pool that the caller may use.
    pub async fn subnet_pool(&self, scope: Scope, id: Uuid) -> Result<SubnetPool, ServiceError> {
        self.read(move |conn| visible(conn, &scope, id)).await
    }

    creates!(SubnetPool: create_subnet_pool, create_subnet_pools by new_subnet_pool);

    fn new_subnet_pool(&self, scope: Scope, mut attributes: Attributes) -> Result<Making<SubnetPool>, ServiceError> {
        let project_id = take_owner(&scope, &mut attributes)?;
        let mut attributes = checked(SUBNET_POOL, attributes, true)?;
        attributes.remove("address_scope_id");
        for name in ["name", "prefixes"] {
            if !attributes.contains_key(name) {
                let text = reason!("Failed to parse request. Required attribute '{name}' not specified");
                return Err(ServiceError::Invalid(text));
            }
        }
        let prefixes = blocks_of(&attributes["prefixes"])?;
        attributes.insert("prefixes".to_owned(), in_order(&prefixes));
        let now = self.now();
        let blank = SubnetPool {
            id: self.new_id(),
            project_id,
            ip_version: prefixes[0].version(),
            created_at: now,
            updated_at: now,
            ..SubnetPool::default()
        };
        let mut pool = patched(&blank, &attributes)?;
        guard(&scope, &blank, &pool, ADMIN_ONLY)?;
        let missing = |name: &str| !attributes.contains_key(name);
        let (least, most) = bounds(pool.ip_version);
        pool.min_prefixlen = if missing(BOUNDS[1]) { least } else { pool.min_prefixlen };
        pool.max_prefixlen = if missing(BOUNDS[2]) { most } else { pool.max_prefixlen };
        pool.default_prefixlen = if missing(BOUNDS[0]) { pool.min_prefixlen } else { pool.default_prefixlen };
        check(&pool)?;
        let limits = self.limits.clone();
        Ok(Making::new(&pool.project_id.clone(), move |conn| {
            let granted = quotas::take(conn, &limits, &pool.project_id)?;
            check_default(conn, &pool)?;
            table::insert(conn, granted, &row(&pool)?)?;
            Ok(pool)
        }))
    }

    /// Changes a pool. Blocks may come, but none may go.
    pub async fn update_subnet_pool(&self, scope: Scope, id: Uuid, change: impl Into<Change>) -> Result<SubnetPool, ServiceError> {
        let (now, change) = (self.now(), change.into().checked(SUBNET_POOL)?);
        self.write(None, move |conn| {
            table::hold(conn, &id.to_string())?;
            let before = changeable(conn, &scope, id)?;
            let mut attributes = change.on(&before.tags)?;
            attributes.remove("address_scope_id");
            if let Some(prefixes) = attributes.get("prefixes") {
                let prefixes = blocks_of(prefixes)?;
                if !blocks::covers(&prefixes, &parsed(&before)?) {
                    return Err(illegal("Existing prefixes must be a subset of the new prefixes").into());
                }
                attributes.insert("prefixes".to_owned(), in_order(&prefixes));
            }
            let mut after = patched(&before, &attributes)?;
            guard(&scope, &before, &after, ADMIN_ONLY)?;
            check(&after)?;
            check_default(conn, &after)?;
            after.updated_at = now;
            table::save(conn, &row(&after)?)?;
            Ok(after)
        })
        .await
    }

    /// Deletes a pool. Invalid while subnets are taken from it, as in Neutron.
    pub async fn delete_subnet_pool(&self, scope: Scope, id: Uuid) -> Result<(), ServiceError> {
        self.write(None, move |conn| {
            changeable(conn, &scope, id)?;
            let id = id.to_string();
            table::hold(conn, &id)?;
            if !table::allocations(conn, &id)?.is_empty() {
                let text = "Unable to delete subnet pool: Subnet pool has existing allocations.";
                return Err(ServiceError::Invalid(text.into()).into());
            }
            Ok(table::delete(conn, &id)?)
        })
        .await
    }
}

/// Returns a pool that the caller may use.
pub(super) fn visible(conn: &mut Conn, scope: &Scope, id: Uuid) -> Result<SubnetPool, TransactionError> {
    let pool = table::find(conn, &id.to_string())?.map(record).transpose()?;
    pool.filter(|pool| scope.may_see(&pool.project_id, pool.shared)).ok_or_else(|| absent("Subnet pool", id))
}

/// Returns the default pool of an IP version, if the caller may use it.
pub(super) fn default_of(conn: &mut Conn, scope: &Scope, ip_version: i32) -> Result<SubnetPool, TransactionError> {
    let pool = table::default_of(conn, ip_version)?.map(record).transpose()?;
    let pool = pool.filter(|pool| scope.may_see(&pool.project_id, pool.shared));
    let missing = || ServiceError::Invalid(reason!("Bad subnets request: No default subnetpool found for IPv{ip_version}."));
    pool.ok_or_else(|| missing().into())
}

fn changeable(conn: &mut Conn, scope: &Scope, id: Uuid) -> Result<SubnetPool, TransactionError> {
    let pool = visible(conn, scope, id)?;
    if scope.may_change(&pool.project_id) {
        return Ok(pool);
    }
    Err(ServiceError::Forbidden(reason!("Changing subnet pool {id} is disallowed by policy")).into())
}

/// Refuses a second default pool of an IP version. The database refuses the second of two that are made at once.
fn check_default(conn: &mut Conn, pool: &SubnetPool) -> Result<(), TransactionError> {
    let other = if pool.is_default { table::default_of(conn, pool.ip_version)? } else { None };
    match other.filter(|row| row.id != pool.id.to_string()) {
        Some(_) => {
            let text = "A default subnetpool for this IP family has already been set. Only one default may exist per IP family";
            Err(ServiceError::Invalid(reason!("Invalid input for operation: {text}.")).into())
        }
        None => Ok(()),
    }
}

/// Returns the least prefix length that a pool has by default, and the greatest that its IP version has.
fn bounds(ip_version: i32) -> (i32, i32) {
    if ip_version == 6 { (64, 128) } else { (8, 32) }
}

/// Refuses bounds that contradict each other.
fn check(pool: &SubnetPool) -> Result<(), ServiceError> {
    let (least, most, default) = (pool.min_prefixlen, pool.max_prefixlen, pool.default_prefixlen);
    let of_version = bounds(pool.ip_version).1;
    let contradictions = [
        (least > most, ("min_prefixlen", least), ("max_prefixlen", most)),
        (most > of_version, ("max_prefixlen", most), ("ip_version_max", of_version)),
        (default < least, ("default_prefixlen", default), ("min_prefixlen", least)),
        (default > most, ("default_prefixlen", default), ("max_prefixlen", most)),
    ];
    match contradictions.iter().find(|(contradicts, ..)| *contradicts) {
        Some((_, (name, length), (base, bound))) => {
            Err(ServiceError::Invalid(reason!("Illegal prefix bounds: {name}={length}, {base}={bound}.")))
        }
        None => Ok(()),
    }
}

/// Parses a request's blocks, which have one IP version.
fn blocks_of(prefixes: &Value) -> Result<Vec<Cidr>, ServiceError> {
    let texts = prefixes.as_array().into_iter().flatten().filter_map(Value::as_str);
    let prefixes: Vec<Cidr> = texts.filter_map(Cidr::parse).collect();
    let Some(first) = prefixes.first() else { return Err(ServiceError::Invalid("Empty subnet pool prefix list.".into())) };
    if prefixes.iter().any(|block| block.version() != first.version()) {
        return Err(ServiceError::Invalid("Cannot mix IPv4 and IPv6 prefixes in a subnet pool.".into()));
    }
    Ok(prefixes)
}

fn in_order(prefixes: &[Cidr]) -> Value {
    blocks::joined(prefixes).iter().map(Cidr::to_string).collect()
}

/// Returns a stored pool's blocks.
pub(super) fn parsed(pool: &SubnetPool) -> Result<Vec<Cidr>, DbError> {
    let parse = |text: &String| Cidr::parse(text).ok_or_else(|| DbError::unreadable("subnet_pools.prefixes", text));
    pool.prefixes.iter().map(parse).collect()
}

fn illegal(why: &str) -> ServiceError {
    ServiceError::Invalid(reason!("Illegal subnetpool update : {why}."))
}

fn record(row: PoolRow) -> Result<SubnetPool, DbError> {
    Ok(SubnetPool {
        id: read_id("subnet_pools.id", &row.id)?,
        name: row.name,
        project_id: row.project_id,
        description: row.description,
        ip_version: row.ip_version,
        prefixes: serde_json::from_str(&row.prefixes)?,
        default_prefixlen: row.default_prefixlen,
        min_prefixlen: row.min_prefixlen,
        max_prefixlen: row.max_prefixlen,
        default_quota: row.default_quota,
        shared: row.shared,
        is_default: row.is_default,
        tags: serde_json::from_str(&row.tags)?,
        created_at: row.created_at.and_utc(),
        updated_at: row.updated_at.and_utc(),
    })
}

fn row(pool: &SubnetPool) -> Result<PoolRow, DbError> {
    Ok(PoolRow {
        id: pool.id.to_string(),
        name: pool.name.clone(),
        project_id: pool.project_id.clone(),
        description: pool.description.clone(),
        ip_version: pool.ip_version,
        prefixes: serde_json::to_string(&pool.prefixes)?,
        default_prefixlen: pool.default_prefixlen,
        min_prefixlen: pool.min_prefixlen,
        max_prefixlen: pool.max_prefixlen,
        default_quota: pool.default_quota,
        shared: pool.shared,
        is_default: pool.is_default,
        tags: serde_json::to_string(&pool.tags)?,
        created_at: pool.created_at.naive_utc(),
        updated_at: pool.updated_at.naive_utc(),
    })
}
