//! Tests of address blocks.

use cellshift_embedded::network::cidr::Cidr;

#[test]
fn blocks_are_canonical_and_know_their_hosts() {
    let block = Cidr::parse("10.0.0.77/24").unwrap();
    assert_eq!(block.to_string(), "10.0.0.0/24");
    assert!(block.is_usable("10.0.0.1".parse().unwrap()) && block.is_usable("10.0.0.254".parse().unwrap()));
    assert!(!block.is_usable("10.0.0.255".parse().unwrap()) && !block.contains("10.0.1.0".parse().unwrap()));
    assert_eq!(Cidr::parse("fd00::5/64").unwrap().to_string(), "fd00::/64");
    assert!(Cidr::parse("::/0").unwrap().overlaps(&Cidr::parse("fd00::/64").unwrap()));
    assert_eq!(Cidr::parse("0.0.0.0/0").unwrap().usable().map(|(_, last)| last), Some(u128::from(u32::MAX) - 1));
    assert!(["10.0.0.0", "10.0.0.0/33", "x/8", "10.0.0.0/-1"].into_iter().all(|text| Cidr::parse(text).is_none()));
}
