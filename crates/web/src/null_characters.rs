//! Refuses null characters before any look-up: no API has a name with one, and PostgreSQL cannot store them.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::HttpMessage;
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::error::PayloadError;
use actix_web::http::StatusCode;
use actix_web::middleware::Next;
use bytes::Bytes;
use futures::Stream;

use crate::apis::{self, Apis};
use crate::error::ApiError;

/// The error message for a refused body.
pub const IN_BODY: &str = "Malformed request body: a text in it holds a null character.";

/// Middleware: answers 404 for a null character in the path, and 400 for one in the query or in a JSON body.
pub async fn refuse<B: MessageBody + 'static>(
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let form = apis::form(request.request());
    let refusal = |status, message: &str| ApiError::new(form, status, message);
    if request.path().contains("%00") {
        let refusal = refusal(StatusCode::NOT_FOUND, "The resource could not be found.");
        return Ok(request.error_response(refusal));
    }
    if request.query_string().contains("%00") {
        let refusal = refusal(StatusCode::BAD_REQUEST, "Invalid query: a value in it holds a null character.");
        return Ok(request.error_response(refusal));
    }
    // A streamed body may be any bytes; every other body is JSON, or a text that may not have null characters either.
    if !(Apis::of(request.request()).takes_a_stream)(request.method(), request.path()) {
        match request.take_payload() {
            Payload::None => {}
            arriving => request.set_payload(Payload::Stream { payload: Box::pin(Watched::over(arriving)) }),
        }
    }
    Ok(next.call(request).await?.map_into_boxed_body())
}

/// True for the error of a watched body with a null character.
pub fn is_refusal(error: &PayloadError) -> bool {
    matches!(error, PayloadError::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<NullCharacter>()))
}

#[derive(Debug, thiserror::Error)]
#[error("a text holds a null character")]
struct NullCharacter;

/// A body that is checked as it arrives. In JSON a null character can only be written as an escape, because parsers refuse the byte.
struct Watched<S> {
    arriving: S,
    escape: Escape,
    /// Arrived bytes that are not checked yet.
    rest: Bytes,
    /// Lets other requests run before more of the rest is checked.
    gives_way: bool,
}

/// The number of bytes that are checked before the worker's other requests have their turn.
const TURN: usize = 16 * 1024;

impl<S> Watched<S> {
    fn over(arriving: S) -> Watched<S> {
        Watched { arriving, escape: Escape::default(), rest: Bytes::new(), gives_way: false }
    }
}

impl<S: Stream<Item = Result<Bytes, PayloadError>> + Unpin> Stream for Watched<S> {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.gives_way) {
            task.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.rest.is_empty() {
            match Pin::new(&mut self.arriving).poll_next(task) {
                Poll::Ready(Some(Ok(bytes))) => self.rest = bytes,
                other => return other,
            }
        }
        let turn = self.rest.len().min(TURN);
        let piece = self.rest.split_to(turn);
        self.gives_way = !self.rest.is_empty();
        if self.escape.of_null_in(&piece) {
            let error = std::io::Error::new(std::io::ErrorKind::InvalidData, NullCharacter);
            return Poll::Ready(Some(Err(PayloadError::Io(error))));
        }
        Poll::Ready(Some(Ok(piece)))
    }
}

/// The number of matched characters of a null character's escape: a piece of the body may end within one.
#[derive(Default)]
struct Escape(usize);

impl Escape {
    const WHOLE: &[u8] = b"\\u0000";

    fn of_null_in(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            self.0 = match self.0 {
                seen if *byte == Escape::WHOLE[seen] => seen + 1,
                // A second backslash ends the first one's escape, so no escape begins here.
                1 => 0,
                _ if *byte == b'\\' => 1,
                _ => 0,
            };
            if self.0 == Escape::WHOLE.len() {
                self.0 = 0;
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;

    #[tokio::test]
    async fn a_large_piece_gives_way_to_others_between_its_parts() {
        let body = Bytes::from(vec![b'x'; 3 * TURN]);
        let mut watched = Watched::over(futures::stream::iter([Ok(body.clone())]));
        let (mut seen, mut gave_way) = (Vec::new(), 0);
        loop {
            match watched.next().now_or_never() {
                Some(Some(piece)) => seen.extend_from_slice(&piece.unwrap()),
                Some(None) => break,
                None => gave_way += 1,
            }
        }
        assert_eq!((seen.as_slice(), gave_way), (body.as_ref(), 2));
    }

    #[test]
    fn the_escape_is_found_however_a_body_is_cut() {
        for (body, has_null) in [
            (r#"{"a": "\u0000"}"#, true),
            (r#"{"a\u0000": 1}"#, true),
            (r#"{"a": "\\\u0000"}"#, true),
            (r#"{"a": "\n\u0000"}"#, true),
            (r#"{"a": "\u00\u0000"}"#, true),
            (r#"{"a": "\\u0000"}"#, false),
            (r#"{"a": "\u0001 u0000"}"#, false),
            (r#"{"a": "\u000"}"#, false),
        ] {
            for size in 1..body.len() {
                let mut escape = Escape::default();
                let seen = body.as_bytes().chunks(size).any(|piece| escape.of_null_in(piece));
                assert_eq!(seen, has_null, "{body} in pieces of {size}");
            }
        }
    }
}
