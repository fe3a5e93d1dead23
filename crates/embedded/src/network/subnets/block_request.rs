//! The block of a new subnet: the one that its request names, or one of a subnet pool.

use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use cellshift_store::{Conn, DbError};
use serde_json::Value;
use uuid::Uuid;

use super::records::SubnetRow;
use crate::ServiceError;
use crate::network::blocks;
use crate::network::cidr::Cidr;
use crate::network::in_use;
use crate::network::records::{Attributes, Scope, SubnetPool};
use crate::network::subnet_pools::records as table;
use crate::network::subnet_pools::{default_of, parsed, visible};
use crate::transaction::TransactionError;

/// The pool that a request names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pool {
    None,
    /// The default one of the subnet's IP version.
    Default,
    Named(Uuid),
}

/// The request for the block of a new subnet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::network) struct BlockRequest {
    block: Option<Cidr>,
    length: Option<u8>,
    ip_version: Option<i32>,
    pool: Pool,
}

/// A block, and the pool that it comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::network) struct Block {
    pub(in crate::network) cidr: Cidr,
    pub(in crate::network) pool: Option<Uuid>,
}

impl BlockRequest {
    /// Takes the request out of a creation's attributes, whose values have been checked.
    pub(in crate::network) fn take(attributes: &mut Attributes) -> Result<BlockRequest, ServiceError> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let block = attributes.remove("cidr").and_then(|value| Cidr::parse(&text(&value)?));
        let length = attributes.remove("prefixlen").and_then(|value| u8::try_from(value.as_i64()?).ok());
        let version = attributes.remove("ip_version").and_then(|value| i32::try_from(value.as_i64()?).ok());
        let pool_id = attributes.remove("subnetpool_id").and_then(|value| Uuid::parse_str(&text(&value)?).ok());
        let default = attributes.remove("use_default_subnetpool").is_some_and(|value| value == true);
        let pool = match (pool_id, default) {
            (Some(_), true) => return Err(bad("subnetpool_id and use_default_subnetpool cannot both be specified")),
            (Some(id), false) => Pool::Named(id),
            (None, true) => Pool::Default,
            (None, false) => Pool::None,
        };
        match (&block, version) {
            (Some(_), _) if length.is_some() => Err(bad("cidr and prefixlen must not be supplied together")),
            (Some(block), Some(version)) if version != block.version() => {
                Err(ServiceError::Invalid(reason!("Invalid input for ip_version: {version} is not the version of {block}")))
            }
            (None, _) if pool == Pool::None => Err(bad("a subnetpool must be specified in the absence of a cidr")),
            (None, _) if attributes.contains_key("allocation_pools") => {
                Err(bad("allocation_pools allowed only for specific subnet requests"))
            }
            (None, None) if pool == Pool::Default => Err(bad("ip_version must be specified in the absence of cidr and subnetpool_id")),
            _ => Ok(BlockRequest { block, length, ip_version: version.or(block.map(|block| block.version())), pool }),
        }
    }

    /// Returns the named block if it need not come from a pool.
    pub(in crate::network) fn outside_pools(&self) -> Option<Block> {
        self.block.filter(|_| self.pool == Pool::None).map(|cidr| Block { cidr, pool: None })
    }

    /// Chooses a block for a subnet of this project. Locks the pool's row until the transaction ends.
    pub(in crate::network) fn choose(&self, conn: &mut Conn, scope: &Scope, project: &str) -> Result<Block, TransactionError> {
        let pool = match self.pool {
            Pool::Named(id) => visible(conn, scope, id)?,
            Pool::Default => default_of(conn, scope, self.ip_version.unwrap_or(4))?,
            Pool::None => return Err(bad("a subnetpool must be specified in the absence of a cidr").into()),
        };
        if let Some(version) = self.ip_version.filter(|version| *version != pool.ip_version) {
            return Err(bad(&format!("Cannot allocate IPv{version} subnet from IPv{} subnet pool", pool.ip_version)).into());
        }
        table::hold(conn, &pool.id.to_string())?;
        let allocations = table::allocations(conn, &pool.id.to_string())?;
        let length = self.block.map(|block| block.length()).or(self.length).map_or(pool.default_prefixlen, i32::from);
        check_length(&pool, length)?;
        check_quota(&pool, &allocations, project, length)?;
        let allocated: Vec<Cidr> = allocations.iter().map(|(cidr, _)| stored(cidr)).collect::<Result<_, DbError>>()?;
        let prefixes = parsed(&pool)?;
        let cidr = match self.block {
            Some(block) if blocks::covers(&prefixes, &[block]) && !allocated.iter().any(|other| other.overlaps(&block)) => block,
            Some(_) => return Err(failed("Cannot allocate requested subnet from the available set of prefixes")),
            None => u8::try_from(length)
                .ok()
                .and_then(|length| blocks::next(&prefixes, &allocated, length))
                .ok_or_else(|| failed(&format!("Insufficient prefix space to allocate subnet size /{length}")))?,
        };
        Ok(Block { cidr, pool: Some(pool.id) })
    }
}

impl Block {
    /// Refuses the block beside the present subnets of its network: it may share no address, and all of one IP version come from one pool,
    /// or from none.
    pub(in crate::network) fn fits_beside(&self, network: Uuid, others: &[SubnetRow]) -> Result<(), ServiceError> {
        let invalid = |why: Reason| Err(ServiceError::Invalid(why));
        let (block, pool) = (&self.cidr, self.pool.map(|id| id.to_string()));
        if others.iter().any(|other| other.ip_version == block.version() && other.subnetpool_id != pool) {
            return invalid("Subnets hosted on the same network must be allocated from the same subnet pool.".into());
        }
        if others.iter().any(|other| Cidr::parse(&other.cidr).is_some_and(|other| other.overlaps(block))) {
            return invalid(reason!("Requested subnet with cidr: {block} for network: {network} overlaps with another subnet."));
        }
        Ok(())
    }
}

fn check_length(pool: &SubnetPool, length: i32) -> Result<(), ServiceError> {
    let refuse = |bound: &str, limit: i32| {
        let text = reason!("Unable to allocate subnet with prefix length {length}, {bound} allowed prefix is {limit}.");
        Err(ServiceError::Invalid(text))
    };
    match length {
        _ if length > pool.max_prefixlen => refuse("maximum", pool.max_prefixlen),
        _ if length < pool.min_prefixlen => refuse("minimum", pool.min_prefixlen),
        _ => Ok(()),
    }
}

/// Refuses more of the pool's addresses than a project may have. The quota counts addresses of IPv4, and blocks with 64 bits of IPv6.
fn check_quota(pool: &SubnetPool, allocations: &[(String, String)], project: &str, length: i32) -> Result<(), TransactionError> {
    // As in Neutron, 0 means no quota.
    let Some(quota) = pool.default_quota.filter(|quota| *quota > 0) else { return Ok(()) };
    let (bits, unit) = if pool.ip_version == 6 { (128, 1_u128 << 64) } else { (32, 1) };
    let size = |length: i32| 1_u128.checked_shl((bits - length).unsigned_abs()).unwrap_or(u128::MAX);
    let mut used = size(length);
    for (cidr, owner) in allocations {
        if owner == project {
            used = used.saturating_add(size(i32::from(stored(cidr)?.length())));
        }
    }
    if used > u128::from(quota.unsigned_abs()).saturating_mul(unit) {
        return Err(in_use("Per-project subnet pool prefix quota exceeded.".to_owned()));
    }
    Ok(())
}

fn stored(cidr: &str) -> Result<Cidr, DbError> {
    Cidr::parse(cidr).ok_or_else(|| DbError::unreadable("subnets.cidr", cidr))
}

fn bad(why: &str) -> ServiceError {
    ServiceError::Invalid(reason!("Bad subnets request: {why}."))
}

fn failed(why: &str) -> TransactionError {
    in_use(format!("Failed to allocate subnet: {why}."))
}
