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

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(texts: &[&str]) -> Vec<Cidr> {
        texts.iter().map(|text| Cidr::parse(text).unwrap()).collect()
    }

    fn block_of(prefixes: &[&str], allocated: &[&str], length: u8) -> Option<String> {
        next(&blocks(prefixes), &blocks(allocated), length).map(|block| block.to_string())
    }

    #[test]
    fn a_pool_gives_the_smallest_free_block_that_is_large_enough() {
        let pool = ["10.0.0.0/16", "192.168.0.0/24"];
        assert_eq!(block_of(&pool, &[], 26).as_deref(), Some("192.168.0.0/26"));
        assert_eq!(block_of(&pool, &["192.168.0.0/26"], 26).as_deref(), Some("192.168.0.64/26"));
        assert_eq!(block_of(&pool, &["192.168.0.0/26"], 25).as_deref(), Some("192.168.0.128/25"));
        assert_eq!(block_of(&pool, &[], 20).as_deref(), Some("10.0.0.0/20"));
        assert_eq!(block_of(&pool, &["10.0.0.0/24"], 24).as_deref(), Some("10.0.1.0/24"));
        assert_eq!(block_of(&["10.0.0.0/16"], &["10.0.0.0/24"], 24).as_deref(), Some("10.0.1.0/24"));
    }

    #[test]
    fn a_pool_that_is_used_up_gives_nothing() {
        assert_eq!(block_of(&["10.0.0.0/24"], &["10.0.0.0/24"], 28), None);
        assert_eq!(block_of(&["10.0.0.0/24"], &["10.0.0.64/26"], 24), None);
        assert_eq!(block_of(&["10.0.0.0/24"], &[], 20), None);
        assert_eq!(block_of(&["255.255.255.0/24"], &["255.255.255.128/25"], 25).as_deref(), Some("255.255.255.0/25"));
        assert_eq!(block_of(&["255.255.255.0/24"], &["255.255.255.0/25", "255.255.255.128/25"], 32), None);
    }

    #[test]
    fn blocks_of_either_version_are_joined_and_given() {
        assert_eq!(joined(&blocks(&["10.1.0.0/16", "10.0.0.0/16", "10.0.7.0/24"])), blocks(&["10.0.0.0/15"]));
        assert_eq!(block_of(&["2001:db8::/48"], &["2001:db8::/64"], 64).as_deref(), Some("2001:db8:0:1::/64"));
        assert_eq!(block_of(&["::/0"], &["::/1"], 1).as_deref(), Some("8000::/1"));
        assert!(covers(&blocks(&["10.0.0.0/24", "10.0.1.0/24"]), &blocks(&["10.0.0.0/23"])));
        assert!(!covers(&blocks(&["10.0.0.0/24"]), &blocks(&["10.0.0.0/23"])));
    }
}
