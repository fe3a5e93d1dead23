//! Compares `/compute/v2.1/extensions` with the router: each route is listed, and each listed extension exists.

use std::collections::BTreeSet;

use super::house::visit;
use super::row::{Body, rows, version_for};

/// Aliases of actions or fields, which no path names.
const WITHOUT_A_PATH: [&str; 27] = [
    "os-access-ips",
    "os-admin-actions",
    "os-admin-password",
    "os-block-device-mapping",
    "os-config-drive",
    "os-console-output",
    "os-consoles",
    "os-create-backup",
    "os-deferred-delete",
    "os-evacuate",
    "os-extended-volumes",
    "os-flavor-manage",
    "os-flavor-rxtx",
    "os-lock-server",
    "os-migrate-server",
    "os-multinic",
    "os-multiple-create",
    "os-pause-server",
    "os-personality",
    "os-remote-consoles",
    "os-rescue",
    "os-server-sort-keys",
    "os-server-start-stop",
    "os-shelve",
    "os-suspend-server",
    "os-used-limits",
    "os-user-data",
];

/// Path segments that have another name in Nova's list.
const CALLED: [(&str, &str); 7] = [
    ("os-volume_attachments", "os-volumes"),
    ("os-snapshots", "os-volumes"),
    ("os-security-group-rules", "os-security-groups"),
    ("os-interface", "os-attach-interfaces"),
    ("os-extra_specs", "os-flavor-extra-specs"),
    ("diagnostics", "os-server-diagnostics"),
    ("os-instance_usage_audit_log", "os-instance-usage-audit-log"),
];

#[test]
fn extensions_are_listed_exactly_when_they_are_here() {
    visit(|house| async move {
        let get = async |path: &str| house.send_as("reader", "GET", path, version_for(path), &Body::None).await.json();
        let body = get("/compute/v2.1/extensions").await;
        let listed: Vec<&str> = body["extensions"].as_array().expect("extensions").iter().filter_map(|one| one["alias"].as_str()).collect();
        assert!(listed.is_sorted() && listed.iter().collect::<BTreeSet<_>>().len() == listed.len(), "each once: {listed:?}");
        let here: Vec<(String, String)> =
            rows().iter().filter(|row| row.answers.by_caller.iter().all(|status| *status != 410)).map(|row| row.route()).collect();
        let segments = here.iter().filter(|(_, path)| path.starts_with("/compute/v2.1/")).flat_map(|(_, path)| path.split('/'));
        let alias = |segment| CALLED.iter().find(|(name, _)| *name == segment).map_or(segment, |(_, alias)| *alias);
        let routed: BTreeSet<&str> = segments.map(alias).filter(|alias| alias.starts_with("os-")).collect();
        let listed: BTreeSet<&str> = listed.into_iter().filter(|alias| alias.starts_with("os-")).collect();
        assert_eq!(listed, routed.into_iter().chain(WITHOUT_A_PATH).collect());
        for alias in listed {
            let one = get(&format!("/compute/v2.1/extensions/{alias}")).await;
            assert_eq!(one["extension"]["alias"], alias);
        }
    });
}
