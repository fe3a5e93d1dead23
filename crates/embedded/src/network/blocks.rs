//! The blocks of a subnet pool: which of them are free, and which a new subnet gets.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};

use super::cidr::Cidr;

/// Returns blocks in order, with neighbours and blocks within others joined.
pub fn joined(blocks: &[Cidr]) -> Vec<Cidr> {
    let nets: Vec<IpNet> = blocks.iter().copied().map(IpNet::from).collect();
    let mut joined = IpNet::aggregate(&nets);
    joined.sort_unstable();
    joined.into_iter().map(Cidr::from).collect()
}

/// True if each address of `inner` is in `outer`.
pub fn covers(outer: &[Cidr], inner: &[Cidr]) -> bool {
    let outer = joined(outer);
    joined(inner).iter().all(|block| outer.iter().any(|cover| cover.includes(block)))
}

/// Returns the block of this prefix length that a pool gives next: the first of its smallest free block that is large enough, so that large
/// blocks stay whole. None if no free block is large enough.
pub fn next(prefixes: &[Cidr], allocated: &[Cidr], length: u8) -> Option<Cidr> {
    let fitting = free(prefixes, allocated).into_iter().filter(|block| block.length() <= length);
    // Of several smallest blocks the first one.
    let smallest = fitting.reduce(|best, block| if block.length() > best.length() { block } else { best })?;
    smallest.first(length)
}

/// Returns the free blocks of a pool, as large as they can be, in order.
fn free(prefixes: &[Cidr], allocated: &[Cidr]) -> Vec<Cidr> {
    let allocated_ranges: Vec<(u128, u128)> = joined(allocated).iter().map(Cidr::range).collect();
    let mut free = Vec::new();
    for prefix in joined(prefixes) {
        let (first, last) = prefix.range();
        // The first address that is not looked at yet; none after the last one.
        let mut from = Some(first);
        for &(start, end) in allocated_ranges.iter().filter(|(start, end)| *start <= last && *end >= first) {
            if let Some(from) = from.filter(|from| *from < start) {
                free.extend(split(&prefix, from, start - 1));
            }
            from = (end < last).then(|| end + 1);
        }
        free.extend(from.map(|from| split(&prefix, from, last)).unwrap_or_default());
    }
    free
}

/// Splits a range of a block's addresses into blocks.
fn split(within: &Cidr, first: u128, last: u128) -> Vec<Cidr> {
    let nets: Vec<IpNet> = match (within.address(first), within.address(last)) {
        (IpAddr::V4(first), IpAddr::V4(last)) => Ipv4Subnets::new(first, last, 0).map(IpNet::V4).collect(),
        (IpAddr::V6(first), IpAddr::V6(last)) => Ipv6Subnets::new(first, last, 0).map(IpNet::V6).collect(),
        _ => Vec::new(),
    };
    nets.into_iter().map(Cidr::from).collect()
}
