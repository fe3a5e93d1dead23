//! The layer between the sockets and the APIs. It counts connections, ends slow ones, and refuses malformed requests in the form of the
//! API.

pub mod connections;
mod refusal;
pub mod talk;
mod wire;

use std::net::TcpListener;
use std::rc::Rc;
use std::time::Duration;

use actix_http::{HttpService, Protocol, Request};
use actix_service::{IntoServiceFactory, Service, ServiceFactory, ServiceFactoryExt, fn_factory, fn_service, map_config};
use actix_web::body::MessageBody;
use actix_web::dev::{AppConfig, Server, ServiceResponse};
use actix_web::http::StatusCode;
use cellshift_env::Env;
use tokio::net::TcpStream;

use self::connections::Connections;
use self::talk::Talk;
use self::wire::{Wire, farewell};
use crate::apis::Apis;
use crate::clients::Clients;
use crate::pace::Pace;

/// The time for which a connection without a request stays open. Longer than clients keep theirs: if the service closes a connection while
/// the next request is on its way, that request fails.
const KEEP_ALIVE: Duration = Duration::from_secs(120);

/// The maximum time for the arrival of a request's head. A machine that is busy for some seconds must not refuse clients before it reads
/// their requests.
pub const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// The time for which the rest of an unwanted body is read, so that its sender can read the answer.
const LINGER: Duration = Duration::from_secs(1);

/// The settings for serving sockets.
#[derive(Clone)]
pub struct Front {
    pub workers: usize,
    /// The number of threads for blocking work per worker.
    pub blocking: usize,
    /// The seconds that running requests get when the service stops.
    pub grace: u64,
    pub connections: Connections,
    pub head_patience: Duration,
    /// The minimum rate at which a client must read its answers.
    pub takes: Pace,
}

/// The parts of the door that the layer before it needs.
#[derive(Clone)]
pub struct Door {
    pub env: Env,
    pub clients: Clients,
    pub apis: &'static Apis,
}

/// Serves the application on the listener. The future ends after a graceful stop through the server's handle.
pub fn serve<F, I, S, B>(door: Door, application: F, listener: TcpListener, front: Front) -> std::io::Result<Server>
where
    F: Fn() -> I + Send + Clone + 'static,
    I: IntoServiceFactory<S, Request>,
    S: ServiceFactory<Request, Config = AppConfig, Response = ServiceResponse<B>, Error = actix_web::Error, InitError = ()> + 'static,
    S::Service: 'static,
    B: MessageBody + 'static,
{
    let address = listener.local_addr()?;
    // Also limits accepted connections that are not counted yet: further ones wait in the system's queue.
    let per_worker = front.connections.in_all().div_ceil(front.workers) + connections::RESERVE;
    let builder = Server::build()
        .workers(front.workers)
        .worker_max_blocking_threads(front.blocking)
        .max_concurrent_connections(per_worker)
        .disable_signals()
        .shutdown_timeout(front.grace);
    let stopping = builder.graceful_shutdown_signal();
    let builder = builder.listen(format!("cellshift-{address}"), listener, move || {
        let (door, application, front, stopping) = (door.clone(), application.clone(), front.clone(), stopping.clone());
        fn_factory(move || {
            let door = door.clone();
            let application = application().into_factory().map_err(|error: actix_web::Error| error.error_response());
            let stopping = stopping.clone();
            let service = HttpService::build()
                .graceful_shutdown_signal(move || {
                    let stopping = stopping.clone();
                    async move { stopping.notified().await }
                })
                .keep_alive(KEEP_ALIVE)
                .client_request_timeout(front.head_patience)
                .client_disconnect_timeout(LINGER)
                .local_addr(address)
                .on_connect_ext(|wire: &Wire, data| {
                    data.insert(wire.talk.clone());
                })
                .finish(map_config(application, |()| AppConfig::default()));
            let (made, front) = (service.new_service(()), front.clone());
            async move {
                let handler = Rc::new(made.await?);
                Ok::<_, ()>(fn_service(move |stream: TcpStream| {
                    let (handler, front, door) = (handler.clone(), front.clone(), door.clone());
                    async move {
                        let Ok(peer) = stream.peer_addr() else { return Ok(()) };
                        let Some(connected) = front.connections.enter(peer.ip(), door.clients.is_proxy(peer.ip())) else {
                            turn_away(&door, stream).await;
                            return Ok(());
                        };
                        let talk = Rc::new(Talk::new(Some(peer.ip()), connected.crowded));
                        let stream = Rc::new(stream);
                        let patience = if connected.crowded { CROWDED_PATIENCE } else { front.head_patience };
                        let wire = Wire::new(stream.clone(), talk.clone(), door, patience, front.takes);
                        let ended = handler.call((wire, Protocol::Http1, Some(peer))).await;
                        if let Ok(stream) = Rc::try_unwrap(stream)
                            && talk.was_refused()
                        {
                            farewell(stream).await;
                        }
                        drop(connected);
                        ended
                    }
                }))
            }
        })
    })?;
    Ok(builder.run())
}

/// A connection of the reserve must send a request's head quickly, to make room for the next health check.
const CROWDED_PATIENCE: Duration = Duration::from_secs(2);

/// Tells the client why the connection ends, if the client reads it.
async fn turn_away(door: &Door, stream: TcpStream) {
    let (answer, _) = refusal::answer(door, StatusCode::SERVICE_UNAVAILABLE, "");
    if tokio::time::timeout(LINGER, stream.writable()).await.is_ok() && stream.try_write(&answer).is_ok() {
        farewell(stream).await;
    }
}
