//! The address of a request's client, and the base URL under which the client reached the service. Anybody can write a proxy's headers, so
//! they are believed only from trusted proxies.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::http::header::{HOST, HeaderMap, HeaderName};
use actix_web::http::uri::Authority;
use ipnet::IpNet;

/// The maximum length of a host name (RFC 1035) with a port.
const LONGEST_HOST: usize = 253 + ":65535".len();

/// The configuration of proxies between clients and the service. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    public_endpoint: Option<String>,
    trusted_proxies: Vec<IpNet>,
    listen: Option<SocketAddr>,
}

impl Clients {
    /// All links begin with the public endpoint, if there is one. `listen` is the fallback.
    pub fn new(public_endpoint: Option<String>, trusted_proxies: Vec<IpNet>, listen: SocketAddr) -> Clients {
        let public_endpoint = public_endpoint.map(|url| url.trim_end_matches('/').to_owned());
        Clients { inner: Arc::new(Inner { public_endpoint, trusted_proxies, listen: Some(listen) }) }
    }

    /// True if the address belongs to a trusted proxy.
    pub fn is_proxy(&self, address: IpAddr) -> bool {
        self.inner.trusted_proxies.iter().any(|network| network.contains(&address.to_canonical()))
    }

    /// Returns the client behind trusted proxies: the last address in `X-Forwarded-For` that is not a trusted proxy's.
    fn behind_proxies(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let lines: Vec<&str> = headers.get_all("X-Forwarded-For").filter_map(|line| line.to_str().ok()).collect();
        let mut client = peer;
        for hop in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
            if !self.is_proxy(client) {
                break;
            }
            match hop.trim().parse() {
                Ok(address) => client = address,
                Err(_) => break,
            }
        }
        client
    }

    fn base_url(&self, request: &HttpRequest) -> String {
        if let Some(public) = &self.inner.public_endpoint {
            return public.clone();
        }
        let headers = request.headers();
        let proxied = request.peer_addr().is_some_and(|peer| self.is_proxy(peer.ip()));
        let forwarded = |name| if proxied { last_value(headers, &HeaderName::from_static(name)) } else { None };
        let scheme = forwarded("x-forwarded-proto").filter(|scheme| ["http", "https"].contains(scheme)).unwrap_or("http");
        let host = forwarded("x-forwarded-host").filter(|host| is_host(host));
        let host = host.or_else(|| last_value(headers, &HOST).filter(|host| is_host(host)));
        let fallback = || self.inner.listen.map_or_else(|| "localhost".to_owned(), |listen| listen.to_string());
        format!("{scheme}://{}", host.map_or_else(fallback, str::to_owned))
    }
}

/// Returns the base URL for the caller, without a trailing slash: `http://127.0.0.1:8774`.
pub fn base_url(request: &HttpRequest) -> String {
    match request.app_data::<Clients>() {
        Some(clients) => clients.base_url(request),
        None => Clients::default().base_url(request),
    }
}

/// Returns the client's address, seen through trusted proxies; none without a socket.
pub fn address(request: &HttpRequest) -> Option<IpAddr> {
    let peer = request.peer_addr()?.ip();
    Some(request.app_data::<Clients>().map_or(peer, |clients| clients.behind_proxies(peer, request.headers())))
}

fn last_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get_all(name).last()?.to_str().ok()?.rsplit(',').next().map(str::trim)
}

/// Accepts a host name or address, with or without a port, and no characters that could redirect a link.
fn is_host(text: &str) -> bool {
    let Ok(authority) = text.parse::<Authority>() else { return false };
    let port_fits = authority.as_str().rsplit_once(':').is_none_or(|(_, port)| port.ends_with(']') || port.parse::<u16>().is_ok());
    let name = authority.host();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let bracketed = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let name_fits = bracketed.map_or_else(|| !name.is_empty() && name.chars().all(plain), |ip| ip.parse::<std::net::Ipv6Addr>().is_ok());
    text.len() <= LONGEST_HOST && !text.contains('@') && port_fits && name_fits
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn clients(public: Option<&str>) -> Clients {
        let trusted = vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        Clients::new(public.map(str::to_owned), trusted, "127.0.0.1:8774".parse().unwrap())
    }

    fn request(clients: Clients, peer: &str, headers: &[(&str, &str)]) -> HttpRequest {
        let request = TestRequest::default().app_data(clients).peer_addr(SocketAddr::new(peer.parse().unwrap(), 5000));
        headers.iter().fold(request, |request, (name, value)| request.append_header((*name, *value))).to_http_request()
    }

    #[test]
    fn links_follow_the_host_header_when_it_names_a_host() {
        for (host, base) in [
            ("cloud.example:8774", "http://cloud.example:8774"),
            ("192.0.2.1", "http://192.0.2.1"),
            ("[2001:db8::1]:80", "http://[2001:db8::1]:80"),
            ("[2001:db8::1]", "http://[2001:db8::1]"),
            ("evil.example/path", "http://127.0.0.1:8774"),
            ("user@evil.example", "http://127.0.0.1:8774"),
            ("cloud.example:99999", "http://127.0.0.1:8774"),
            ("cloud.example:", "http://127.0.0.1:8774"),
            ("a\"b", "http://127.0.0.1:8774"),
            ("[::1", "http://127.0.0.1:8774"),
            ("", "http://127.0.0.1:8774"),
        ] {
            assert_eq!(base_url(&request(clients(None), "192.0.2.9", &[("Host", host)])), base, "{host}");
        }
        assert_eq!(base_url(&request(clients(None), "192.0.2.9", &[])), "http://127.0.0.1:8774");
    }

    #[test]
    fn forwarded_headers_are_believed_from_trusted_proxies_only() {
        let headers = [
            ("Host", "inside:8774"),
            ("X-Forwarded-Host", "cloud.example"),
            ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-For", "198.51.100.7"),
        ];
        let trusted = request(clients(None), "10.1.2.3", &headers);
        assert_eq!(
            (base_url(&trusted).as_str(), address(&trusted).unwrap().to_string().as_str()),
            ("https://cloud.example", "198.51.100.7")
        );
        let other = request(clients(None), "192.0.2.9", &headers);
        assert_eq!((base_url(&other).as_str(), address(&other).unwrap().to_string().as_str()), ("http://inside:8774", "192.0.2.9"));
        let nobody = request(Clients::default(), "10.1.2.3", &headers);
        assert_eq!((base_url(&nobody).as_str(), address(&nobody).unwrap().to_string().as_str()), ("http://inside:8774", "10.1.2.3"));
    }

    #[test]
    fn a_client_cannot_forge_its_address_through_a_proxy() {
        for (chain, client) in [
            (&["1.1.1.1, 198.51.100.7"][..], "198.51.100.7"),
            (&["1.1.1.1, 198.51.100.7, 10.9.9.9"], "198.51.100.7"),
            (&["1.1.1.1", "198.51.100.7"], "198.51.100.7"),
            (&["fd00::1, 2001:db8::5, fd00::2"], "2001:db8::5"),
            (&["nonsense"], "10.1.2.3"),
            (&["10.7.7.7"], "10.7.7.7"),
            (&[], "10.1.2.3"),
        ] {
            let headers: Vec<_> = chain.iter().map(|line| ("X-Forwarded-For", *line)).collect();
            assert_eq!(address(&request(clients(None), "10.1.2.3", &headers)).unwrap().to_string(), client, "{chain:?}");
        }
        let mapped = request(clients(None), "::ffff:10.1.2.3", &[("X-Forwarded-For", "198.51.100.7")]);
        assert_eq!(address(&mapped).unwrap().to_string(), "198.51.100.7");
    }

    #[test]
    fn a_public_endpoint_is_what_all_links_begin_with() {
        let request = request(clients(Some("https://cloud.example/base/")), "10.1.2.3", &[("Host", "x"), ("X-Forwarded-Host", "y")]);
        assert_eq!(base_url(&request), "https://cloud.example/base");
    }
}
