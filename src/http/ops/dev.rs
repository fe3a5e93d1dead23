//! `/ops/v1/dev`: brings a cloud of `cellshift serve --dev` back to its first state. Answers 404 on every other service.

use std::sync::Arc;

use actix_web::HttpResponse;
use serde_json::json;
use tokio::sync::Notify;

use super::{Catalog, Operators};
use crate::http::auth::Caller;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, no_such_resource, ok};
use crate::http::error::ApiError;

/// The resets of a cloud. Clones share them.
#[derive(Clone, Default)]
pub struct Resets(Arc<State>);

#[derive(Default)]
struct State {
    done: u64,
    requested: Notify,
}

impl Resets {
    /// Waits for a request. A request that came before is not lost.
    pub async fn requested(&self) {
        self.0.requested.notified().await;
    }

    /// Returns the resets of a cloud after this number of them.
    pub fn after(done: u64) -> Resets {
        Resets(Arc::new(State { done, requested: Notify::default() }))
    }

    fn done(&self) -> u64 {
        self.0.done
    }
}

/// Answers 403 unless the caller has the right, and 404 unless the cloud can be reset.
fn admitted<'a>(caller: &Caller, catalog: &Catalog, operators: &'a Operators) -> Result<&'a Resets, ApiError> {
    catalog.allow(caller, "ops:dev")?;
    operators.resets.as_ref().ok_or_else(no_such_resource)
}

/// Answers `GET /dev/reset`: the number of resets that are done.
pub async fn show(Call { api: operators, catalog, caller, .. }: Call<Operators>) -> Answer {
    let done = admitted(&caller, &catalog, &operators)?.done();
    ok(&json!({"reset": {"done": done}}))
}

/// Answers `POST /dev/reset`: the reset begins once the answer is sent, and is done when `GET` shows the number of this answer.
pub async fn begin(Call { api: operators, catalog, caller, .. }: Call<Operators>) -> Answer {
    let resets = admitted(&caller, &catalog, &operators)?;
    let done = resets.done() + 1;
    resets.0.requested.notify_one();
    Ok(HttpResponse::Accepted().json(json!({"reset": {"done": done}})))
}
