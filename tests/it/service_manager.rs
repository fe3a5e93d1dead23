//! The service and an agent under a service manager: each systemd unit's own command is run, and tells when it is ready, that it lives and that
//! it stops.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use cellshift::agent::config::{AgentConfig, AgentHost, AgentNats};
use cellshift_nats::credentials::UserKey;
use uuid::Uuid;

use crate::service::program;

const SERVICE: &str = "packaging/systemd/cellshift.service";
const AGENT: &str = "packaging/systemd/cellshift-compute.service";

/// Returns the value of a line of a unit.
fn line(unit: &str, key: &str) -> String {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(unit)).expect("the unit");
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=').map(str::to_owned));
    value.unwrap_or_else(|| panic!("{unit} has no {key}"))
}

/// Waits for a message that has this line.
fn message(manager: &UnixDatagram, expected: &str) {
    let mut message = [0; 4096];
    loop {
        let length = manager.recv(&mut message).unwrap_or_else(|error| panic!("the manager waits for {expected}: {error}"));
        let text = String::from_utf8_lossy(&message[..length]);
        if text.lines().any(|line| line == expected) {
            return;
        }
        assert!(text.starts_with("WATCHDOG="), "the manager waits for {expected}, not for {text:?}");
    }
}

/// Runs the program with these arguments until it is ready and shows life, and then ends it in order.
fn tells_the_manager(unit: &str, folder: &Path, arguments: &[&str]) {
    assert_eq!((line(unit, "Type").as_str(), line(unit, "NotifyAccess").as_str()), ("notify", "main"));
    let socket = folder.join("notify");
    let manager = UnixDatagram::bind(&socket).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("a bound");
    let mut process = Command::new(program())
        .args(arguments)
        .envs([("NOTIFY_SOCKET", socket.to_str().expect("a path")), ("WATCHDOG_USEC", "400000")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs");
    message(&manager, "READY=1");
    message(&manager, "WATCHDOG=1");
    let signalled = Command::new("kill").args(["-TERM", &process.id().to_string()]).status().expect("kill runs");
    assert!(signalled.success());
    message(&manager, "STOPPING=1");
    assert!(process.wait().expect("it ends").success());
}

#[test]
fn the_units_command_tells_the_manager_how_it_goes() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let command = line(SERVICE, "ExecStart");
    let words: Vec<&str> = command.split_whitespace().collect();
    let [_, options @ .., "/var/lib/cellshift", "$CELLSHIFT_OPTIONS"] = words.as_slice() else { panic!("{command}") };
    let more = [data.to_str().expect("a path"), "--listen", "127.0.0.1:0"];
    tells_the_manager(SERVICE, dir.path(), &[options, &more].concat());
}

/// The agent is ready without its NATS server: it connects when there is one.
#[test]
fn the_agents_unit_tells_the_manager_how_it_goes() {
    let dir = tempfile::tempdir().expect("a directory");
    let (config, data) = (dir.path().join("agent.toml"), dir.path().join("data"));
    UserKey::new().and_then(|key| key.write(&dir.path().join("host.nk"))).expect("a key");
    let hosts = vec![AgentHost { name: "cell1-host1".to_owned(), key: "host.nk".into() }];
    let nats = AgentNats { servers: vec!["nats://127.0.0.1:9".to_owned()], authorities: None };
    let text = AgentConfig::new("cell1", Uuid::from_u128(1), data.clone(), hosts, nats).text().expect("a configuration");
    std::fs::write(&config, text).expect("a file");

    let command = line(AGENT, "ExecStart");
    let words: Vec<&str> = command.split_whitespace().collect();
    let [_, "compute", "--config", config_file, "--data-dir", data_dir, "$CELLSHIFT_COMPUTE_OPTIONS"] = words.as_slice() else {
        panic!("{command}")
    };
    assert_eq!((*config_file, *data_dir), ("/etc/cellshift-compute/agent.toml", "/var/lib/cellshift-compute"));
    assert_eq!(line(AGENT, "StateDirectory"), "cellshift-compute");
    let arguments = ["compute", "--config", config.to_str().expect("a path"), "--data-dir", data.to_str().expect("a path")];
    tells_the_manager(AGENT, dir.path(), &arguments);
}
