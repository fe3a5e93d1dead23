//! The hosts of the compute API, as the network API shows their agents.

use async_trait::async_trait;
use cellshift_embedded::network::agents::{AgentHost, AgentHosts};

use super::compute::catalog::Catalog;
use super::compute::zones::COMPUTE;
use super::error::ApiError;
use crate::domain::service::Service;

#[async_trait(?Send)]
impl AgentHosts for Catalog {
    async fn all(&self) -> Result<Vec<AgentHost>, ApiError> {
        let mut hosts = Vec::new();
        for heard in self.ask_cells(|cell| cell.services()).await {
            match heard.answer {
                Ok(services) => {
                    let compute = services.iter().filter(|service| service.binary == COMPUTE);
                    hosts.extend(compute.map(|service| host(self, &service.host, Some(service))));
                }
                Err(why) => {
                    log::warn!(cell = heard.cell.name.as_str(); "the hosts of a cell are not known to live: {why}");
                    let mappings = self.api.hosts_of_cell(heard.cell.uuid).await?;
                    hosts.extend(mappings.iter().map(|mapping| host(self, &mapping.host, None)));
                }
            }
        }
        Ok(hosts)
    }
}

fn host(catalog: &Catalog, name: &str, service: Option<&Service>) -> AgentHost {
    AgentHost {
        name: name.to_owned(),
        network: catalog.host_networks.of(name),
        is_up: service.is_some_and(|service| catalog.is_up(service)),
        since: service.map(|service| service.created_at),
        last_seen: service.and_then(|service| service.last_seen_up.or(service.updated_at)),
    }
}
