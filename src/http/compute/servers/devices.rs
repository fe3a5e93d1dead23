//! Device names inside a guest: the root is `/dev/vda`, then local disks, then volumes in the order of attachment.

use crate::domain::flavor::Flavor;

/// The name of the root disk.
pub const ROOT: &str = "/dev/vda";

/// Returns the names of a flavor's local disks, with the root disk.
pub fn of_local_disks(flavor: &Flavor) -> Vec<String> {
    let extra = usize::from(flavor.ephemeral_gb > 0) + usize::from(flavor.swap_mb > 0);
    (0..=extra).filter_map(nth).collect()
}

/// Returns the first name that is not among these; none if all are.
pub fn free<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    (0..26).filter_map(nth).find(|name| !names.clone().any(|other| other == name))
}

/// Adds a missing `/dev/`.
pub fn full(name: &str) -> String {
    if name.starts_with("/dev/") { name.to_owned() } else { format!("/dev/{name}") }
}

fn nth(at: usize) -> Option<String> {
    let letter = char::from(b'a' + u8::try_from(at).ok().filter(|at| *at < 26)?);
    Some(format!("/dev/vd{letter}"))
}
