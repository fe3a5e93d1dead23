//! The flavors that a server can be resized to.

use crate::domain::flavor::Flavor;
use crate::domain::instance::Instance;

/// Returns the reason why the server cannot be resized to the flavor, if there is one.
pub fn objection(instance: &Instance, flavor: &Flavor) -> Option<String> {
    let old = &instance.flavor;
    if flavor.id == old.id {
        return Some("When resizing, instances must change flavor!".into());
    }
    if flavor.extra_specs.contains_key("accel:device_profile") {
        return Some("Forbidden: a server cannot be resized to a flavor with accelerators.".into());
    }
    if flavor.ephemeral_gb < old.ephemeral_gb {
        return Some(format!(
            "Flavor's ephemeral disk is too small: the server has {} GiB whose data would be lost, the flavor has {} GiB.",
            old.ephemeral_gb, flavor.ephemeral_gb
        ));
    }
    let demand = |key: &str| instance.system_metadata.get(key).and_then(|value| value.parse::<i32>().ok()).unwrap_or(0);
    if demand("image_min_ram") > flavor.memory_mb {
        return Some("Flavor's memory is too small for requested image.".into());
    }
    if instance.is_volume_backed() {
        return None;
    }
    if flavor.root_gb == 0 && old.root_gb != 0 {
        return Some("Server disk was unable to be resized because: Resize to zero disk flavor is not allowed.".into());
    }
    (flavor.root_gb != 0 && demand("image_min_disk") > flavor.root_gb).then(|| {
        format!(
            "Flavor's disk is too small for requested image. Flavor disk is {} GiB, the image asks for {} GiB.",
            flavor.root_gb,
            demand("image_min_disk")
        )
    })
}
