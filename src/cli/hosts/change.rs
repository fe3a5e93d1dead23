//! A change of many hosts: each is asked for, and each refusal is told.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli::Failure;
use crate::cli::output::{Output, counted, entries, table, text};
use crate::cli::progress::Progress;
use crate::cli::words::in_options;
use crate::client::{Client, ClientError};

/// The exit code if a host could not be changed.
const UNCHANGED: u8 = 3;

/// A change of hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Enable,
    Disable { reason: Option<String> },
    ForceDown(bool),
}

/// The options that set the fields of a request.
const OPTIONS: [(&str, &str); 1] = [("disabled_reason", "--reason")];

impl Change {
    /// Returns the request to a host's service.
    fn body(&self) -> Value {
        match self {
            Change::Enable => json!({"status": "enabled"}),
            Change::Disable { reason: None } => json!({"status": "disabled"}),
            Change::Disable { reason: Some(reason) } => json!({"status": "disabled", "disabled_reason": reason}),
            Change::ForceDown(down) => json!({ "forced_down": down }),
        }
    }

    /// Returns the state of a changed host.
    fn word(&self) -> &'static str {
        match self {
            Change::Enable => "enabled",
            Change::Disable { .. } => "disabled",
            Change::ForceDown(true) => "forced down",
            Change::ForceDown(false) => "not forced down",
        }
    }

    /// True if the host is so already. A new reason is written all the same.
    fn is_done(&self, host: &Value) -> bool {
        match self {
            Change::Enable => host["status"] == "enabled",
            Change::Disable { reason } => {
                host["status"] == "disabled" && reason.as_deref().is_none_or(|reason| host["disabled_reason"] == reason)
            }
            Change::ForceDown(down) => host["forced_down"] == *down,
        }
    }

    /// Changes these hosts, and reports each. Returns 3 if one could not be changed.
    pub(super) async fn of_hosts(&self, client: &Client, hosts: &[Value], output: Output) -> Result<ExitCode, Failure> {
        let services = client.get("compute", "/os-services?binary=nova-compute").await?;
        let ids: BTreeMap<&str, &str> =
            entries(&services, "services").iter().map(|service| (text(service, "host"), text(service, "id"))).collect();
        let progress = Progress::spinning();
        let mut results = Vec::new();
        for (number, host) in hosts.iter().enumerate() {
            progress.says(format!("{number} of {}", counted(hosts.len(), "host")));
            let name = text(host, "name");
            let outcome = if self.is_done(host) { Ok(false) } else { self.of_host(client, ids.get(name).copied()).await.map(|()| true) };
            results.push(result(host, self.word(), outcome));
        }
        drop(progress);
        let failed = results.iter().filter(|result| result["error"].is_string()).count();
        output.show(&json!({ "hosts": results }), report)?;
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(UNCHANGED) })
    }

    async fn of_host(&self, client: &Client, service: Option<&str>) -> Result<(), String> {
        let service = service.ok_or("its cell does not answer")?;
        match client.put("compute", &format!("/os-services/{service}"), self.body()).await {
            Ok(_) => Ok(()),
            Err(ClientError::Refused { message, .. }) => Err(in_options(&message, &OPTIONS)),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Describes what became of a host: whether it was changed, or why not.
fn result(host: &Value, word: &str, outcome: Result<bool, String>) -> Value {
    let (changed, error) = match outcome {
        Ok(changed) => (changed, None),
        Err(error) => (false, Some(error)),
    };
    let state = error.is_none().then_some(word);
    json!({"name": host["name"], "cell": host["cell"], "state": state, "changed": changed, "error": error})
}

fn report(answer: &Value) -> String {
    let row = |host: &Value| {
        let outcome = match (host["error"].as_str(), text(host, "state"), host["changed"] == true) {
            (Some(error), ..) => format!("unchanged: {error}"),
            (None, state, true) => state.to_owned(),
            (None, state, false) => format!("{state} already"),
        };
        [text(host, "name").to_owned(), text(host, "cell").to_owned(), outcome]
    };
    table(["HOST", "CELL", "OUTCOME"], entries(answer, "hosts").iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_so_already_are_left_alone() {
        let host = json!({"status": "disabled", "disabled_reason": "a fan", "forced_down": false});
        let disable = |reason: Option<&str>| Change::Disable { reason: reason.map(str::to_owned) };
        assert!(disable(None).is_done(&host) && disable(Some("a fan")).is_done(&host) && Change::ForceDown(false).is_done(&host));
        assert!(!disable(Some("a disk")).is_done(&host) && !Change::Enable.is_done(&host) && !Change::ForceDown(true).is_done(&host));
        assert_eq!(disable(Some("a disk")).body(), json!({"status": "disabled", "disabled_reason": "a disk"}));
    }

    #[test]
    fn each_host_has_its_outcome() {
        let host = |name: &str| json!({"name": name, "cell": "c"});
        let outcomes = [Ok(true), Ok(false), Err("it was not cleaned up".to_owned())];
        let results: Vec<Value> =
            ["h1", "h2", "h3"].iter().zip(outcomes).map(|(name, outcome)| result(&host(name), "enabled", outcome)).collect();
        let table = report(&json!({ "hosts": results }));
        assert_eq!(
            table,
            "HOST  CELL  OUTCOME\nh1    c     enabled\nh2    c     enabled already\nh3    c     unchanged: it was not cleaned up\n"
        );
    }
}
