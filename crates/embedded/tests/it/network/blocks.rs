//! Tests of the blocks that a subnet pool gives.

use cellshift_embedded::network::blocks::{covers, joined, next};
use cellshift_embedded::network::cidr::Cidr;

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
