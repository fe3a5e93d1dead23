//! `GET /ready`: whether requests should be sent to this process. `/healthcheck` only says that the process lives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix_web::{HttpResponse, web};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::actors::cell::CellHandle;
use crate::actors::conductor::ConductorHandle;
use crate::db::Db;
use crate::env::seat::Seat;

/// The path.
const PATH: &str = "/ready";

/// The age up to which an answer of the databases is told again: everybody may ask, and each reader must not cost a read.
const FRESH: Duration = Duration::from_secs(1);

/// The parts without which no request is answered well, and the cells.
pub struct Readiness {
    /// The databases that every request needs, by the name that is shown.
    pub databases: Vec<(&'static str, Db)>,
    /// The cells, including cell0. Requests are answered while some are down, so they do not decide.
    pub cells: Vec<CellHandle>,
    /// The hosts that must have come.
    pub hosts: HostsExpected,
    /// The right of this process to write.
    pub seat: Seat,
    /// The conductors, whose leases on operations are renewed while they are awake.
    pub conductors: ConductorHandle,
    /// The maximum wait for a database.
    pub patience: Duration,
    /// The databases' last answers, with their time. A reader who asks meanwhile waits for the look under way.
    pub seen: Mutex<Option<(Instant, Vec<bool>)>>,
}

/// The number of hosts that must take requests at once before the process is ready. Once they have, later silence of hosts changes nothing.
pub struct HostsExpected {
    number: usize,
    have_come: AtomicBool,
}

impl HostsExpected {
    /// Waits for so many hosts.
    pub fn new(number: usize) -> HostsExpected {
        HostsExpected { number, have_come: AtomicBool::new(false) }
    }

    /// True if so many hosts take requests, or have taken them.
    fn have_come(&self, up: usize) -> bool {
        if up >= self.number {
            self.have_come.store(true, Ordering::Relaxed);
        }
        self.have_come.load(Ordering::Relaxed)
    }
}

/// Registers `/ready`.
pub fn configure(config: &mut web::ServiceConfig) {
    config.route(PATH, web::get().to(show));
}

async fn show(readiness: web::Data<Readiness>) -> HttpResponse {
    // A task of its own ends its look even if the reader leaves: otherwise each of many such readers would begin another one.
    let look = actix_rt::spawn(async move { readiness.look().await });
    let (ready, body) = look.await.unwrap_or_else(|_| (false, json!({"ready": false})));
    let mut answer = if ready { HttpResponse::Ok() } else { HttpResponse::ServiceUnavailable() };
    answer.insert_header(("Cache-Control", "no-store")).json(body)
}

impl Readiness {
    /// Returns whether the process is ready, and the document that says why. Names no reason of an error, because everybody may read it.
    async fn look(&self) -> (bool, Value) {
        let answers = self.databases_answer().await;
        let databases: Map<String, Value> =
            self.databases.iter().zip(&answers).map(|((name, _), answers)| ((*name).to_owned(), json!(answers))).collect();
        let up = self.cells.iter().filter(|cell| cell.health.is_up()).count();
        let (awake, conductors) = (self.conductors.awake(), self.conductors.workers());
        let is_seated = self.seat.check().is_ok();
        let hosts_up = self.cells.iter().map(|cell| cell.hosts.hosts().iter().filter(|(_, open)| *open).count()).sum();
        let ready = is_seated && awake > 0 && answers.iter().all(|answers| *answers) && self.hosts.have_come(hosts_up);
        let mut body = json!({
            "ready": ready,
            "seat": is_seated,
            "databases": databases,
            "cells": {"up": up, "down": self.cells.len() - up},
            "conductors": {"awake": awake, "asleep": conductors.saturating_sub(awake)},
        });
        if self.hosts.number > 0 {
            body["hosts"] = json!({"up": hosts_up, "expected": self.hosts.number});
        }
        (ready, body)
    }

    async fn databases_answer(&self) -> Vec<bool> {
        let mut seen = self.seen.lock().await;
        if let Some((_, answers)) = seen.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return answers.clone();
        }
        let looks = self.databases.iter().map(|(_, db)| tokio::time::timeout(self.patience, db.look()));
        let answers: Vec<bool> = futures::future::join_all(looks).await.into_iter().map(|look| matches!(look, Ok(Ok(())))).collect();
        *seen = Some((Instant::now(), answers.clone()));
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_came_once_need_not_stay() {
        let hosts = HostsExpected::new(2);
        assert!(!hosts.have_come(1));
        assert!(hosts.have_come(2));
        assert!(hosts.have_come(0));
        assert!(HostsExpected::new(0).have_come(0));
    }
}
