//! `cellshift cluster` as a process: what it prints, and that nothing of it is left when it ends.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::stage::{program, run, until};

/// A running command.
struct Running {
    process: Child,
    address: String,
    children: Vec<u32>,
}

impl Running {
    /// Starts the command over a directory, and waits until it has said all.
    fn start(data: &Path) -> Running {
        let mut command = Command::new(program());
        command.args(["cluster", "--agents", "1", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data);
        let mut process = command.stdout(Stdio::piped()).spawn().expect("the program runs");
        let mut lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let mut next = || lines.next().map(|line| line.expect("a line"));
        let first = next().expect("the command says where the controller listens");
        let address = first.split("http://").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address").to_owned();
        assert!(first.contains("cell1 (1 agent), cell2 (1 agent)"), "{first}");
        let mut children = Vec::new();
        // The last line of what serve prints, too.
        while let Some(line) = next().filter(|line| !line.contains("/healthcheck")) {
            children.extend(line.split_once("  the ").and_then(|(id, _)| id.trim().parse::<u32>().ok()));
        }
        assert_eq!(children.len(), 5, "a controller, two agents and two NATS servers");
        Running { process, address, children }
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.process.id().to_string()]).status().expect("kill runs").success());
    }
}

/// True if the process runs.
fn runs(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The state stands behind the program's name, which is in brackets. A zombie waits for its parent only.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

async fn all_end(children: &[u32]) {
    until("all processes of the cluster have ended", async || !children.iter().any(|id| runs(*id))).await;
}

#[tokio::test]
async fn nothing_is_left_however_the_command_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut first = Running::start(dir.path());
    assert!(first.children.iter().all(|id| runs(*id)));
    let ready = reqwest::get(format!("http://{}/ready", first.address)).await.expect("an answer");
    assert_eq!(ready.status().as_u16(), 200, "{}", ready.text().await.unwrap_or_default());
    for file in ["clouds.yaml", "policy.yaml"] {
        assert!(dir.path().join(file).is_file(), "{file}");
    }
    first.signal("-KILL");
    first.process.wait().expect("it ends");
    all_end(&first.children).await;

    let mut second = Running::start(dir.path());
    second.signal("-TERM");
    let status = second.process.wait().expect("it ends");
    assert!(status.success(), "{status}");
    all_end(&second.children).await;
}

#[test]
fn the_demo_tells_its_story_over_a_cluster() {
    let demo = run(&["cluster", "--demo", "--agents", "1"]);
    let (story, complaint) = (String::from_utf8_lossy(&demo.stdout), String::from_utf8_lossy(&demo.stderr));
    assert!(demo.status.success(), "{story}\n{complaint}");
    assert!(story.contains("loses its power") && story.contains("nothing lost and nothing left over"), "{story}");
}
