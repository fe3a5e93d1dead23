//! The limit of open files and sockets, and the clients' share of it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Http;
use crate::db::POOL_SIZE;

/// The maximum number of connections if the configuration names none: more would cost memory without use.
const CONNECTIONS_AT_MOST: usize = 8192;

/// The minimum number of connections for a useful service.
const CONNECTIONS_AT_LEAST: usize = 64;

/// Descriptors for logs, folders, other sockets, and files that hosts write while they copy disks.
const BESIDES: usize = 256;

/// A SQLite database has a file, a log and their shared memory; PostgreSQL has one socket.
const FILES_PER_DATABASE_CONNECTION: usize = 3;

/// The system allows too few open files.
#[derive(Debug, thiserror::Error)]
#[error(
    "{connections} connections and {reserved} files of the service's own are more than the {limit} that the system lets this process open: \
     raise the hard limit (ulimit -Hn, LimitNOFILE) or lower http.max_connections"
)]
pub struct TooFew {
    connections: usize,
    reserved: usize,
    limit: usize,
}

/// Raises the process's limit of open files to its hard limit, and returns it.
pub fn raise() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            log::warn!("the limit of open files stays as it is: {error}");
            limit.current
        }
    };
    now.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX)
}

/// Returns the number of connections for clients, so that they leave enough for databases, hosts and images. Beyond that number
/// each listener accepts `spare` connections, to refuse them with an answer.
pub fn connections(http: &Http, databases: usize, spare: usize, limit: usize) -> Result<usize, TooFew> {
    let pooled = databases * POOL_SIZE as usize * FILES_PER_DATABASE_CONNECTION;
    let reserved = pooled + http.max_transfers * 2 + 2 * spare + BESIDES;
    let room = limit.saturating_sub(reserved);
    let connections = match http.max_connections {
        0 => room.clamp(CONNECTIONS_AT_LEAST, CONNECTIONS_AT_MOST),
        connections => connections,
    };
    if connections > room { Err(TooFew { connections, reserved, limit }) } else { Ok(connections) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_the_service_does_not_need_itself() {
        let http = Http::default();
        assert_eq!(connections(&http, 4, 32, 1 << 20).unwrap(), CONNECTIONS_AT_MOST);
        assert_eq!(connections(&http, 4, 32, 1024).unwrap(), 1024 - 4 * 8 * 3 - 128 - 2 * 32 - BESIDES);
        assert!(connections(&http, 4, 32, 256).unwrap_err().to_string().contains("LimitNOFILE"));
        assert_eq!(connections(&Http { max_connections: 20_000, ..Http::default() }, 4, 32, 1 << 20).unwrap(), 20_000);
        assert!(connections(&Http { max_connections: 1000, ..Http::default() }, 4, 32, 1024).is_err());
    }

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        let files = raise();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(files, limit.maximum.map_or(usize::MAX, |files| files as usize));
    }
}
