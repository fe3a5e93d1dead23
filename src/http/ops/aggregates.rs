//! `/ops/v1/aggregates/sync`: the hosts of aggregates become members of these in Placement.

use actix_web::HttpResponse;
use serde_json::json;

use crate::domain::microversion::COMPUTE;
use crate::domain::reason;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, unavailable};
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;
use crate::http::schema::{self, Schema};
use crate::reconcilers::aggregate_members::{self, MembersError};
use crate::saga::world::World;

pub(super) static BODY: Schema = Schema::fixed(|_| schema::object(&json!({"dry_run": {"type": "boolean"}}), &[]));

/// Answers `POST /aggregates/sync`: 200 with the members that were added, or would be, and the hosts that cannot be.
pub async fn sync(Call { api: world, catalog, caller, .. }: Call<World>, body: Document) -> Answer {
    catalog.allow(&caller, "ops:sync_aggregates")?;
    BODY.check(ApiVersion(COMPUTE.min), &body).await?;
    let differences = aggregate_members::compare(&world.api, world.placement.as_ref()).await.map_err(failed)?;
    let is_tried = body["dry_run"] == true;
    if !is_tried {
        aggregate_members::add(world.placement.as_ref(), &differences.missing).await.map_err(|error| failed(error.into()))?;
    }
    Ok(HttpResponse::Ok().json(json!({
        "dry_run": is_tried,
        "added": differences.missing,
        "unmapped": differences.unmapped,
        "without_provider": differences.without_provider,
    })))
}

fn failed(error: MembersError) -> ApiError {
    match error {
        MembersError::Database(error) => error.into(),
        MembersError::Placement(error) => unavailable(reason!("{error}")),
    }
}
