//! The processes of a cluster. The system kills them when this process ends, however it ends.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use super::ClusterError;

/// The pause between two looks at a process.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The part of a cluster that a process plays.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// The NATS server of a cell.
    Broker(String),
    /// The controller.
    Controller,
    /// The agent of a host.
    Agent(String),
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Broker(cell) => write!(f, "the NATS server of {cell}"),
            Role::Controller => f.write_str("the controller"),
            Role::Agent(host) => write!(f, "the agent of {host}"),
        }
    }
}

/// The running children. Dropping them kills them.
pub(super) struct Children {
    program: PathBuf,
    running: BTreeMap<Role, Child>,
}

impl Children {
    /// Starts children through this program, which is cellshift.
    pub fn of(program: &Path) -> Children {
        Children { program: program.to_owned(), running: BTreeMap::new() }
    }

    /// Starts a child from its command line, with its output appended to the log. The system kills the child when the calling thread ends, so
    /// this must be a thread that lives as long as the cluster.
    pub fn start(&mut self, role: Role, line: &[OsString], log: &Path) -> Result<(), ClusterError> {
        let output = OpenOptions::new().create(true).append(true).open(log).map_err(ClusterError::file(log))?;
        let errors = output.try_clone().map_err(ClusterError::file(log))?;
        let mut command = Command::new(&self.program);
        command.args(["below", &std::process::id().to_string(), "--"]).args(line);
        command.stdin(Stdio::null()).stdout(output).stderr(errors).env_remove("NOTIFY_SOCKET");
        // An interrupt from the terminal reaches this process alone, which stops its children in their order.
        let child = command.process_group(0).spawn().map_err(ClusterError::file(&self.program))?;
        self.running.insert(role, child);
        Ok(())
    }

    /// Returns the running children with the ids of their processes.
    pub fn ids(&self) -> impl Iterator<Item = (&Role, u32)> {
        self.running.iter().map(|(role, child)| (role, child.id()))
    }

    /// Sends a signal to a child. Does nothing if the child does not run.
    pub fn signal(&self, role: &Role, signal: Signal) -> Result<(), ClusterError> {
        match self.running.get(role) {
            Some(child) => send(child, signal).map_err(ClusterError::file(&self.program)),
            None => Ok(()),
        }
    }

    /// Kills a child and waits for its end. Does nothing if the child does not run.
    pub fn kill(&mut self, role: &Role) -> Result<(), ClusterError> {
        match self.running.remove(role) {
            Some(mut child) => end(&mut child).map_err(ClusterError::file(&self.program)),
            None => Ok(()),
        }
    }

    /// Returns how a child has ended; none while it runs.
    pub fn end_of(&mut self, role: &Role) -> Option<ExitStatus> {
        self.running.get_mut(role)?.try_wait().ok().flatten()
    }

    /// Returns the children that have ended since the last call, and forgets them.
    pub fn ended(&mut self) -> Vec<(Role, ExitStatus)> {
        let ended: Vec<(Role, ExitStatus)> =
            self.running.iter_mut().filter_map(|(role, child)| Some((role.clone(), child.try_wait().ok().flatten()?))).collect();
        for (role, _) in &ended {
            self.running.remove(role);
        }
        ended
    }

    /// Tells these children to end, and kills those that have not ended within the time.
    pub async fn stop(&mut self, is_meant: impl Fn(&Role) -> bool, patience: Duration) -> Result<(), ClusterError> {
        let roles: Vec<Role> = self.running.keys().filter(|role| is_meant(role)).cloned().collect();
        roles.iter().try_for_each(|role| self.signal(role, Signal::TERM))?;
        let deadline = Instant::now() + patience;
        for role in &roles {
            while self.end_of(role).is_none() && Instant::now() < deadline {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            self.kill(role)?;
        }
        Ok(())
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        // A child that has ended already cannot be killed, and need not be.
        self.running.values_mut().for_each(|child| drop(end(child)));
    }
}

/// Sends a signal to a process that has not been waited for; one that has ended takes it without effect.
fn send(child: &Child, signal: Signal) -> std::io::Result<()> {
    match kill_process(Pid::from_child(child), signal) {
        Err(rustix::io::Errno::SRCH) => Ok(()),
        outcome => Ok(outcome?),
    }
}

fn end(child: &mut Child) -> std::io::Result<()> {
    child.kill()?;
    child.wait().map(drop)
}
