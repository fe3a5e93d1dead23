//! `GET /ops/v1/servers/{id}`: what the audit compares for one server: its record, the owner of its guest, its allocations, and the guests
//! that hosts report.

use std::collections::BTreeSet;
use std::time::Duration;

use actix_web::{HttpResponse, web};
use futures::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Operators, Shared};
use crate::domain::host_protocol::GuestReport;
use crate::domain::instance::Instance;
use crate::domain::reason;
use crate::domain::saga_record::{SagaFilter, SagaRecord};
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, unavailable};
use crate::http::compute::servers::access::{no_such_server, refused};
use crate::http::error::ApiError;
use crate::saga::accept;
use crate::saga::context::Context;
use crate::saga::refusal::Refusal;
use crate::saga::world::{CELL0, World};
use crate::services::ServiceError;

/// The newest operations, whose places are asked for guests and whose allocations are shown.
const OPERATIONS: i64 = 20;
/// The time that a host has to report its guests.
const PATIENCE: Duration = Duration::from_secs(2);

/// A cell's and a host's name.
type Place = (String, String);

pub async fn show(Call { api: operators, catalog, caller, .. }: Call<Operators>, id: web::Path<String>, world: Shared<World>) -> Answer {
    catalog.allow(&caller, "ops:servers")?;
    let server = Uuid::parse_str(&id).map_err(|_| no_such_server(&id))?;
    // The record of a silent cell is missing, and the rest is shown all the same.
    let (server_record, silence) = match accept::find(&world, server).await {
        Ok(server_record) => (Some(server_record), None),
        Err(Refusal::Unavailable(why)) => (None, Some(why.to_string())),
        Err(refusal) => return Err(refused(refusal)),
    };
    let filter = SagaFilter { server: Some(server), limit: OPERATIONS, ..SagaFilter::default() };
    let sagas = operators.operations.list(filter).await?;
    let ownership = operators.operations.ownership(server).await?;
    let owner = ownership.as_ref().and_then(|row| row.owner.clone());
    let (allocations, holding) = allocations(&world, server, &sagas).await?;
    let mut places = places(&sagas);
    places.extend(owner.clone());
    places.extend(holding);
    if let Some((cell, Instance { host: Some(host), .. })) = server_record.as_ref().filter(|(cell, _)| cell.as_str() != CELL0) {
        places.insert((cell.clone(), host.clone()));
    }
    let (guests, silent_hosts) = guests(&world, server, places).await;
    Ok(HttpResponse::Ok().json(json!({
        "uuid": server,
        "record": server_record.as_ref().map(|(cell, instance)| record(cell, instance)),
        "silence": silence,
        "ownership": ownership.map(|row| json!({
            "cell": owner.as_ref().map(|(cell, _)| cell),
            "host": owner.as_ref().map(|(_, host)| host),
            "epoch": row.epoch,
            "attempt": row.attempt,
        })),
        "held_by": operators.operations.holder(server).await?,
        "allocations": allocations,
        "guests": guests,
        "silent_hosts": silent_hosts,
    })))
}

fn record(cell: &str, instance: &Instance) -> Value {
    json!({
        "cell": cell,
        "host": instance.host,
        "name": instance.display_name,
        "project_id": instance.project_id,
        "user_id": instance.user_id,
        "vm_state": instance.vm_state,
        "task_state": instance.task_state,
        "power_state": instance.power_state.code(),
        "flavor": instance.flavor.name,
    })
}

/// Returns the sources and targets of operations.
fn places(sagas: &[SagaRecord]) -> BTreeSet<Place> {
    let contexts = sagas.iter().filter_map(|saga| serde_json::from_str::<Context>(&saga.context).ok());
    let both = contexts.flat_map(|context| [context.source.clone(), context.target.clone()]);
    both.flatten().map(|place| (place.cell, place.host)).collect()
}

/// Returns what the server and its operations hold in placement, and the places of the hosts that give it.
async fn allocations(world: &World, server: Uuid, sagas: &[SagaRecord]) -> Result<(Vec<Value>, Vec<Place>), ApiError> {
    let silent = |error: ServiceError| unavailable(reason!("{error}"));
    let consumers = std::iter::once((server, "server")).chain(sagas.iter().map(|saga| (saga.id, "migration")));
    let questions = consumers.map(|(consumer, kind)| async move { (kind, world.placement.allocations_of(consumer).await) });
    let mut held = Vec::new();
    for (kind, answer) in join_all(questions).await {
        held.extend(answer.map_err(silent)?.map(|held| (kind, held)));
    }
    if held.is_empty() {
        return Ok(Default::default());
    }
    let ids = held.iter().flat_map(|(_, held)| held.allocations.keys().copied()).collect();
    let providers = world.placement.trees(Some(ids)).await.map_err(silent)?;
    let (mut views, mut places) = (Vec::new(), Vec::new());
    for (kind, held) in held {
        for (provider, amounts) in held.allocations {
            let name = providers.iter().find(|(other, _)| other.uuid == provider).map(|(other, _)| other.name.clone());
            if let Some(name) = &name
                && let Ok(cell) = world.cell_of_host(name).await
            {
                places.push((cell.to_owned(), name.clone()));
            }
            views.push(json!({"consumer": held.consumer, "kind": kind, "provider": provider, "name": name, "resources": amounts}));
        }
    }
    Ok((views, places))
}

/// Asks these hosts for the server's guest and its kept disks. Returns those that there are, and the hosts that do not answer.
async fn guests(world: &World, server: Uuid, places: BTreeSet<Place>) -> (Vec<Value>, Vec<Value>) {
    let questions = places.into_iter().map(|(cell, host)| async move {
        let answer = world.hosts.guest(&cell, &host, server, PATIENCE).await;
        (cell, host, answer)
    });
    let (mut guests, mut silent) = (Vec::new(), Vec::new());
    for (cell, host, answer) in join_all(questions).await {
        match answer {
            Ok(guest) => guests.extend(guest.map(|guest| guest_view(&cell, &host, &guest))),
            Err(error) => silent.push(json!({"cell": cell, "host": host, "reason": error.to_string()})),
        }
    }
    (guests, silent)
}

fn guest_view(cell: &str, host: &str, guest: &GuestReport) -> Value {
    let disks: Vec<&str> = guest.disks.iter().filter(|disk| disk.is_disk()).map(|disk| disk.name.as_str()).collect();
    json!({
        "cell": cell,
        "host": host,
        "defined": guest.defined,
        "power_state": guest.power_state.code(),
        "started_epoch": guest.started_epoch,
        "fence": {"epoch": guest.fence.0, "attempt": guest.fence.1},
        "volumes": guest.volumes,
        "ports": guest.ports,
        "disks": disks,
        "leftovers": guest.leftovers,
    })
}
