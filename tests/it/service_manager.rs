//! The service under a service manager: the systemd unit's own command is run, and tells when it is ready, that it lives and that it stops.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::service::program;

const UNIT: &str = "packaging/systemd/cellshift.service";

/// Returns the value of a line of the unit.
fn line(key: &str) -> String {
    let unit = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(UNIT)).expect("the unit");
    let value = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=').map(str::to_owned));
    value.unwrap_or_else(|| panic!("{UNIT} has no {key}"))
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

#[test]
fn the_units_command_tells_the_manager_how_it_goes() {
    assert_eq!((line("Type").as_str(), line("NotifyAccess").as_str()), ("notify", "main"));
    let dir = tempfile::tempdir().expect("a directory");
    let (socket, data) = (dir.path().join("notify"), dir.path().join("data"));
    let manager = UnixDatagram::bind(&socket).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("a bound");

    let command = line("ExecStart");
    let words: Vec<&str> = command.split_whitespace().collect();
    let [_, options @ .., "/var/lib/cellshift", "$CELLSHIFT_OPTIONS"] = words.as_slice() else { panic!("{command}") };
    let mut process = Command::new(program())
        .args(options)
        .arg(&data)
        .args(["--listen", "127.0.0.1:0"])
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
