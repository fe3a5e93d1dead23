//! The address to listen on, as operators write it: an address or a name of this machine, and a port.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

use serde::{Deserialize, Deserializer, de};

/// The allowed forms, for errors.
const MUST_BE: &str = "ADDRESS:PORT, such as 127.0.0.1:8774, localhost:8774, or :8774 for every IPv4 address of this machine";

/// Parses an address. Looks names up, and prefers a name's first IPv4 address. An error names the allowed forms.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let wrong = || format!("{text:?} is no place to listen: it must be {MUST_BE}");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    if host.is_empty() {
        return Ok((Ipv4Addr::UNSPECIFIED, port).into());
    }
    if host.contains([':', '[', ']', '/', '@']) {
        return Err(wrong());
    }
    let addresses = (host, port).to_socket_addrs().map_err(|error| format!("{host:?} has no address ({error}): it must be {MUST_BE}"))?;
    let addresses: Vec<SocketAddr> = addresses.collect();
    let chosen = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    chosen.copied().ok_or_else(|| format!("{host:?} has no address: it must be {MUST_BE}"))
}

/// Parses an [`address`] in a file.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    address(&String::deserialize(deserializer)?).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_names_and_a_port_alone_are_understood() {
        for (text, listens_on) in
            [("127.0.0.1:8774", "127.0.0.1:8774"), ("[::1]:80", "[::1]:80"), (":8774", "0.0.0.0:8774"), (":0", "0.0.0.0:0")]
        {
            assert_eq!(address(text).map(|socket| socket.to_string()), Ok(listens_on.to_owned()), "{text}");
        }
        let local = address("localhost:8774").expect("every machine knows its name");
        assert!(local.ip().is_loopback() && local.port() == 8774, "{local}");
    }

    #[test]
    fn anything_else_is_refused_with_what_is_allowed() {
        for text in ["", "8774", "localhost", "localhost:", "localhost:http", "127.0.0.1:65536", "http://localhost:8774", "::1:80"] {
            let error = address(text).unwrap_err();
            assert!(error.contains("localhost:8774"), "{text:?}: {error}");
        }
    }
}
