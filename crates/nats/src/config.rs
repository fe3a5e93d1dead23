//! The configuration of a cell's NATS server: a user for each agent and one for the controllers, each with the rights that it needs.
//!
//! An agent may listen to the messages to its own name in any life, to the controllers' calls for reports, and to its own inbox. It may
//! publish its own hellos, reports and questions, and answer each message that it got, once and within [`REPLY_RIGHT`]. It sees nothing of
//! other agents, and cannot speak as one.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cellshift_host::link::LONGEST_PATIENCE;

use crate::subjects::{CellAddress, Name};

/// The time within which an agent may answer a message. A sender waits a little less long.
pub const REPLY_RIGHT: Duration = LONGEST_PATIENCE.saturating_add(Duration::from_secs(30));
/// The maximum size of a message with its headers. The program keeps to half of it.
const PAYLOAD_MAX: usize = 1024 * 1024;

/// The reason why a configuration cannot be written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} cannot stand in the configuration of a NATS server: it has a quotation mark, a backslash or a control character")]
pub struct ConfigError(String);

/// The files for TLS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The server's certificate and those between it and its authority, as PEM.
    pub certificate: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
}

/// An agent that may connect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentUser {
    /// The host's name.
    pub host: Name,
    /// The public half of its key ([`crate::credentials::UserKey`]).
    pub public_key: String,
}

/// The configuration of a cell's NATS server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerConfig {
    /// The cell.
    pub cell: CellAddress,
    /// The address and port at which it listens.
    pub listen: String,
    /// The files for TLS; none for connections in clear text.
    pub tls: Option<TlsFiles>,
    /// The public half of the key that all controllers share.
    pub controllers: String,
    /// The agents.
    pub agents: Vec<AgentUser>,
}

impl ServerConfig {
    /// Returns the text of the configuration file. It has no secret.
    pub fn text(&self) -> Result<String, ConfigError> {
        let mut text = format!(
            "# The NATS server of cell {}. Written by cellshift; it has no secrets.\n\
             server_name: {}\n\
             listen: {}\n\
             max_payload: {PAYLOAD_MAX}\n\
             # After a restart, many agents log in at once.\n\
             ping_interval: \"10s\"\n\
             ping_max: 2\n",
            self.cell.cell,
            quoted(&format!("cellshift-{}", self.cell.cell))?,
            quoted(&self.listen)?,
        );
        if let Some(tls) = &self.tls {
            let (certificate, key) = (path(&tls.certificate)?, path(&tls.key)?);
            let _ = write!(text, "\ntls {{\n  cert_file: {certificate}\n  key_file: {key}\n  timeout: 10\n}}\n");
        }
        let _ = write!(text, "\nauthorization {{\n  timeout: 20\n  users: [\n    # The controllers\n{}", self.controllers_user()?);
        for agent in &self.agents {
            text.push_str(&self.agent_user(agent)?);
        }
        text.push_str("  ]\n}\n");
        Ok(text)
    }

    fn controllers_user(&self) -> Result<String, ConfigError> {
        let publish = [self.cell.to_hosts(), self.cell.answers_to_hosts(), self.cell.roll_call()];
        let inbox = format!("{}.>", self.cell.inbox());
        let subscribe = [self.cell.hellos(), self.cell.reports(), self.cell.questions(), inbox];
        user(&self.controllers, &publish, &subscribe, "")
    }

    fn agent_user(&self, agent: &AgentUser) -> Result<String, ConfigError> {
        let host = self.cell.host(agent.host.clone());
        let publish = [host.hello(), host.report(), host.question()];
        let subscribe = [host.to_any_life(), self.cell.roll_call(), format!("{}.>", host.inbox())];
        let replies = format!("        allow_responses: {{ max: 1, expires: \"{}s\" }}\n", REPLY_RIGHT.as_secs());
        Ok(format!("    # Host {}\n{}", agent.host, user(&agent.public_key, &publish, &subscribe, &replies)?))
    }
}

/// Returns a user with its rights.
fn user(public_key: &str, publish: &[String], subscribe: &[String], replies: &str) -> Result<String, ConfigError> {
    let list =
        |subjects: &[String]| subjects.iter().map(|subject| quoted(subject)).collect::<Result<Vec<_>, _>>().map(|all| all.join(", "));
    Ok(format!(
        "    {{\n      nkey: {}\n      permissions: {{\n        publish: {{ allow: [{}] }}\n        subscribe: {{ allow: [{}] }}\n\
         {replies}      }}\n    }}\n",
        quoted(public_key)?,
        list(publish)?,
        list(subscribe)?,
    ))
}

fn path(path: &Path) -> Result<String, ConfigError> {
    quoted(path.to_str().ok_or_else(|| ConfigError(path.display().to_string()))?)
}

/// Returns the text in quotation marks. The server reads an escape in its own ways, so a text that would need one is refused.
fn quoted(text: &str) -> Result<String, ConfigError> {
    match text.chars().any(|letter| letter.is_control() || letter == '"' || letter == '\\') {
        true => Err(ConfigError(text.to_owned())),
        false => Ok(format!("\"{text}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(tls: Option<TlsFiles>) -> ServerConfig {
        let agent = AgentUser { host: Name::parse("node-7.example").unwrap(), public_key: "UAGENT".to_owned() };
        let cell = CellAddress::new(Name::parse("cell1").unwrap());
        ServerConfig { cell, listen: "127.0.0.1:4222".to_owned(), tls, controllers: "UCONTROLLERS".to_owned(), agents: vec![agent] }
    }

    #[test]
    fn each_user_has_the_rights_that_it_needs() {
        let text = config(None).text().unwrap();
        let agent = text.split("# Host node-7.example").nth(1).unwrap();
        assert_eq!(
            agent,
            r#"
    {
      nkey: "UAGENT"
      permissions: {
        publish: { allow: ["cellshift.cell1.hello.node-7~example", "cellshift.cell1.report.node-7~example", "cellshift.cell1.ask.node-7~example"] }
        subscribe: { allow: ["cellshift.cell1.host.node-7~example.*.*", "cellshift.cell1.roll", "cellshift.cell1.inbox.host.node-7~example.>"] }
        allow_responses: { max: 1, expires: "50s" }
      }
    }
  ]
}
"#
        );
        assert!(text.contains(r#"publish: { allow: ["cellshift.cell1.host.>", "cellshift.cell1.inbox.host.>", "cellshift.cell1.roll"] }"#));
    }

    #[test]
    fn tls_is_configured_by_two_files() {
        let files = TlsFiles { certificate: "/etc/nats/cell1.pem".into(), key: "/etc/nats/cell1.key".into() };
        let text = config(Some(files)).text().unwrap();
        assert!(text.contains("tls {\n  cert_file: \"/etc/nats/cell1.pem\"\n  key_file: \"/etc/nats/cell1.key\"\n"), "{text}");
        assert!(!config(None).text().unwrap().contains("tls"));
    }

    #[test]
    fn a_text_cannot_break_out_of_its_place() {
        for wrong in ["127.0.0.1:4222\"\nport: 1", "a\\b", "a\nb"] {
            let config = ServerConfig { listen: wrong.to_owned(), ..config(None) };
            assert_eq!(config.text(), Err(ConfigError(wrong.to_owned())));
        }
    }
}
