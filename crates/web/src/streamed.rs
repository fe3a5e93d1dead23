//! Bodies that are stored as they come.

use actix_web::error::PayloadError;
use actix_web::http::StatusCode;
use actix_web::web;
use cellshift_env::streams::{ByteStream, Pieces};
use cellshift_neighbours::ServiceError;
use futures::StreamExt;

use crate::arrival;
use crate::error::{ApiError, ErrorForm};

/// Has `store` take the body. Storing goes on to its end if the client leaves, so that a broken upload is undone in good order.
pub async fn store<T, F>(form: ErrorForm, payload: web::Payload, store: impl FnOnce(ByteStream) -> F) -> Result<T, ApiError>
where
    T: 'static,
    F: Future<Output = Result<T, ServiceError>> + 'static,
{
    // The payload cannot leave this thread, but a service needs a stream that can.
    let (pieces, stream) = Pieces::stream();
    let storing = actix_web::rt::spawn(store(stream));
    // Answers at once, because the HTTP library closes the connection after a broken body.
    forward(payload, pieces).await.map_err(|error| arrival::broken(&error, form))?;
    let broke_off = |_| ApiError::new(form, StatusCode::INTERNAL_SERVER_ERROR, "The upload broke off.");
    storing.await.map_err(broke_off)?.map_err(|error| ApiError::from_service(form, error))
}

/// Forwards the body until it ends, breaks off, or the reader is gone. A reader that is gone has failed, and says so itself.
async fn forward(mut payload: web::Payload, mut pieces: Pieces) -> Result<(), PayloadError> {
    while let Some(piece) = payload.next().await {
        if pieces.send(piece?).await.is_err() {
            return Ok(());
        }
    }
    let _ = pieces.end().await;
    Ok(())
}
