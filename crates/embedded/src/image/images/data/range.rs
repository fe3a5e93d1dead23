//! The `Range` of a download: a single range of bytes, as in Glance.

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
