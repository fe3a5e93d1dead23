//! The NATS servers of a cluster.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use super::ClusterError;

const PROGRAM: &str = "nats-server";
/// The directories of the program where packages put it and the `PATH` lacks them.
const PLACES: [&str; 3] = ["/usr/sbin", "/usr/bin", "/usr/local/bin"];

/// Returns the path of the program.
pub(super) fn program() -> Result<PathBuf, ClusterError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(PLACES.map(PathBuf::from));
    places.map(|place| place.join(PROGRAM)).find(|program| program.is_file()).ok_or(ClusterError::NoNatsServer)
}

/// Returns an address of loopback whose port nobody has now.
pub(super) fn free_address() -> Result<SocketAddr, ClusterError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    listener.map_err(ClusterError::NoPort)
}
