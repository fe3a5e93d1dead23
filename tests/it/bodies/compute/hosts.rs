//! `/os-hosts`, up to 2.42, and the audit log of usage.

use serde_json::{Value, json};

use crate::bodies::Route;
use crate::bodies::parts::{count, integer, list, never, object, one_of, only, text, until};

const UP_TO_42: &[u16] = &[1, 43];

pub static ROUTES: &[Route] = &[
    ("GET", "/os-hosts", UP_TO_42, |minor| {
        until(42, minor, only("hosts", list(object(json!({"host_name": text(), "service": text(), "zone": text()})))))
    }),
    ("GET", "/os-hosts/{}", UP_TO_42, |minor| until(42, minor, only("host", list(only("resource", resource()))))),
    ("PUT", "/os-hosts/{}", UP_TO_42, |minor| {
        until(42, minor, object(json!({"host": text(), "status": one_of(&["enabled", "disabled"])})))
    }),
    ("GET", "/os-hosts/{}/startup", &[1], never),
    ("GET", "/os-hosts/{}/shutdown", &[1], never),
    ("GET", "/os-hosts/{}/reboot", &[1], never),
    ("GET", "/os-instance_usage_audit_log", &[1], |_| only("instance_usage_audit_logs", log())),
    ("GET", "/os-instance_usage_audit_log/{}", &[1], |_| only("instance_usage_audit_log", log())),
];

fn resource() -> Value {
    object(json!({"host": text(), "project": text(), "cpu": integer(), "memory_mb": integer(), "disk_gb": integer()}))
}

fn log() -> Value {
    let midnight = json!({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-01 00:00:00$"});
    object(json!({
        "period_beginning": midnight,
        "period_ending": midnight,
        "num_hosts": count(),
        "num_hosts_done": count(),
        "num_hosts_running": count(),
        "num_hosts_not_run": count(),
        "hosts_not_run": list(text()),
        "total_instances": count(),
        "total_errors": count(),
        "overall_status": text(),
        // No host reports.
        "log": object(json!({})),
    }))
}
