//! The host must be able to run the architecture, the hypervisor type and the virtual machine mode that the image asks for.

use super::{HostFilter, HostState, Reason, Request};
use cellshift_domain::reason;

/// See the file's description.
pub struct ImagePropertiesFilter;

impl HostFilter for ImagePropertiesFilter {
    fn name(&self) -> &'static str {
        "ImagePropertiesFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        if request.demand.request_spec.image_properties.is_empty() {
            return Ok(());
        }
        let property = |key: &str| request.demand.request_spec.image_properties.get(key).map(|value| value.to_ascii_lowercase());
        let demands = [
            ("architecture", property("hw_architecture").map(|name| architecture(&name)), host.architecture()),
            ("hypervisor", property("img_hv_type"), host.node.hypervisor_type.to_ascii_lowercase()),
            ("mode", property("hw_vm_mode").map(|name| mode(&name)), "hvm".to_owned()),
        ];
        for (what, demand, has) in demands {
            if let Some(demand) = demand.filter(|demand| *demand != has) {
                return Err(reason!("has not the {what} {demand} that the image asks for"));
            }
        }
        if let Some(bounds) = property("img_hv_requested_version").filter(|bounds| !is_version(host.node.hypervisor_version, bounds)) {
            return Err(reason!("its hypervisor's version is not {bounds}"));
        }
        let bits = host.attribute(&["cpu_info", "maxphysaddr", "bits"]).and_then(|bits| bits.as_i64());
        match (bits, property("hw_maxphysaddr_bits").and_then(|bits| bits.parse::<i64>().ok())) {
            (Some(has), Some(least)) if has < least => Err(reason!("has {has} bits of physical addresses, not {least}")),
            _ => Ok(()),
        }
    }
}

/// Returns the name that hosts use for an architecture.
fn architecture(name: &str) -> String {
    match name {
        "amd64" => "x86_64",
        "i386" | "i486" | "i586" | "x86" | "x86_32" => "i686",
        "arm64" => "aarch64",
        other => other,
    }
    .to_owned()
}

/// Returns the name that hosts use for a virtual machine mode.
fn mode(name: &str) -> String {
    match name {
        "hv" => "hvm",
        "pv" | "xenpv" => "xen",
        other => other,
    }
    .to_owned()
}

/// True if a version, written as 1000000 * major + 1000 * minor + patch, is within bounds such as `>=2.5.0, <4.0`. Unreadable bounds never
/// match. A host without a version matches.
fn is_version(version: i32, bounds: &str) -> bool {
    let meets = |bound: &str| {
        let operand = bound.trim_start_matches(['<', '>', '=', '!']);
        let Some(limit) = number(operand.trim()) else { return false };
        match &bound[..bound.len() - operand.len()] {
            "<" => version < limit,
            "<=" => version <= limit,
            ">" => version > limit,
            ">=" => version >= limit,
            "==" => version == limit,
            "!=" => version != limit,
            _ => false,
        }
    };
    version == 0 || bounds.split(',').all(|bound| meets(bound.trim()))
}

fn number(text: &str) -> Option<i32> {
    let mut parts = text.split('.').map(|part| part.parse::<i32>().ok().filter(|part| (0..1000).contains(part)));
    let (major, minor, patch) = (parts.next()??, parts.next().unwrap_or(Some(0))?, parts.next().unwrap_or(Some(0))?);
    parts.next().is_none().then_some(major * 1_000_000 + minor * 1000 + patch)
}
