//! The layer between the sockets and the APIs.

use std::net::TcpListener;

use actix_web::dev::Server;

use super::apis::APIS;
use super::server::{Wiring, app};
pub use cellshift_web::front::{Front, HEAD_PATIENCE, connections};

/// Serves the wired APIs on the listener. The future ends after a graceful stop through the server's handle.
pub fn serve(wiring: Wiring, listener: TcpListener, front: Front) -> std::io::Result<Server> {
    let door = cellshift_web::front::Door { env: wiring.env.clone(), clients: wiring.clients.clone(), apis: &APIS };
    cellshift_web::front::serve(door, move || app(wiring.clone()), listener, front)
}

#[cfg(test)]
mod tests;
