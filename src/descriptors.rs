//! How many files and sockets the process may open, and how many of them are clients'.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Http;
use crate::db::POOL_SIZE;
use crate::http::front::connections::RESERVE;

/// Connections at most when the configuration names no figure: more cost memory for nothing.
const CONNECTIONS_AT_MOST: usize = 8192;

/// Below this the service is not worth starting.
const CONNECTIONS_AT_LEAST: usize = 64;

/// For logs, folders, sockets of other kinds, and what hosts write while they copy disks.
const BESIDES: usize = 256;

/// A SQLite database has its file, its log and their shared memory; PostgreSQL one socket.
const FILES_PER_DATABASE_CONNECTION: usize = 3;

/// The system allows too few open files.
#[derive(Debug, thiserror::Error)]
#[error(
    "{wanted} connections and {reserved} files of the service's own are more than the {limit} that the system lets this process open: \
     raise the hard limit (ulimit -Hn, LimitNOFILE) or lower http.max_connections"
)]
pub struct TooFew {
    wanted: usize,
    reserved: usize,
    limit: usize,
}

/// Raises the process's limit of open files to what it may have, and gives it.
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

/// How many connections clients may have, so that they never take what databases, hosts and images need.
pub fn connections(http: &Http, databases: usize, limit: usize) -> Result<usize, TooFew> {
    let pooled = databases * POOL_SIZE as usize * FILES_PER_DATABASE_CONNECTION;
    let reserved = pooled + http.max_transfers * 2 + 2 * RESERVE + BESIDES;
    let room = limit.saturating_sub(reserved);
    let wanted = match http.max_connections {
        0 => room.clamp(CONNECTIONS_AT_LEAST, CONNECTIONS_AT_MOST),
        wanted => wanted,
    };
    if wanted > room { Err(TooFew { wanted, reserved, limit }) } else { Ok(wanted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_the_service_does_not_need_itself() {
        let http = Http::default();
        assert_eq!(connections(&http, 4, 1 << 20).unwrap(), CONNECTIONS_AT_MOST);
        assert_eq!(connections(&http, 4, 1024).unwrap(), 1024 - 4 * 8 * 3 - 128 - 2 * RESERVE - BESIDES);
        assert!(connections(&http, 4, 256).unwrap_err().to_string().contains("LimitNOFILE"));
        assert_eq!(connections(&Http { max_connections: 20_000, ..Http::default() }, 4, 1 << 20).unwrap(), 20_000);
        assert!(connections(&Http { max_connections: 1000, ..Http::default() }, 4, 1024).is_err());
    }

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        let files = raise();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(files, limit.maximum.map_or(usize::MAX, |files| files as usize));
    }
}
