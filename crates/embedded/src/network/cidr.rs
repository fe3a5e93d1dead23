//! Address ranges of subnets, for IPv4 and IPv6 alike: an address is a number, and a range is two numbers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// An address block in canonical form, without host bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cidr(IpNet);

impl Cidr {
    /// Parses `10.0.0.0/24` or `fd00::/64`, and drops host bits. None for other texts.
    pub fn parse(text: &str) -> Option<Cidr> {
        text.parse::<IpNet>().ok().map(|block| Cidr(block.trunc()))
    }

    /// 4 or 6.
    pub fn version(&self) -> i32 {
        if self.is_v6() { 6 } else { 4 }
    }

    /// True if the written block, `10.0.0.0/24`, has no host bits.
    pub fn starts_at(&self, text: &str) -> bool {
        text.parse::<IpNet>().is_ok_and(|written| written.addr() == self.0.network())
    }

    /// True if the block contains the address. Network and broadcast addresses count.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// True if a host may have the address.
    pub fn is_usable(&self, address: IpAddr) -> bool {
        self.contains(address) && self.usable().is_some_and(|(low, high)| (low..=high).contains(&number(address)))
    }

    /// True if the blocks share an address.
    pub fn overlaps(&self, other: &Cidr) -> bool {
        self.0.contains(&other.0) || other.0.contains(&self.0)
    }

    /// True if the block contains all addresses of the other.
    pub fn includes(&self, other: &Cidr) -> bool {
        self.0.contains(&other.0)
    }

    /// Returns the number of leading bits that the block's addresses share.
    pub fn length(&self) -> u8 {
        self.0.prefix_len()
    }

    /// Returns the first block of this length within the block; none if it would be larger.
    pub fn first(&self, length: u8) -> Option<Cidr> {
        (length >= self.length()).then(|| IpNet::new(self.0.network(), length).ok().map(Cidr)).flatten()
    }

    /// Returns the first and the last address.
    pub fn range(&self) -> (u128, u128) {
        (number(self.0.network()), number(self.0.broadcast()))
    }

    /// Returns the first and last addresses that hosts may have; none if there are none.
    pub fn usable(&self) -> Option<(u128, u128)> {
        let (first, last) = (number(self.0.network()), number(self.0.broadcast()));
        match last - first {
            // Point-to-point and single-address blocks have no network or broadcast address (RFC 3021).
            0 | 1 => Some((first, last)),
            _ if self.is_v6() => Some((first + 1, last)),
            _ => Some((first + 1, last - 1)),
        }
    }

    /// Returns the number's address in this block's family.
    pub fn address(&self, number: u128) -> IpAddr {
        if self.is_v6() { IpAddr::V6(Ipv6Addr::from(number)) } else { IpAddr::V4(Ipv4Addr::from(number as u32)) }
    }

    fn is_v6(&self) -> bool {
        matches!(self.0, IpNet::V6(_))
    }
}

impl From<IpNet> for Cidr {
    fn from(block: IpNet) -> Cidr {
        Cidr(block.trunc())
    }
}

impl From<Cidr> for IpNet {
    fn from(block: Cidr) -> IpNet {
        block.0
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns an address as a number. IPv4 uses the low 32 bits.
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}
