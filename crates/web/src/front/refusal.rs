//! Answers to malformed requests (a line that cannot be parsed, a head that is too long or too slow, one connection too many). The HTTP
//! library answers them with a bare status; this module adds the API's error and a request id.

use actix_web::ResponseError;
use actix_web::http::StatusCode;
use cellshift_env::Env;

use super::Door;
use super::talk::{TAIL, Talk};
use crate::error::ApiError;

/// Finds the library's own answer in the bytes to write: its start and its status. It is the last answer on its connection. The
/// application's answers have a request id, the library's do not. An application's body can resemble it, so the body's end is compared.
pub fn made_by_the_library(bytes: &[u8], talk: &Talk) -> Option<(usize, StatusCode)> {
    const BEGIN: &[u8] = b"HTTP/1.1 ";
    const END: &[u8] = b"\r\n\r\n";
    if !bytes.ends_with(END) {
        return None;
    }
    let window = bytes.len().saturating_sub(TAIL);
    let start = window + bytes[window..].windows(BEGIN.len()).rposition(|part| part == BEGIN)?;
    let answer = &bytes[start..];
    let head = std::str::from_utf8(answer).ok()?.to_ascii_lowercase();
    let status = StatusCode::from_bytes(answer.get(BEGIN.len()..BEGIN.len() + 3)?).ok()?;
    let bare = head.find("\r\n\r\n") == Some(head.len() - END.len())
        && head.contains("\r\ncontent-length: 0\r\n")
        && !head.contains("x-openstack-request-id");
    let is_error = status.is_client_error() || status.is_server_error();
    (bare && is_error && !talk.ended_with(answer)).then_some((start, status))
}

/// Returns the whole answer, and its request id.
pub fn answer(door: &Door, status: StatusCode, path: &str) -> (Vec<u8>, String) {
    let message = match status {
        StatusCode::REQUEST_TIMEOUT => "The request did not arrive in time.",
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "The request's head is too large.",
        StatusCode::SERVICE_UNAVAILABLE => "Too many connections are open. Try again shortly.",
        StatusCode::INTERNAL_SERVER_ERROR => "Unexpected API Error. The request id is in the answer's headers and in the log.",
        _ => "The request is malformed: its first line or a header cannot be read.",
    };
    let id = format!("req-{}", door.env.uuid());
    let api = door.apis.at(path);
    let mut error = ApiError::new(api.form, status, message);
    error.retry_after = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1);
    (written(&error.for_request(&id).for_api(api), &door.env), id)
}

/// Writes the error as HTTP/1.1. The connection ends with it.
fn written(error: &ApiError, env: &Env) -> Vec<u8> {
    let response = error.error_response();
    let mut text = format!("HTTP/1.1 {}\r\n", error.status);
    for (name, value) in response.headers() {
        text.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap_or_default()));
    }
    let date = env.now().format("%a, %d %b %Y %H:%M:%S GMT");
    let body = actix_web::body::MessageBody::try_into_bytes(response.into_body()).unwrap_or_default();
    text.push_str(&format!("date: {date}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len()));
    let mut answer = text.into_bytes();
    answer.extend_from_slice(&body);
    answer
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use actix_web::body::BoxBody;

    use super::*;
    use crate::apis::{Api, Apis, NONE};
    use crate::clients::Clients;
    use crate::error::ErrorForm;
    use crate::front::talk;

    const BARE: &str = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\ndate: Mon, 23 Nov 2026 07:00:00 GMT\r\n\r\n";

    #[test]
    fn the_librarys_own_answer_is_found_behind_the_applications() {
        let talk = Talk::default();
        let before = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-openstack-request-id: req-1\r\n\r\n{}";
        assert_eq!(made_by_the_library(BARE.as_bytes(), &talk), Some((0, StatusCode::BAD_REQUEST)));
        let both = format!("{before}{BARE}");
        assert_eq!(made_by_the_library(both.as_bytes(), &talk), Some((before.len(), StatusCode::BAD_REQUEST)));
        for other in [
            before,
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nx-openstack-request-id: req-1\r\n\r\n",
            "\r\n\r\n",
            "",
        ] {
            assert_eq!(made_by_the_library(other.as_bytes(), &talk), None, "{other}");
        }
    }

    #[test]
    fn bytes_of_an_image_that_look_like_an_answer_are_left_alone() {
        let talk = Rc::new(Talk::default());
        drop(talk::note(BoxBody::new(format!("image {BARE}")), talk.begin()));
        assert_eq!(made_by_the_library(BARE.as_bytes(), &talk), None);
        drop(talk::note(BoxBody::new("{}"), talk.begin()));
        assert!(made_by_the_library(BARE.as_bytes(), &talk).is_some());
    }

    #[test]
    fn a_refusal_has_the_form_of_the_api_that_was_asked() {
        const IDENTITY: Api = Api { segment: "identity", form: ErrorForm::Identity, ..NONE.other };
        const APIS: Apis = Apis { all: &[IDENTITY], ..NONE };
        let door = Door { env: Env::system(), clients: Clients::default(), apis: &APIS };
        for (path, key) in [("/compute/v2.1/servers", "badRequest"), ("/identity/v3", "error"), ("", "badRequest")] {
            let (bytes, _) = answer(&door, StatusCode::BAD_REQUEST, path);
            let text = String::from_utf8(bytes).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n") && head.contains("\r\nx-openstack-request-id: req-"), "{head}");
            assert!(head.contains(&format!("\r\ncontent-length: {}", body.len())), "{head}");
            assert!(serde_json::from_str::<serde_json::Value>(body).unwrap().get(key).is_some(), "{body}");
        }
    }
}
