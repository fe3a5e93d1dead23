//! The exports of an agent's hosts (disks and memory that move within the cell), as hosts of other agents read them over HTTP. The right is
//! a ticket that the host gives through a controller.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use actix_web::dev::Server;
use actix_web::http::StatusCode;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use uuid::Uuid;

use super::config::AgentTransfer;
use crate::actors::compute_host::tickets::{Access, NotAllowed, Tickets};
use crate::domain::host_protocol::{Asker, ExportTicket, NeighbourError, TICKET_HEADER};
use crate::env::Env;
use crate::env::streams::of_file;
use crate::http::error::{ApiError, ErrorForm};
use crate::http::range::Part;

/// The path below which exports are, by their servers.
const EXPORTS: &str = "/exports/v1";
const FORM: ErrorForm = ErrorForm::Compute;
/// The maximum number of connections at once.
const CONNECTIONS: usize = 256;
/// The threads that read files.
const READERS: usize = 16;

/// The exports of an agent's hosts, and the tickets for them.
pub struct Exports {
    env: Env,
    /// The transfer area of the agent's hosts.
    area: PathBuf,
    tickets: Tickets,
}

impl Exports {
    /// Listens, if the configuration says where. Returns the exports and their server, which the caller runs.
    pub fn listen(config: &AgentTransfer, area: PathBuf, env: &Env) -> io::Result<Option<(Arc<Exports>, Server)>> {
        let Some(address) = config.listen else { return Ok(None) };
        let listener = TcpListener::bind(address)?;
        let endpoint = config.endpoint.clone().unwrap_or_else(|| format!("http://{}", reached_at(&listener, address)));
        let folder = format!("{}{EXPORTS}", endpoint.trim_end_matches('/'));
        let exports = Arc::new(Exports { env: env.clone(), area, tickets: Tickets::new(env.clone(), folder) });
        let data = web::Data::from(exports.clone());
        let server = HttpServer::new(move || {
            App::new().app_data(data.clone()).route(&format!("{EXPORTS}/{{server}}/{{part}}"), web::get().to(read))
        });
        let server = server.workers(1).worker_max_blocking_threads(READERS).max_connections(CONNECTIONS);
        Ok(Some((exports, server.shutdown_timeout(1).disable_signals().listen(listener)?.run())))
    }

    /// Gives a host a ticket for the export of a server.
    pub fn ticket(&self, reader: &Asker, server: Uuid) -> Result<ExportTicket, NeighbourError> {
        let (url, secret) = self.tickets.issue(reader, server, Access::Read)?;
        Ok(ExportTicket { url, secret })
    }
}

/// Returns the listener's address, with the port that the system chose.
fn reached_at(listener: &TcpListener, configured: SocketAddr) -> SocketAddr {
    listener.local_addr().unwrap_or(configured)
}

async fn read(request: HttpRequest, path: web::Path<(String, String)>, exports: web::Data<Exports>) -> Result<HttpResponse, ApiError> {
    let (server, part) = path.into_inner();
    let secret = request.headers().get(TICKET_HEADER).and_then(|secret| secret.to_str().ok()).unwrap_or_default();
    let server = Uuid::parse_str(&server).map_err(|_| NotAllowed::Unknown);
    let server = server.and_then(|server| exports.tickets.check(secret, server, Access::Read).map(|_| server));
    let server = server.map_err(|why| match why {
        NotAllowed::Unknown => ApiError::new(FORM, StatusCode::UNAUTHORIZED, why.to_string()),
        NotAllowed::Elsewhere => ApiError::new(FORM, StatusCode::FORBIDDEN, why.to_string()),
    })?;
    let missing = || ApiError::new(FORM, StatusCode::NOT_FOUND, format!("Server {server} has no such export."));
    if !is_part(&part) {
        return Err(missing());
    }
    let path = exports.area.join(server.to_string()).join(&part);
    let opened = exports.env.run_blocking(move || File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)))).await;
    let (size, mut file) = opened.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => missing(),
        _ => ApiError::fault(FORM, &error),
    })?;
    let part = Part::requested(request.headers(), size, FORM)?;
    let sought = exports.env.run_blocking(move || file.seek(SeekFrom::Start(part.first)).map(|_| file.take(part.length))).await;
    let data = of_file(&exports.env, sought.map_err(|error| ApiError::fault(FORM, &error))?);
    Ok(part.answer(data, None))
}

/// True for the name of a disk (`disk`, `disk.eph0`, …) or of the memory.
fn is_part(name: &str) -> bool {
    let is_disk = name.starts_with("disk") && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    is_disk || name == "memory"
}
