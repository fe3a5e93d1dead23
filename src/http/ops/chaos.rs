//! `/ops/v1/chaos`: the supervised actors, injected faults, and an experiment on this service. Answers 404 unless `[chaos] enabled` is set.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::unknown::near_host;
use super::{Catalog, Operators};
use crate::chaos::experiment::check;
use crate::chaos::experiment::fault::What;
use crate::chaos::experiment::scenario::Scenario;
use crate::chaos::experiment::service::{Chaos, Refused};
use crate::chaos::experiment::shipped::SHIPPED;
use crate::db::DbError;
use crate::domain::host_trial::HostTrial;
use crate::domain::reason;
use crate::http::auth::Caller;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, conflict, empty, no_such_resource, not_found, ok, unavailable};
use crate::http::error::ApiError;
use crate::http::json::{JSON, Unread};

/// The maximum time for a trial.
const TRIAL_PATIENCE: Duration = Duration::from_secs(30);
/// The media type of an experiment's file; other bodies are JSON.
const TOML: &str = "application/toml";

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> ApiError {
        match refused {
            Refused::Invalid(why) => bad_request(why),
            Refused::Conflict(why) => conflict(why),
            Refused::NotFound(why) => not_found(why),
            Refused::Busy => unavailable(refused.to_string()),
        }
    }
}

/// Answers 404 unless chaos is enabled, and 403 unless the caller has the right.
fn admitted<'a>(caller: &Caller, catalog: &Catalog, operators: &'a Operators) -> Result<&'a Chaos, ApiError> {
    let chaos = operators.chaos.as_ref().ok_or_else(no_such_resource)?;
    catalog.allow(caller, "ops:chaos")?;
    Ok(chaos)
}

/// Answers `GET /chaos/actors`.
pub async fn actors(Call { api: operators, catalog, caller, .. }: Call<Operators>) -> Answer {
    let chaos = admitted(&caller, &catalog, &operators)?;
    let actors: Vec<Value> = chaos
        .tree()
        .actors()
        .into_iter()
        .map(|(actor, in_flight)| {
            json!({
                "name": actor.name,
                "alive": actor.alive,
                "paused": actor.paused,
                "restarts": actor.restarts,
                "in_flight": in_flight,
            })
        })
        .collect();
    ok(&json!({ "actors": actors }))
}

/// Answers `GET /chaos/faults`, with the state of the experiment if one was loaded.
pub async fn faults(Call { api: operators, catalog, caller, .. }: Call<Operators>) -> Answer {
    let chaos = admitted(&caller, &catalog, &operators)?;
    let experiment = match chaos.show().await {
        Ok(experiment) => Some(experiment.state),
        Err(Refused::NotFound(_)) => None,
        Err(refused) => return Err(refused.into()),
    };
    ok(&json!({"faults": chaos.faults().await?, "experiment": experiment}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewFault {
    fault: What,
}

/// Answers `POST /chaos/faults`.
pub async fn inject(Call { api: operators, catalog, caller, .. }: Call<Operators>, body: Unread) -> Answer {
    let chaos = admitted(&caller, &catalog, &operators)?;
    body.expect_one_of(&[JSON])?;
    let NewFault { fault } = read(body.bytes())?;
    let fault = chaos.inject(fault).await?;
    Ok(HttpResponse::Accepted().json(json!({ "fault": fault })))
}

/// Answers `DELETE /chaos/faults/{id}`.
pub async fn end(Call { api: operators, catalog, caller, .. }: Call<Operators>, id: web::Path<Uuid>) -> Answer {
    admitted(&caller, &catalog, &operators)?.end(*id).await?;
    empty(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTrial {
    host: String,
    trial: HostTrial,
}

/// Answers `POST /chaos/trials`: makes a trial with a host that allows trials.
pub async fn make_trial(Call { api: operators, catalog, caller, .. }: Call<Operators>, body: Unread) -> Answer {
    admitted(&caller, &catalog, &operators)?;
    body.expect_one_of(&[JSON])?;
    let NewTrial { host, trial } = read(body.bytes())?;
    let cell = match catalog.cell_of_host(&host).await {
        Err(DbError::NotFound(_)) => return Err(bad_request(format!("Host {host} could not be found.{}", near_host(&catalog, &host)))),
        cell => cell?,
    };
    let outcome = cell.hosts.trial(&host, trial, TRIAL_PATIENCE).await.map_err(|error| unavailable(reason!("{error}")))?;
    ok(&json!({"outcome": outcome.map_err(conflict)?}))
}

/// Answers `GET /chaos/experiment`.
pub async fn show(Call { api: operators, catalog, caller, .. }: Call<Operators>) -> Answer {
    let experiment = admitted(&caller, &catalog, &operators)?.show().await?;
    ok(&json!({ "experiment": experiment }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewExperiment {
    experiment: Scenario,
    /// True if the experiment goes on until it is stopped.
    #[serde(default)]
    until_stopped: bool,
}

/// Answers `POST /chaos/experiment`. The body is an experiment's file, or its contents as JSON.
pub async fn load(Call { api: operators, catalog, caller, .. }: Call<Operators>, body: Unread) -> Answer {
    let chaos = admitted(&caller, &catalog, &operators)?;
    body.expect_one_of(&[JSON, TOML])?;
    let NewExperiment { experiment, until_stopped } = match body.media_type() {
        Some(TOML) => NewExperiment { experiment: parsed(body.bytes())?, until_stopped: false },
        _ => read(body.bytes())?,
    };
    let experiment = chaos.load(experiment, until_stopped).await?;
    Ok(HttpResponse::Accepted().json(json!({ "experiment": experiment })))
}

/// Answers `GET /chaos/experiments`: the files that come with the program.
pub async fn shipped(Call { api: operators, catalog, caller, .. }: Call<Operators>) -> Answer {
    admitted(&caller, &catalog, &operators)?;
    let mut experiments: Vec<Value> = Vec::new();
    for file in SHIPPED {
        let Scenario { title, description, .. } = parsed(file.text.as_bytes())?;
        experiments.push(json!({"name": file.name, "title": title, "description": description, "text": file.text}));
    }
    ok(&json!({ "experiments": experiments }))
}

/// Answers `DELETE /chaos/experiment`.
pub async fn stop(Call { api: operators, catalog, caller, .. }: Call<Operators>) -> Answer {
    let experiment = admitted(&caller, &catalog, &operators)?.stop().await?;
    Ok(HttpResponse::Accepted().json(json!({ "experiment": experiment })))
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| bad_request(format!("Invalid input: {error}.")))
}

/// Parses an experiment. Names that only this service knows are checked when it is loaded.
fn parsed(body: &[u8]) -> Result<Scenario, ApiError> {
    let text = std::str::from_utf8(body).map_err(|_| bad_request("The file is not UTF-8."))?;
    check::read(text).map_err(|complaint| bad_request(format!("The experiment is refused: {complaint}.")))
}
