//! Refuses requests that another site's page makes with the session of this one.

use actix_web::HttpRequest;
use actix_web::http::Method;
use actix_web::http::header::{HOST, HeaderMap, ORIGIN};

use crate::http::base_url;

/// The header that the page's scripts send with each change. Another site's form cannot send one, and its script must ask before.
const ASKER: (&str, &str) = ("X-Requested-By", "cellshift-ui");

/// Returns the reason why the request does not come from the page itself; none if it does.
pub fn objection(request: &HttpRequest) -> Option<&'static str> {
    let headers = request.headers();
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    let site = text(headers, "Sec-Fetch-Site");
    match site {
        None | Some("same-origin") => {}
        // The user typed the address.
        Some("none") if !changes => {}
        Some(_) => return Some("The request comes from the page of another site."),
    }
    let origin = text(headers, ORIGIN.as_str());
    if origin.is_some_and(|origin| !is_own(request, origin)) {
        return Some("The request comes from the page of another site.");
    }
    if !changes {
        return None;
    }
    if text(headers, ASKER.0) != Some(ASKER.1) {
        return Some("A change through the page's session needs the header X-Requested-By: cellshift-ui.");
    }
    match site.or(origin) {
        Some(_) => None,
        None => Some("A change through the page's session needs the header Origin or Sec-Fetch-Site, which browsers send."),
    }
}

/// True if the origin has the host of this request, or that of the public endpoint.
fn is_own(request: &HttpRequest, origin: &str) -> bool {
    let Some((_, host)) = origin.split_once("://") else { return false };
    let base = base_url::of(request);
    let public = base.split_once("://").and_then(|(_, rest)| rest.split('/').next());
    [public, text(request.headers(), HOST.as_str())].into_iter().flatten().any(|own| own.eq_ignore_ascii_case(host))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    // A value that is no text is not what the page sends.
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn refused(method: Method, headers: &[(&str, &str)]) -> bool {
        let request = TestRequest::default().method(method).insert_header((HOST, "cloud:8774"));
        let request = headers.iter().fold(request, |request, (name, value)| request.append_header((*name, *value)));
        objection(&request.to_http_request()).is_some()
    }

    #[test]
    fn a_change_needs_the_pages_header_and_origin() {
        let asker = ASKER;
        for (headers, expected) in [
            (&[asker, ("Origin", "http://cloud:8774")][..], false),
            (&[asker, ("Origin", "https://CLOUD:8774"), ("Sec-Fetch-Site", "same-origin")], false),
            (&[asker, ("Sec-Fetch-Site", "same-origin")], false),
            (&[asker], true),
            (&[asker, ("Origin", "null")], true),
            (&[asker, ("Origin", "http://cloud")], true),
            (&[asker, ("Origin", "http://cloud:8774.evil.example")], true),
            (&[asker, ("Origin", "http://evil.example")], true),
            (&[asker, ("Origin", "http://evil.example"), ("Sec-Fetch-Site", "same-origin")], true),
            (&[asker, ("Origin", "http://cloud:8774"), ("Sec-Fetch-Site", "same-site")], true),
            (&[asker, ("Origin", "http://cloud:8774"), ("Sec-Fetch-Site", "none")], true),
            (&[("Origin", "http://cloud:8774"), ("Sec-Fetch-Site", "same-origin")], true),
            (&[("X-Requested-By", "a form"), ("Origin", "http://cloud:8774")], true),
        ] {
            assert_eq!(refused(Method::POST, headers), expected, "{headers:?}");
            assert_eq!(refused(Method::DELETE, headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn a_question_is_refused_if_another_site_asks() {
        for (headers, expected) in [
            (&[][..], false),
            (&[("Sec-Fetch-Site", "none")], false),
            (&[("Sec-Fetch-Site", "same-origin")], false),
            (&[("Sec-Fetch-Site", "cross-site")], true),
            (&[("Sec-Fetch-Site", "same-site")], true),
            (&[("Origin", "http://evil.example")], true),
        ] {
            assert_eq!(refused(Method::GET, headers), expected, "{headers:?}");
        }
    }
}
