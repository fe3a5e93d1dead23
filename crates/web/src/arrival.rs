//! Receives requests. A request's body is read while its sender is authenticated, and only then does the request count as in flight. A
//! client that sends slowly or endlessly therefore blocks nobody else.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use actix_http::BoxedPayloadStream;
use actix_web::HttpMessage;
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::error::PayloadError;
use actix_web::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use bytes::{Bytes, BytesMut};
use cellshift_domain::context::RequestContext;
use futures::{Stream, StreamExt};
use tokio::time::{Instant, timeout_at};

use crate::ahead::Ahead;
use crate::apis::{self, Apis};
use crate::auth::{self, Caller};
use crate::error::{ApiError, ErrorForm};
use crate::front::connections::{Counted, Peers};
use crate::front::talk;
use crate::pace::{Meter, Pace};
use crate::{clients, limits};

/// The number of body bytes that are read before authentication, and that need no reservation of memory.
const FREELY: usize = 64 * 1024;

/// The bounds on arriving bodies. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct Arrivals {
    /// The maximum size in bytes of a body that is read whole.
    pub max_body: usize,
    /// The maximum time for the arrival of a body that is read whole.
    pub patience: Duration,
    /// The minimum rate at which a client must send.
    pub sends: Pace,
    /// Counts the concurrent requests of each client behind a trusted proxy.
    pub proxied: Peers,
    room: Room,
}

impl Arrivals {
    /// Makes bounds under which large bodies may use `room` bytes of memory together.
    pub fn new(max_body: usize, patience: Duration, sends: Pace, proxied: Peers, room: usize) -> Arrivals {
        Arrivals { max_body, patience, sends, proxied, room: Room { in_use: Arc::default(), most: room } }
    }
}

/// The shared memory for request bodies.
#[derive(Clone)]
struct Room {
    in_use: Arc<AtomicUsize>,
    most: usize,
}

/// A body's share of the memory. Dropping it returns the share.
struct Share {
    room: Room,
    bytes: usize,
}

impl Share {
    /// Takes more memory. False if there is not enough.
    fn more(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        self.room.in_use.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.room.most
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.in_use.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Middleware: adds the [`Caller`] and the body to the request, or refuses it.
pub async fn receive<B: MessageBody + 'static>(
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let Some(arrivals) = request.app_data::<Arrivals>().cloned() else {
        return Err(actix_web::error::ErrorInternalServerError("no bounds"));
    };
    let (apis, form) = (Apis::of(request.request()), apis::form(request.request()));
    let _counted = admit_client(&request, &arrivals, form)?;
    if (apis.is_socket)(&request) && has_no_end(&request) {
        return Ok(next.call(request).await?.map_into_boxed_body());
    }
    let streams = (apis.takes_a_stream)(request.method(), request.path());
    if !streams && declared(&request) > Some(arrivals.max_body) {
        return Err(too_large(form).into());
    }
    let body = Body {
        form,
        streams,
        most: arrivals.max_body,
        until: Instant::now() + arrivals.patience,
        share: Share { room: arrivals.room.clone(), bytes: 0 },
        payload: match request.take_payload() {
            Payload::None => None,
            _ if has_no_end(&request) => None,
            payload => Some(Paced { payload, meter: Meter::new(arrivals.sends) }),
        },
    };
    let (caller, payload, _share) = body.read(auth::judge(&request)).await?;
    let streamed = match payload {
        Some(Payload::Stream { payload }) => Some(Ahead::new(payload)),
        Some(whole) => {
            request.set_payload(whole);
            None
        }
        None => None,
    };
    if let Some(body) = &streamed {
        request.set_payload(Payload::Stream { payload: Box::pin(body.clone()) });
    }
    if let Some(context) = caller {
        request.extensions_mut().insert(Caller(context));
    }
    let answer = next.call(request);
    let answer = match streamed {
        None => answer.await,
        Some(body) => tokio::select! {
            // Prefers the handler's own answer, because the handler may have met the same error.
            biased;
            answer = answer => answer,
            error = body.broken() => return Err(broken(&error, form).into()),
        },
    };
    Ok(answer?.map_into_boxed_body())
}

/// Refuses a request on one connection too many, or from a proxied client with too many concurrent requests.
fn admit_client(request: &ServiceRequest, arrivals: &Arrivals, form: ErrorForm) -> Result<Option<Counted>, ApiError> {
    let Some(talk) = talk::of(request.request()) else { return Ok(None) };
    if talk.crowded && request.path() != limits::HEALTH_CHECK {
        return Err(limits::busy(form, "Too many connections are open. Try again shortly."));
    }
    let client = clients::address(request.request()).filter(|client| Some(*client) != talk.peer);
    match client.map(|client| arrivals.proxied.enter(client)) {
        Some(None) => Err(limits::busy(form, "Too many requests of this client are in flight. Try again shortly.")),
        Some(counted) => Ok(counted),
        None => Ok(None),
    }
}

/// Returns the body length that the request declares.
fn declared(request: &ServiceRequest) -> Option<usize> {
    request.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// True if the bytes after the request's head are not a body but last as long as the connection.
fn has_no_end(request: &ServiceRequest) -> bool {
    let headers = request.headers();
    let upgrades = headers.contains_key(UPGRADE) && !headers.contains_key(CONTENT_LENGTH) && !headers.contains_key(TRANSFER_ENCODING);
    upgrades || request.method() == Method::CONNECT
}

fn too_large(form: ErrorForm) -> ApiError {
    ApiError::new(form, StatusCode::PAYLOAD_TOO_LARGE, "Request is too large.")
}

/// Makes the answer to an incomplete body.
pub fn broken(error: &PayloadError, form: ErrorForm) -> ApiError {
    let (status, message) = match error {
        PayloadError::Overflow => return too_large(form),
        PayloadError::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
            (StatusCode::REQUEST_TIMEOUT, "The request's body did not arrive in time.")
        }
        _ => (StatusCode::BAD_REQUEST, "The request's body is broken or not complete."),
    };
    ApiError::new(form, status, message)
}

/// An arriving body.
struct Body {
    form: ErrorForm,
    /// The handler reads the body, so only the bytes that come during authentication are read here.
    streams: bool,
    most: usize,
    until: Instant,
    share: Share,
    payload: Option<Paced>,
}

impl Body {
    /// Reads during authentication, and then to the end if the caller is admitted. An error of either ends both: a broken body must be
    /// answered at once, because the HTTP library closes the connection.
    async fn read(
        mut self,
        judged: impl Future<Output = Result<Option<RequestContext>, ApiError>>,
    ) -> Result<(Option<RequestContext>, Option<Payload>, Share), ApiError> {
        let (mut judged, mut caller) = (pin!(judged), None);
        let (mut read, mut ended) = (BytesMut::new(), self.payload.is_none());
        loop {
            let wants = match caller {
                None => read.len() < FREELY,
                Some(_) => !self.streams,
            };
            tokio::select! {
                biased;
                piece = next(self.payload.as_mut(), self.until, self.streams), if !ended && wants => match piece {
                    None => ended = true,
                    Some(Err(error)) => return Err(broken(&error, self.form)),
                    Some(Ok(piece)) => {
                        self.admit(read.len(), piece.len())?;
                        read.extend_from_slice(&piece);
                    }
                },
                judgement = &mut judged, if caller.is_none() => caller = Some(judgement?),
                else => break,
            }
        }
        let read = read.freeze();
        let payload = match self.payload {
            None => None,
            Some(_) if ended => Some(Payload::from(read)),
            Some(rest) => {
                let stream: BoxedPayloadStream = Box::pin(futures::stream::iter([Ok(read)]).chain(rest));
                Some(Payload::Stream { payload: stream })
            }
        };
        Ok((caller.flatten(), payload, self.share))
    }

    fn admit(&mut self, before: usize, piece: usize) -> Result<(), ApiError> {
        let now = before + piece;
        if !self.streams && now > self.most {
            return Err(too_large(self.form));
        }
        if now > FREELY && !self.share.more(now - before.max(FREELY)) {
            return Err(limits::busy(self.form, "Too many large requests are on their way. Try again shortly."));
        }
        Ok(())
    }
}

/// Returns the next piece of a body. A body that is read whole has a deadline.
async fn next(payload: Option<&mut Paced>, until: Instant, streams: bool) -> Option<Result<Bytes, PayloadError>> {
    let payload = payload?;
    match streams {
        true => payload.next().await,
        false => timeout_at(until, payload.next()).await.unwrap_or_else(|_| Some(Err(late()))),
    }
}

fn late() -> PayloadError {
    PayloadError::Io(io::ErrorKind::TimedOut.into())
}

/// A body with a minimum rate of arrival.
struct Paced {
    payload: Payload,
    meter: Meter,
}

impl Stream for Paced {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match Pin::new(&mut self.payload).poll_next(cx) {
            Poll::Ready(Some(Ok(bytes))) => {
                self.meter.moved(bytes.len());
                Poll::Ready(Some(Ok(bytes)))
            }
            Poll::Ready(end) => Poll::Ready(end),
            Poll::Pending => self.meter.poll_too_slow(cx).map(|()| Some(Err(late()))),
        }
    }
}

/// Bounds that tests of APIs never reach.
#[cfg(feature = "testkit")]
impl Arrivals {
    /// Allows bodies of this size in bytes, and everything else that a test may do.
    pub fn generous(max_body: usize) -> Arrivals {
        let pace = Pace { bytes_per_second: 1, patience: Duration::from_secs(60) };
        Arrivals::new(max_body, Duration::from_secs(60), pace, Peers::new(100), 1 << 30)
    }
}
