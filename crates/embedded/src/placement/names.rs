//! The built-in names: standard resource classes and standard traits. All other names are `CUSTOM_…`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Standard resource classes.
pub const RESOURCE_CLASSES: &[&str] = &[
    "VCPU",
    "MEMORY_MB",
    "DISK_GB",
    "PCI_DEVICE",
    "SRIOV_NET_VF",
    "NUMA_SOCKET",
    "NUMA_CORE",
    "NUMA_THREAD",
    "NUMA_MEMORY_MB",
    "IPV4_ADDRESS",
    "VGPU",
    "VGPU_DISPLAY_HEAD",
    "NET_BW_EGR_KILOBIT_PER_SEC",
    "NET_BW_IGR_KILOBIT_PER_SEC",
    "PCPU",
    "MEM_ENCRYPTION_CONTEXT",
    "FPGA",
    "PGPU",
    "NET_PACKET_RATE_KILOPACKET_PER_SEC",
    "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
    "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
];

/// Standard traits, one in each line, sorted. Those of os-traits, which each release of OpenStack knows.
const TRAITS: &str = include_str!("standard_traits.txt");

/// Returns the standard traits, sorted.
pub fn standard_traits() -> impl Iterator<Item = &'static str> {
    TRAITS.lines()
}

/// True for a standard trait.
pub fn is_standard_trait(name: &str) -> bool {
    static SET: LazyLock<BTreeSet<&str>> = LazyLock::new(|| TRAITS.lines().collect());
    SET.contains(name)
}

/// True for a standard resource class.
pub fn is_standard_class(name: &str) -> bool {
    RESOURCE_CLASSES.contains(&name)
}

/// True for `CUSTOM_` and at least one of A-Z, 0-9 and `_`, with at most 255 characters in all.
pub fn is_custom(name: &str) -> bool {
    name.len() <= 255
        && name
            .strip_prefix("CUSTOM_")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_'))
}

/// Returns each of these names once, in their order.
pub(super) fn distinct(names: &[String]) -> Vec<String> {
    names.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect()
}
