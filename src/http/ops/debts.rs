//! `POST /ops/v1/migrations/{uuid}/debts/retry`: the debts of an operation are tried again now, not after their pause.

use actix_web::http::StatusCode;
use actix_web::web;
use uuid::Uuid;

use super::Operators;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, conflict, empty, not_found};

/// Answers 202: a conductor tries them within seconds.
pub async fn retry(Call { api: operators, catalog, caller, .. }: Call<Operators>, uuid: web::Path<Uuid>) -> Answer {
    catalog.allow(&caller, "ops:debts")?;
    let saga = operators.operations.saga(*uuid).await?;
    if saga.is_none() {
        return Err(not_found(format!("Migration {uuid} could not be found.")));
    }
    match operators.operations.hasten_debts_of(*uuid).await? {
        0 => Err(conflict(format!("Migration {uuid} owes nothing."))),
        _ => empty(StatusCode::ACCEPTED),
    }
}
