//! The built program as a process over a data directory.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Seek};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use serde_json::Value;

use crate::client::User;

/// A running `cellshift serve`; killed when it is dropped.
pub struct Service {
    process: Child,
    pub address: SocketAddr,
}

/// The output and the exit of a subcommand.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Returns the tested program: this build's, or the one that `CELLSHIFT_BIN` names, such as a release.
pub fn program() -> OsString {
    std::env::var_os("CELLSHIFT_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_cellshift").into())
}

/// Runs a subcommand to its end.
pub fn run(arguments: &[&str]) -> Ended {
    let Output { status, stdout, stderr } = Command::new(program()).args(arguments).output().expect("the program runs");
    Ended {
        code: status.code(),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// Returns the address in the first line of a service.
fn address_in(said: &str) -> Option<SocketAddr> {
    said.split("http://").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|text| text.parse().ok())
}

/// Has the service choose a port.
const FREE_PORT: &str = "127.0.0.1:0";

impl Service {
    /// Starts the service on a free port and waits until it prints its address.
    pub fn start(data: &Path, arguments: &[&str]) -> Service {
        Service::start_with(data, FREE_PORT, arguments, Stdio::null())
    }

    /// As [`Service::start`], with its log appended to this file.
    pub fn start_logging(data: &Path, arguments: &[&str], log: &Path) -> Service {
        let log = OpenOptions::new().create(true).append(true).open(log).expect("the log's file");
        Service::start_with(data, FREE_PORT, arguments, Stdio::from(log))
    }

    /// Starts the service again at its former address.
    pub fn start_again(data: &Path, address: &str) -> Service {
        Service::start_with(data, address, &[], Stdio::null())
    }

    fn start_with(data: &Path, listen: &str, arguments: &[&str], log: Stdio) -> Service {
        let mut command = Command::new(program());
        command.args(["serve", "--listen", listen, "--data-dir"]).arg(data).args(arguments).stderr(log);
        Service::of(&mut command).0
    }

    /// Starts a command that serves, and waits until it prints its address. Also returns the line with it.
    pub fn of(command: &mut Command) -> (Service, String) {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("the program runs");
        let mut said = String::new();
        BufReader::new(process.stdout.take().expect("its output")).read_line(&mut said).expect("a line");
        let address = address_in(&said).unwrap_or_else(|| panic!("it says where it listens, not {said:?}"));
        (Service { process, address }, said)
    }

    /// Starts a service that must be refused. Returns its standard error.
    pub fn refusal(data: &Path, arguments: &[&str]) -> String {
        let ended = match Service::attempt(data, arguments) {
            Ok(service) => panic!("it serves at {}, and was to be refused", service.address),
            Err(ended) => ended,
        };
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        ended.stderr
    }

    /// Starts the service on a free port, and returns its end if it is refused.
    pub fn attempt(data: &Path, arguments: &[&str]) -> Result<Service, Ended> {
        let mut log = tempfile::tempfile().expect("a file");
        let mut command = Command::new(program());
        command.args(["serve", "--listen", FREE_PORT, "--data-dir"]).arg(data).args(arguments);
        command.stdout(Stdio::piped()).stderr(log.try_clone().expect("a file"));
        let mut process = command.spawn().expect("the program runs");
        let mut said = String::new();
        BufReader::new(process.stdout.take().expect("its output")).read_line(&mut said).expect("its output is read");
        if let Some(address) = address_in(&said) {
            return Ok(Service { process, address });
        }
        let code = process.wait().expect("it ends").code();
        let mut stderr = String::new();
        log.rewind().and_then(|()| log.read_to_string(&mut stderr)).expect("its words");
        Err(Ended { code, stdout: said, stderr })
    }

    /// Returns the user of a cloud in the data directory's `clouds.yaml`.
    pub async fn user(&self, data: &Path, cloud: &str) -> User {
        let text = std::fs::read_to_string(data.join("clouds.yaml")).expect("clouds.yaml");
        let clouds: Value = serde_yaml_ng::from_str(&text).expect("YAML");
        let auth = &clouds["clouds"][cloud]["auth"];
        let word = |key: &str| auth[key].as_str().expect("a word");
        User::sign_in_at(self.address, word("username"), word("password"), word("project_name")).await
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.process.id().to_string()]).status().expect("kill runs");
        assert!(status.success());
    }

    /// Returns the number of the process's threads.
    pub fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.process.id())).expect("the process lives").count()
    }

    /// Waits until the process ends by itself.
    pub fn death(mut self) -> ExitStatus {
        self.process.wait().expect("it ends")
    }

    /// Stops the process and waits for its end.
    pub fn stop(mut self) {
        self.signal("-TERM");
        let status = self.process.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // After `stop` there is no process to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
