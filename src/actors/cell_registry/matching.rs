//! The filters of server lists for records in memory. Build requests are in no cell, so no cell's SQL can filter them.

use crate::db::cell::bundle::InstanceBundle;
use crate::db::cell::instance_filter::{Deleted, InstanceFilter};

/// True if the build request meets every condition.
pub fn admits(filter: &InstanceFilter, bundle: &InstanceBundle) -> bool {
    filter.deleted != Deleted::Only && fields(filter, bundle) && states(filter, bundle) && times(filter, bundle) && labels(filter, bundle)
}

fn equal<T: PartialEq>(wanted: Option<&T>, held: Option<&T>) -> bool {
    wanted.is_none_or(|wanted| held == Some(wanted))
}

fn fields(filter: &InstanceFilter, bundle: &InstanceBundle) -> bool {
    let instance = &bundle.instance;
    equal(filter.project_id.as_ref(), Some(&instance.project_id))
        && equal(filter.user_id.as_ref(), Some(&instance.user_id))
        && filter.uuids.as_ref().is_none_or(|uuids| uuids.contains(&instance.uuid))
        && equal(filter.reservation_id.as_ref(), instance.reservation_id.as_ref())
        && equal(filter.host.as_ref(), instance.host.as_ref())
        && equal(filter.node.as_ref(), instance.node.as_ref())
        && equal(filter.availability_zone.as_ref(), instance.availability_zone.as_ref())
        && equal(filter.flavor_id.as_ref(), Some(&instance.flavor.id))
        && equal(filter.image_ref.as_ref(), Some(&instance.image_ref))
        && equal(filter.key_name.as_ref(), instance.key_name.as_ref())
        && equal(filter.locked.as_ref(), Some(&instance.locked))
        && equal(filter.locked_by.as_ref(), instance.locked_by.as_ref())
        && equal(filter.config_drive.as_ref(), Some(&instance.config_drive))
        && equal(filter.auto_disk_config.as_ref(), Some(&instance.auto_disk_config))
        && equal(filter.launch_index.as_ref(), Some(&instance.launch_index))
        && equal(filter.progress.as_ref(), Some(&instance.progress))
        && equal(filter.root_device_name.as_ref(), instance.root_device_name.as_ref())
        && equal(filter.access_ip_v4.as_ref(), instance.access_ip_v4.as_ref())
        && equal(filter.access_ip_v6.as_ref(), instance.access_ip_v6.as_ref())
        && equal(filter.power_state.as_ref(), Some(&instance.power_state))
}

fn states(filter: &InstanceFilter, bundle: &InstanceBundle) -> bool {
    let (vm, task) = (bundle.instance.vm_state, bundle.instance.task_state);
    filter.vm_states.as_ref().is_none_or(|states| states.contains(&vm))
        && filter.task_states.as_ref().is_none_or(|states| states.contains(&task))
        && filter.states.as_ref().is_none_or(|pairs| pairs.contains(&(vm, task)))
}

fn times(filter: &InstanceFilter, bundle: &InstanceBundle) -> bool {
    let instance = &bundle.instance;
    let changed = instance.updated_at.unwrap_or(instance.created_at);
    equal(filter.created_at.as_ref(), Some(&instance.created_at))
        && equal(filter.launched_at.as_ref(), instance.launched_at.as_ref())
        && equal(filter.terminated_at.as_ref(), instance.terminated_at.as_ref())
        && filter.changes_since.is_none_or(|since| changed >= since)
        && filter.changes_before.is_none_or(|before| changed <= before)
}

fn labels(filter: &InstanceFilter, bundle: &InstanceBundle) -> bool {
    let instance = &bundle.instance;
    let has = |tag: &String| bundle.tags.contains(tag);
    let found = |pattern: &Option<regex::Regex>, text: Option<&str>| {
        pattern.as_ref().is_none_or(|pattern| pattern.is_match(text.unwrap_or_default()))
    };
    let address = |pattern: &Option<regex::Regex>, version: u8| {
        let addresses = bundle.info_cache.iter().flat_map(|info| info.addresses()).filter(|address| address.version() == version);
        let mut texts = addresses.map(|address| address.address.as_str());
        pattern.as_ref().is_none_or(|pattern| texts.any(|text| pattern.is_match(text)))
    };
    filter.tags.iter().all(has)
        && (filter.tags_any.is_empty() || filter.tags_any.iter().any(has))
        && (filter.not_tags.is_empty() || !filter.not_tags.iter().all(has))
        && !filter.not_tags_any.iter().any(has)
        && filter.metadata.iter().all(|(key, value)| bundle.metadata.get(key) == Some(value))
        && found(&filter.name, Some(&instance.display_name))
        && found(&filter.description, instance.display_description.as_deref())
        && found(&filter.hostname, instance.hostname.as_deref())
        && address(&filter.ip, 4)
        && address(&filter.ip6, 6)
}
