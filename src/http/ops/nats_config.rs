//! `/ops/v1/cells/{name}/nats-config`: the configuration of a cell's NATS server, with a user for the controllers and one for each enrolled
//! host. It has no secrets.

use std::path::PathBuf;

use actix_web::web;
use cellshift_nats::config::{AgentUser, ServerConfig, TlsFiles};
use cellshift_nats::credentials::UserKey;
use cellshift_nats::{CellAddress, Name};
use serde::Deserialize;
use serde_json::json;

use super::Operators;
use super::enrolments::{RULE, cell_named};
use super::unknown::no_cell;
use crate::domain::reason;
use crate::domain::reason::Inside;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, conflict, not_found, ok};

/// The address at which a NATS server listens unless the query says otherwise.
const EVERYWHERE: &str = "0.0.0.0:4222";

/// The parts of the configuration that only the operator of the NATS server knows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// The address and port at which the server listens.
    listen: Option<String>,
    /// The path of the server's certificate on its machine; with it the server takes TLS alone.
    certificate: Option<PathBuf>,
    /// The path of the certificate's private key there.
    key: Option<PathBuf>,
}

impl Query {
    /// Returns the files for TLS; an error if one of the two is missing.
    fn tls(&self) -> Result<Option<TlsFiles>, &'static str> {
        match (self.certificate.clone(), self.key.clone()) {
            (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
            (None, None) => Ok(None),
            _ => Err("certificate and key belong together: give both or neither."),
        }
    }
}

/// Answers `GET /cells/{name}/nats-config`.
pub async fn show(
    Call { api: operators, catalog, caller, .. }: Call<Operators>,
    name: web::Path<String>,
    query: web::Query<Query>,
) -> Answer {
    catalog.allow(&caller, RULE)?;
    let cell = cell_named(&catalog, &name).ok_or_else(|| not_found(no_cell(&catalog, &name)))?;
    let tls = query.tls().map_err(bad_request)?;
    let Some(key) = operators.agents.of(&cell.name)?.key.clone() else {
        return Err(conflict(format!("The controllers have no key for {name}: [nats.{name}] of the configuration names none.")));
    };
    let controllers = catalog.env.run_blocking(move || UserKey::read(&key)).await;
    let controllers =
        controllers.map_err(|error| conflict(reason!("The key of {name}'s controllers cannot be read: {}", Inside(error))))?;
    let enrolments = catalog.api.enrolments(Some(cell.uuid), None, i64::MAX).await?;
    let agents =
        enrolments.into_iter().map(|enrolment| Ok(AgentUser { host: Name::parse(&enrolment.host)?, public_key: enrolment.public_key }));
    let agents = agents.collect::<Result<Vec<_>, cellshift_nats::NameError>>().map_err(|error| conflict(reason!("{error}")))?;
    let address = CellAddress::new(Name::parse(&cell.name).map_err(|error| conflict(reason!("{error}")))?);
    let listen = query.listen.clone().unwrap_or_else(|| EVERYWHERE.to_owned());
    let config = ServerConfig { cell: address, listen, tls, controllers: controllers.public, agents };
    let text = config.text().map_err(|error| bad_request(reason!("{error}")))?;
    ok(&json!({"nats_config": {"cell": cell.name, "text": text}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_for_tls_belong_together() {
        let query = |certificate: Option<&str>, key: Option<&str>| Query {
            listen: None,
            certificate: certificate.map(PathBuf::from),
            key: key.map(PathBuf::from),
        };
        assert_eq!(query(None, None).tls(), Ok(None));
        let files = TlsFiles { certificate: "/c.pem".into(), key: "/k.pem".into() };
        assert_eq!(query(Some("/c.pem"), Some("/k.pem")).tls(), Ok(Some(files)));
        assert!(query(Some("/c.pem"), None).tls().is_err() && query(None, Some("/k.pem")).tls().is_err());
    }
}
