//! Reads what an explanation looks at: all hosts, all providers, and the trees of the hosts' networks.

use futures::future;

use cellshift_scheduler::explain::Sight;

use super::decision::{Decider, from_placement};
use crate::domain::compute_host::WhichHosts;
use crate::saga::explanation::Explanation;
use crate::saga::scheduling::{PlannedMove, SchedulingError, SelectDestinations};

impl Decider {
    /// See [`Scheduling::explain`](crate::saga::scheduling::Scheduling::explain).
    pub async fn explain(&self, demand: SelectDestinations, planned: &[PlannedMove]) -> Result<Explanation, SchedulingError> {
        let mut request = self.look_up(demand).await?;
        request.add_planned(planned);
        let mut look = self.assumed.look();
        let (providers, states) = future::join(self.placement.providers(), self.hosts.host_states(None, WhichHosts::All)).await;
        let providers = providers.map_err(from_placement)?;
        let ports = self.port_providers(&request, &states.hosts).await.map_err(from_placement)?;
        let sight = Sight { hosts: states.hosts, providers, ports };
        let destinations = self.rules.verdicts(&request, planned, sight, &mut look);
        Ok(Explanation { destinations, silent_cells: states.silent_cells })
    }
}
