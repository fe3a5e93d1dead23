//! Connects the cells whose hosts are agents with their NATS.

use cellshift_nats::{CellAddress, Name, Silence};

use super::LaunchError;
use crate::actors::agents::AgentsOptions;
use crate::actors::root::{AgentsStart, Parts};
use crate::bootstrap::Cloud;

/// Begins to connect to the NATS of each cell whose hosts are agents.
pub(super) async fn connect(cloud: &Cloud, parts: &mut Parts) -> Result<(), LaunchError> {
    let config = &cloud.config;
    for cell in &mut parts.cells {
        let Some(plan) = cloud.cells.iter().find(|plan| plan.name == cell.name) else { continue };
        let (Some(nats), Some(agents)) = (config.nats.get(&plan.name), &plan.agents) else { continue };
        let failed = |reason: String| LaunchError::Nats { cell: plan.name.clone(), reason };
        let address = CellAddress::new(Name::parse(&plan.name).map_err(|error| failed(error.to_string()))?);
        let connection = nats.connect(&cloud.env, format!("controller {}", cloud.controller), address.inbox()).await;
        cell.agents = Some(AgentsStart {
            connection: connection.map_err(|error| failed(error.to_string()))?,
            address,
            recorder: agents.recorder.clone(),
            hosts: agents.hosts.clone(),
            options: AgentsOptions {
                silence: Silence {
                    after: config.compute.service_down_time.duration(),
                    self_fence_margin: config.compute.self_fence_margin.duration(),
                },
                discover: config.cells.discover,
                database_deadline: config.cells.timeout.duration(),
            },
        });
    }
    Ok(())
}
