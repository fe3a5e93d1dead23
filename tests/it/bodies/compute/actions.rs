//! `/servers/{id}/action`.

use serde_json::{Value, json};

use super::server_parts::socket;
use super::servers::{REBUILD, rebuilt};
use crate::bodies::Route;
use crate::bodies::parts::{never, nothing, object, one_of, only, perhaps, text, until, uuid};

pub static ROUTES: &[Route] = &[
    ("POST", "/servers/{}/action#os-start", &[1], nothing),
    ("POST", "/servers/{}/action#os-stop", &[1], nothing),
    ("POST", "/servers/{}/action#reboot", &[1], nothing),
    ("POST", "/servers/{}/action#pause", &[1], nothing),
    ("POST", "/servers/{}/action#unpause", &[1], nothing),
    ("POST", "/servers/{}/action#suspend", &[1], nothing),
    ("POST", "/servers/{}/action#resume", &[1], nothing),
    ("POST", "/servers/{}/action#rescue", &[1], |_| password()),
    ("POST", "/servers/{}/action#unrescue", &[1], nothing),
    ("POST", "/servers/{}/action#trigger_crash_dump", &[17], nothing),
    ("POST", "/servers/{}/action#changePassword", &[1], nothing),
    // The simulated hypervisor has serial consoles only.
    ("POST", "/servers/{}/action#os-getVNCConsole", &[1], never),
    ("POST", "/servers/{}/action#os-getSPICEConsole", &[1], never),
    ("POST", "/servers/{}/action#os-getRDPConsole", &[1], never),
    ("POST", "/servers/{}/action#os-getSerialConsole", &[1, 6], |minor| until(5, minor, only("console", console()))),
    // 2.45: the image's id in place of the header `Location`.
    ("POST", "/servers/{}/action#createImage", &[1, 45], image),
    ("POST", "/servers/{}/action#createBackup", &[1, 45], image),
    ("POST", "/servers/{}/action#rebuild", REBUILD, |minor| only("server", rebuilt(minor))),
    ("POST", "/servers/{}/action#resize", &[1], nothing),
    ("POST", "/servers/{}/action#confirmResize", &[1], nothing),
    ("POST", "/servers/{}/action#revertResize", &[1], nothing),
    ("POST", "/servers/{}/action#migrate", &[1], nothing),
    ("POST", "/servers/{}/action#os-migrateLive", &[1], nothing),
    ("POST", "/servers/{}/action#shelve", &[1], nothing),
    ("POST", "/servers/{}/action#shelveOffload", &[1], nothing),
    ("POST", "/servers/{}/action#unshelve", &[1], nothing),
    // 2.14: no password.
    ("POST", "/servers/{}/action#evacuate", &[1, 14], |minor| if minor >= 14 { nothing(minor) } else { evacuated() }),
    ("POST", "/servers/{}/action#lock", &[1], nothing),
    ("POST", "/servers/{}/action#unlock", &[1], nothing),
    ("POST", "/servers/{}/action#addSecurityGroup", &[1], nothing),
    ("POST", "/servers/{}/action#removeSecurityGroup", &[1], nothing),
    ("POST", "/servers/{}/action#addFixedIp", &[1, 44], |minor| until(43, minor, nothing(minor))),
    ("POST", "/servers/{}/action#removeFixedIp", &[1, 44], |minor| until(43, minor, nothing(minor))),
    ("POST", "/servers/{}/action#addFloatingIp", &[1, 44], |minor| until(43, minor, nothing(minor))),
    ("POST", "/servers/{}/action#removeFloatingIp", &[1, 44], |minor| until(43, minor, nothing(minor))),
    ("POST", "/servers/{}/action#forceDelete", &[1], nothing),
    ("POST", "/servers/{}/action#restore", &[1], nothing),
    ("POST", "/servers/{}/action#injectNetworkInfo", &[1], nothing),
    ("POST", "/servers/{}/action#resetNetwork", &[1], never),
    ("POST", "/servers/{}/action#os-resetState", &[1], nothing),
    ("POST", "/servers/{}/action#os-getConsoleOutput", &[1], |_| only("output", text())),
];

/// Describes the new password, which a configuration can keep out of answers.
fn password() -> Value {
    perhaps(object(json!({})), json!({"adminPass": text()}))
}

fn evacuated() -> Value {
    json!({"anyOf": [only("adminPass", text()), nothing(1)]})
}

fn console() -> Value {
    object(json!({"type": one_of(&["serial"]), "url": socket()}))
}

fn image(minor: u16) -> Value {
    if minor >= 45 { only("image_id", uuid()) } else { nothing(minor) }
}
