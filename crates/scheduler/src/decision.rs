//! The steps of a decision between reading the hosts and claiming one: the rules, and the contest of the hosts that pass.

use cellshift_domain::port_request::Grant;
use cellshift_domain::scheduling::Candidate;
use cellshift_env::random::Random;

use crate::assumed::Look;
use crate::config::{ConfigError, SchedulerConfig};
use crate::filters::{self, HostFilter};
use crate::host_state::HostState;
use crate::request::Request;
use crate::selection;
use crate::weighers::{self, HostWeigher};

/// The configured filters and weighers.
pub struct Rules {
    /// The options.
    pub config: SchedulerConfig,
    /// Judge each host, in this order.
    pub filters: Vec<Box<dyn HostFilter>>,
    /// Order the hosts that pass.
    pub weighers: Vec<Box<dyn HostWeigher>>,
}

impl Rules {
    /// Makes the filters and weighers that the options name. Fails on a wrong option or an unknown name.
    pub fn new(config: SchedulerConfig) -> Result<Rules, ConfigError> {
        config.validate()?;
        Ok(Rules { filters: filters::enabled(&config)?, weighers: weighers::enabled(&config)?, config })
    }
}

/// The hosts that passed, each with the providers of its network that give the ports' resources.
pub struct Contest {
    hosts: Vec<HostState>,
    grants: Vec<Vec<Grant>>,
}

/// The best host of a contest.
pub struct Choice {
    place: usize,
    /// The host to claim.
    pub primary: Candidate,
    /// The next best of the primary's cell, best first (INVARIANTS C8).
    pub alternates: Vec<Candidate>,
}

impl Contest {
    /// Begins a contest of these hosts.
    pub fn new(granted: Vec<(HostState, Vec<Grant>)>) -> Contest {
        let (hosts, grants) = granted.into_iter().unzip();
        Contest { hosts, grants }
    }

    /// Returns the best host; none if no host is left. Counts first what others have chosen since `look` began.
    pub fn best(&mut self, request: &Request, rules: &Rules, look: &mut Look, random: &mut Random) -> Option<Choice> {
        look.count(&mut self.hosts, request.demand.consumer);
        let order = weighers::order(&self.hosts, request, &rules.weighers, &rules.config, random);
        let (best, others) = order.split_first()?;
        let candidate = |place: &usize| selection::candidate(&self.hosts[*place], &self.grants[*place], request);
        let primary = candidate(best);
        let same_cell = others.iter().filter(|other| self.hosts[**other].cell.name == primary.cell);
        let alternates = same_cell.take(request.alternates(rules.config.max_attempts)).map(candidate).collect();
        Some(Choice { place: *best, primary, alternates })
    }

    /// Takes out the host of the last choice, because it cannot be had any more.
    pub fn drop_best(&mut self, choice: &Choice) {
        self.hosts.remove(choice.place);
        self.grants.remove(choice.place);
    }
}

#[cfg(test)]
mod tests {
    use cellshift_domain::scheduling::SelectDestinations;

    use super::*;
    use crate::assumed::AssumedClaims;
    use crate::testkit::{host, request, resize_across};

    fn contest(hosts: &[(&str, &str)]) -> Contest {
        Contest::new(hosts.iter().map(|(cell, name)| (host(cell, name), Vec::new())).collect())
    }

    #[test]
    fn alternates_are_of_the_primarys_cell_until_none_is_left() {
        let config = SchedulerConfig { shuffle_best_same_weighed_hosts: false, ..SchedulerConfig::default() };
        let (rules, claims, mut random) = (Rules::new(config).unwrap(), AssumedClaims::default(), Random::new(1, "choices"));
        let (request, mut look) = (request(SelectDestinations { claim: false, ..resize_across() }), claims.look());
        let mut contest = contest(&[("cell1", "h2"), ("cell1", "h3"), ("cell2", "h4"), ("cell2", "h5")]);
        let mut chosen = Vec::new();
        while let Some(choice) = contest.best(&request, &rules, &mut look, &mut random) {
            chosen
                .push((choice.primary.host.clone(), choice.alternates.iter().map(|candidate| candidate.host.clone()).collect::<Vec<_>>()));
            contest.drop_best(&choice);
        }
        let expected = [("h2", vec!["h3"]), ("h3", vec![]), ("h4", vec!["h5"]), ("h5", vec![])];
        let hosts = chosen.iter().map(|(primary, others)| (primary.as_str(), others.iter().map(String::as_str).collect()));
        assert_eq!(hosts.collect::<Vec<(&str, Vec<&str>)>>(), expected);
    }
}
