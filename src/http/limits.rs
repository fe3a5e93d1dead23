//! Bounds at the door: those of any API, and the time that each request may wait for cells.

use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;

use crate::actors::cell::request_clock;
pub use cellshift_web::limits::{Entered, HEALTH_CHECK, InFlight, Transfers, admit, busy, configure_bodies};

/// The maximum time that a request may wait for cells.
#[derive(Clone, Copy, Debug)]
pub struct CellTimeout(pub Duration);

/// Middleware: gives each request a clock for its calls to cells.
pub async fn time<B: MessageBody + 'static>(request: ServiceRequest, next: Next<B>) -> Result<ServiceResponse<B>, actix_web::Error> {
    match request.app_data::<CellTimeout>().copied() {
        Some(CellTimeout(whole)) => request_clock::within(whole, next.call(request)).await,
        None => next.call(request).await,
    }
}
