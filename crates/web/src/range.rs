//! The `Range` of a download: a single range of bytes, as in Glance.

use actix_web::HttpResponse;
use actix_web::body::SizedStream;
use actix_web::http::StatusCode;
use actix_web::http::header::{ACCEPT_RANGES, CONTENT_RANGE, HeaderMap, IF_RANGE, RANGE};
use cellshift_env::streams::ByteStream;
use futures::StreamExt;

use crate::error::{ApiError, ErrorForm};
use crate::limits::Entered;

/// The media type of an image's bytes.
pub const BYTES: &str = "application/octet-stream";

/// The reason why a range is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unsatisfiable {
    #[error("Invalid Range header.")]
    Malformed,
    #[error("Requests with multiple ranges are not supported. Make several requests with one range each instead.")]
    Multiple,
    #[error("The Range header begins behind the end of the image, which has {0} bytes.")]
    BehindTheEnd(u64),
}

/// The bytes that a download asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The place of the first byte.
    pub first: u64,
    /// The number of bytes.
    pub length: u64,
    /// The number of all bytes.
    size: u64,
    /// True if the request names a range.
    is_range: bool,
}

impl Part {
    /// Reads the part of `size` bytes that the headers ask for: all without a range, and with `If-Range`, because an image has no validator
    /// that it could name. Refuses with 416.
    pub fn requested(headers: &HeaderMap, size: u64, form: ErrorForm) -> Result<Part, ApiError> {
        match headers.get(RANGE) {
            Some(range) if !headers.contains_key(IF_RANGE) => {
                let part = range.to_str().ok().ok_or(Unsatisfiable::Malformed).and_then(|text| of(text, size));
                let (first, length) = part.map_err(|why| ApiError::new(form, StatusCode::RANGE_NOT_SATISFIABLE, why.to_string()))?;
                Ok(Part { first, length, size, is_range: true })
            }
            _ => Ok(Part { first: 0, length: size, size, is_range: false }),
        }
    }

    /// Answers with the bytes of the part. The transfer counts until the client has read them.
    pub fn answer(self, data: ByteStream, transfer: Option<Entered>) -> HttpResponse {
        let Part { first, length, size, is_range } = self;
        let data = data.map(move |piece| {
            let _transfer = &transfer;
            piece
        });
        let mut response = HttpResponse::Ok();
        if is_range {
            response.status(StatusCode::PARTIAL_CONTENT);
            response.insert_header((CONTENT_RANGE, format!("bytes {first}-{}/{size}", first + length - 1)));
        }
        response.insert_header((ACCEPT_RANGES, "bytes"));
        response.content_type(BYTES).body(SizedStream::new(length, data))
    }
}

/// Returns the first byte and the length (at least 1) of a part of `size` bytes.
pub fn of(text: &str, size: u64) -> Result<(u64, u64), Unsatisfiable> {
    if text.contains(',') {
        return Err(Unsatisfiable::Multiple);
    }
    let (unit, part) = text.split_once('=').ok_or(Unsatisfiable::Malformed)?;
    let (first, last) = part.trim().split_once('-').ok_or(Unsatisfiable::Malformed)?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Err(Unsatisfiable::Malformed);
    }
    let (first, end) = match (number(first)?, number(last)?) {
        (Some(first), Some(last)) if last < first => return Err(Unsatisfiable::Malformed),
        (Some(first), Some(last)) => (first, last.saturating_add(1).min(size)),
        (Some(first), None) => (first, size),
        (None, Some(count)) => (size - count.min(size), size),
        (None, None) => return Err(Unsatisfiable::Malformed),
    };
    if first >= end { Err(Unsatisfiable::BehindTheEnd(size)) } else { Ok((first, end - first)) }
}

fn number(text: &str) -> Result<Option<u64>, Unsatisfiable> {
    match text {
        "" => Ok(None),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().map(Some).map_err(|_| Unsatisfiable::Malformed),
        _ => Err(Unsatisfiable::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_range_is_a_first_byte_and_a_length() {
        for (text, part) in [
            ("bytes=0-0", (0, 1)),
            ("bytes=2-4", (2, 3)),
            ("Bytes = 2-4", (2, 3)),
            ("bytes=7-", (7, 3)),
            ("bytes=-3", (7, 3)),
            ("bytes=-99", (0, 10)),
            ("bytes=5-18446744073709551615", (5, 5)),
        ] {
            assert_eq!(of(text, 10), Ok(part), "{text}");
        }
    }

    #[test]
    fn a_range_outside_the_bytes_is_refused() {
        for text in ["bytes=10-", "bytes=10-12", "bytes=-0"] {
            assert_eq!(of(text, 10), Err(Unsatisfiable::BehindTheEnd(10)), "{text}");
        }
        assert_eq!(of("bytes=0-", 0), Err(Unsatisfiable::BehindTheEnd(0)));
        for text in ["", "bytes", "bytes=", "bytes=-", "bytes=a-", "bytes=1-+2", "bytes=4-2", "lines=1-2", "bytes=99999999999999999999-"] {
            assert_eq!(of(text, 10), Err(Unsatisfiable::Malformed), "{text}");
        }
        assert_eq!(of("bytes=0-1,3-4", 10), Err(Unsatisfiable::Multiple));
    }

    #[test]
    fn a_download_without_a_range_is_whole() {
        let part = Part::requested(&HeaderMap::new(), 10, ErrorForm::Image).unwrap();
        assert_eq!((part.first, part.length, part.is_range), (0, 10, false));
    }
}
