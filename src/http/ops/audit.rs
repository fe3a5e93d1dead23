//! `GET /ops/v1/audit`: which invariants do not hold now.

use actix_web::HttpResponse;

use super::{Catalog, Shared};
use crate::chaos::audit::audit;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::saga::world::World;

pub async fn show(caller: Caller, catalog: Shared<Catalog>, world: Shared<World>) -> Result<HttpResponse, ApiError> {
    catalog.allow(&caller, "ops:audit")?;
    Ok(HttpResponse::Ok().json(audit(&world).await?))
}
