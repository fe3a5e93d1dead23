//! The root of an agent's actors: it supervises the supervisor of each host.

use actix::prelude::*;
use tokio::sync::watch;

use crate::actors::arbiters::Arbiters;
use crate::actors::hosts_here::{HostsHere, HostsHereParts};
use crate::actors::root::hosts_here_name;
use crate::actors::supervision::{ChildDied, ChildSpec, Children, Escalated, Roster, Shutdown, Verdict};

/// The actor. Its children end with it.
pub(super) struct Root {
    supervisors: Children<HostsHere>,
    failed: watch::Sender<Option<String>>,
}

impl Root {
    /// Starts the actor, and a supervisor for each of these hosts, by the host's name. The reason why the process must end comes to `failed`.
    pub fn start(hosts: Vec<(String, HostsHereParts)>, roster: &Roster, failed: watch::Sender<Option<String>>) -> Addr<Root> {
        Root::create(|ctx| {
            let mut supervisors = Children::new(ctx.address().downgrade().recipient()).listed(roster, "");
            for (host, parts) in hosts {
                let parts = HostsHereParts { escalations: Some(ctx.address().recipient()), ..parts };
                let make = move |guard| HostsHere::new(parts.clone(), Some(guard));
                supervisors.start(ChildSpec::at_home(&hosts_here_name(&host), Arbiters::default().home(), make));
            }
            Root { supervisors, failed }
        })
    }
}

impl Actor for Root {
    type Context = Context<Self>;
}

impl Handler<ChildDied> for Root {
    type Result = ();

    fn handle(&mut self, died: ChildDied, _: &mut Self::Context) {
        if let Verdict::TooOften(escalated) = self.supervisors.on_death(&died) {
            log::error!("{}: the process ends", escalated.reason);
            self.failed.send_replace(Some(escalated.reason));
        }
    }
}

impl Handler<Escalated> for Root {
    type Result = ();

    /// A host that dies too often is left down by its supervisor, and is tried again later.
    fn handle(&mut self, escalated: Escalated, _: &mut Self::Context) {
        log::error!(child = escalated.name.as_str(); "{}", escalated.reason);
    }
}

impl Handler<Shutdown> for Root {
    type Result = ();

    fn handle(&mut self, _: Shutdown, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
