//! An agent beside those of the cluster, in a directory of its own.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use cellshift::agent::config::AgentConfig;
use tempfile::TempDir;

use crate::stage::{program, until};

/// The process. It is killed when this value is dropped.
pub struct OtherAgent {
    process: Child,
    dir: TempDir,
}

impl OtherAgent {
    /// Starts an agent with this configuration, but with a data directory of its own.
    pub fn start(config: AgentConfig) -> OtherAgent {
        let dir = tempfile::tempdir().expect("a directory");
        let config = AgentConfig { data_dir: dir.path().join("data"), ..config };
        let file = dir.path().join("agent.toml");
        std::fs::write(&file, config.text().expect("a configuration")).expect("a file");
        let log = File::create(dir.path().join("agent.log")).expect("a log");
        let mut command = Command::new(program());
        command.args(["compute", "--config"]).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        OtherAgent { process: command.spawn().expect("the program runs"), dir }
    }

    /// Returns what the agent has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("agent.log")).expect("a log")
    }

    /// Waits until the agent says these words.
    pub async fn says(&self, words: &str) {
        until(words, async || self.log().contains(words)).await;
    }

    /// True while the process runs.
    pub fn runs(&mut self) -> bool {
        self.process.try_wait().expect("it is looked at").is_none()
    }
}

impl Drop for OtherAgent {
    fn drop(&mut self) {
        // A process that has ended already cannot be killed, and need not be.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
