//! A host's report of itself.

use cellshift_domain::host_protocol::{Asker, ExportTicket, GuestReport, HostAnswer, HostQuery, HostReport, HostSummary};
use cellshift_domain::reason;
use cellshift_domain::server::PowerState;
use cellshift_env::guard::{Guard, stands};
use uuid::Uuid;

use super::HostPlace;
use super::contents::check_disks;
use super::host::{CommandError, Host};
use super::link::Delivered;
use super::pages::{Holdings, Page};
use super::transfer::EXPORTED_BY;
use crate::virt::hypervisor::RESCUE;
use crate::virt::{GuestRecord, StopCause, files};

/// The release of this host.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

impl Host {
    /// Answers a query. If the host cannot, the log says why.
    pub(super) async fn answer(&self, query: HostQuery) -> Delivered<HostAnswer> {
        if matches!(query, HostQuery::Trial(_)) && !self.parts.options.trials {
            return Delivered::NotKnown { release: RELEASE.to_owned() };
        }
        match self.look(query).await {
            Ok(answer) => Delivered::Answered(answer),
            Err(CommandError::Refused(reason) | CommandError::Failed(reason)) => {
                log::warn!(host = self.host(); "the host cannot answer a query: {reason}");
                Delivered::CannotTell
            }
            Err(CommandError::Overtaken) => Delivered::CannotTell,
        }
    }

    async fn look(&self, query: HostQuery) -> Result<HostAnswer, CommandError> {
        match query {
            HostQuery::Progress { operation } => {
                let (done, total) = self.lanes.progress(operation);
                Ok(HostAnswer::Progress { done, total })
            }
            HostQuery::LiveProgress { operation } => Ok(HostAnswer::LiveProgress(self.leaving.progress(operation))),
            HostQuery::ForceComplete { operation, ask } => {
                self.asks.once(ask, async { Ok(HostAnswer::Hastened(self.leaving.hasten(operation))) }).await
            }
            HostQuery::Console { server } => Ok(HostAnswer::Console(self.virt(move |hypervisor| hypervisor.console(server)).await?)),
            HostQuery::TypeLine { server, line, ask } => {
                let typing = self.virt(move |hypervisor| hypervisor.type_line(server, &line));
                self.asks.once(ask, async { typing.await.map(|()| HostAnswer::Typed) }).await
            }
            HostQuery::Trial(trial) => Ok(HostAnswer::Trial(self.make_trial(trial).await.map_err(CommandError::reason))),
            HostQuery::FreeFunctions => Ok(HostAnswer::FreeFunctions(self.lanes.free_functions())),
            HostQuery::Report => Ok(HostAnswer::Report(self.report(Page::default()).await?)),
            HostQuery::ReportPage { after, limit } => Ok(HostAnswer::Report(self.report(Page { after, limit }).await?)),
            HostQuery::Guest { server } => Ok(HostAnswer::Guest(self.report_of(server).await?.map(Box::new))),
            HostQuery::ExportTicket { server, reader } => self.export_ticket(server, reader).await.map(HostAnswer::ExportTicket),
            HostQuery::Summary => Ok(HostAnswer::Summary(self.summary().await?)),
            HostQuery::Contents { server } => {
                let checked = check_disks(self, server).await;
                checked.map(HostAnswer::Contents).map_err(CommandError::Failed)
            }
        }
    }

    async fn report(&self, page: Page) -> Result<HostReport, CommandError> {
        let (claims, exports, lanes) = (self.lanes.claims_by_server(), self.exports().await?, self.lanes.clone());
        let read = self.virt(move |hypervisor| Holdings::of(Some(hypervisor), claims, exports)?.page(page, |server| lanes.fence(server)));
        let read = read.await?;
        Ok(HostReport {
            host: self.host().to_owned(),
            capacity: self.parts.capacity,
            claims: read.claims,
            guests: read.guests,
            up_since: self.parts.site.up_since(),
            next: read.next,
        })
    }

    async fn report_of(&self, server: Uuid) -> Result<Option<GuestReport>, CommandError> {
        let (exports, fence) = (self.exports().await?, self.lanes.fence(server));
        self.virt(move |hypervisor| Holdings::of_server(server, Some(hypervisor), exports)?.guest(server, fence)).await
    }

    async fn summary(&self) -> Result<HostSummary, CommandError> {
        let guests = self.virt(|hypervisor| hypervisor.guests()).await?;
        let guests: Vec<GuestReport> = guests.iter().map(|guest| guest_report(guest.spec.server, Some(guest), (0, 0))).collect();
        Ok(HostSummary {
            claimed: self.lanes.claims().iter().map(|(_, claim)| claim.room).sum(),
            up_since: self.parts.site.up_since(),
            seal_key: Some(self.key.public()),
            ..HostSummary::of_guests(&guests)
        })
    }

    /// Gives another host of the cell a ticket for this host's export of the server.
    async fn export_ticket(&self, server: Uuid, reader: String) -> Result<Option<ExportTicket>, CommandError> {
        if !self.exports().await?.iter().any(|(exported, _)| *exported == server) {
            return Err(CommandError::Refused(reason!("host {} has exported nothing of server {server}", self.host())));
        }
        let reader = Asker { cell: self.parts.site.place.cell.clone(), host: reader };
        Ok(self.parts.upward.export_ticket(&reader, server)?)
    }

    /// Returns this host's exports in the cell's transfer area.
    async fn exports(&self) -> Result<Vec<(Uuid, String)>, CommandError> {
        let place = self.parts.site.place.clone();
        let listed = self.blocking(move || exports_of(&place)).await?;
        listed.map_err(|error| CommandError::io("the transfer area cannot be listed", &error))
    }
}

/// Makes the report of one guest, of kept disks (a record that is not defined), or of files alone.
pub(super) fn guest_report(server: Uuid, guest: Option<&GuestRecord>, fence: (i64, i64)) -> GuestReport {
    GuestReport {
        server,
        defined: guest.is_some_and(|guest| guest.defined),
        power_state: guest.map_or(PowerState::NoState, power_state),
        rescued: guest.is_some_and(|guest| guest.contents.contains_key(RESCUE)),
        started_epoch: guest.map_or(0, |guest| guest.started_epoch),
        fence,
        volumes: guest.iter().flat_map(|guest| &guest.spec.volumes).map(|volume| volume.volume_id).collect(),
        ports: guest.iter().flat_map(|guest| &guest.spec.vifs).map(|vif| vif.port_id).collect(),
        disks: Vec::new(),
        leftovers: Vec::new(),
    }
}

/// A guest that ran when its host went away is neither running nor off. The host asks for it, and until it has the answer nobody may take
/// the guest for one that was switched off.
fn power_state(guest: &GuestRecord) -> PowerState {
    match guest.stopped_by {
        Some(StopCause::HostDown) if stands(Guard::LostPower) => PowerState::NoState,
        Some(StopCause::HostDown | StopCause::Operation(_) | StopCause::UserPaused) | None => guest.power_state,
    }
}

/// Returns a host's exports in its cell's transfer area.
pub(super) fn exports_of(place: &HostPlace) -> std::io::Result<Vec<(Uuid, String)>> {
    let mut exports = Vec::new();
    for name in files::names_in(&place.transfer_area())? {
        let Ok(server) = name.parse::<Uuid>() else { continue };
        let by = std::fs::read_to_string(place.transfer_dir(server).join(EXPORTED_BY)).unwrap_or_default();
        if by == place.host {
            exports.push((server, format!("transfer/{server}")));
        }
    }
    Ok(exports)
}
