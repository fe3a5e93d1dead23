//! A host's report of itself.

use std::collections::BTreeMap;

use cellshift_domain::host_protocol::{DiskReport, GuestReport, HostAnswer, HostQuery, HostReport, HostSummary};
use cellshift_domain::server::PowerState;
use cellshift_env::guard::{Guard, stands};
use uuid::Uuid;

use super::HostPlace;
use super::contents::{check_disks, disk_reports};
use super::host::{CommandError, Host};
use super::transfer::EXPORTED_BY;
use crate::virt::hypervisor::RESCUE;
use crate::virt::{GuestRecord, Hypervisor, StopCause, VirtError, files};

impl Host {
    /// Answers a query, which changes nothing. None if the host cannot tell; the log says why.
    pub async fn answer(&self, query: HostQuery) -> Option<HostAnswer> {
        match self.look(query).await {
            Ok(answer) => Some(answer),
            Err(CommandError::Refused(reason) | CommandError::Failed(reason)) => {
                log::warn!(host = self.host(); "the host cannot answer a query: {reason}");
                None
            }
            Err(CommandError::Overtaken) => None,
        }
    }

    async fn look(&self, query: HostQuery) -> Result<HostAnswer, CommandError> {
        match query {
            HostQuery::Progress { operation } => {
                let (done, total) = self.lanes.progress(operation);
                Ok(HostAnswer::Progress { done, total })
            }
            HostQuery::LiveProgress { operation } => Ok(HostAnswer::LiveProgress(self.leaving.progress(operation))),
            HostQuery::ForceComplete { operation } => Ok(HostAnswer::Hastened(self.leaving.hasten(operation))),
            HostQuery::Console { server } => Ok(HostAnswer::Console(self.virt(move |hypervisor| hypervisor.console(server)).await?)),
            HostQuery::TypeLine { server, line } => {
                self.virt(move |hypervisor| hypervisor.type_line(server, &line)).await?;
                Ok(HostAnswer::Typed)
            }
            HostQuery::FreeFunctions => Ok(HostAnswer::FreeFunctions(self.lanes.free_functions())),
            HostQuery::Report => Ok(HostAnswer::Report(self.report().await?)),
            HostQuery::Summary => Ok(HostAnswer::Summary(self.summary().await?)),
            HostQuery::Contents { server } => {
                let checked = check_disks(self, server).await;
                checked.map(HostAnswer::Contents).map_err(CommandError::Failed)
            }
        }
    }

    async fn report(&self) -> Result<HostReport, CommandError> {
        let (guests, incoming) = self.virt(|hypervisor| Ok((guests_and_disks(hypervisor)?, hypervisor.leftovers()?))).await?;
        let mut reports: BTreeMap<Uuid, GuestReport> = BTreeMap::new();
        for (guest, disks) in guests {
            let server = guest.spec.server;
            reports.insert(server, GuestReport { disks, ..guest_report(server, Some(&guest), self.lanes.fence(server)) });
        }
        for (server, leftover) in incoming.into_iter().chain(self.exports().await?) {
            reports.entry(server).or_insert_with(|| guest_report(server, None, self.lanes.fence(server))).leftovers.push(leftover);
        }
        Ok(HostReport {
            host: self.host().to_owned(),
            capacity: self.parts.capacity,
            claims: self.lanes.claims(),
            guests: reports.into_values().collect(),
            up_since: self.parts.site.up_since(),
        })
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

    /// Returns this host's exports in the cell's transfer area.
    async fn exports(&self) -> Result<Vec<(Uuid, String)>, CommandError> {
        let place = self.parts.site.place.clone();
        let listed = self.blocking(move || exports_of(&place)).await?;
        listed.map_err(|error| CommandError::io("the transfer area cannot be listed", &error))
    }
}

/// Returns each guest with its files. A guest that is removed meanwhile has none.
pub(super) fn guests_and_disks(hypervisor: &dyn Hypervisor) -> Result<Vec<(GuestRecord, Vec<DiskReport>)>, VirtError> {
    let guests = hypervisor.guests()?.into_iter();
    guests.map(|guest| hypervisor.contents(guest.spec.server).map(|contents| (guest, disk_reports(contents)))).collect()
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
