//! Moments as text: as the APIs show them, and as SQLite keeps them. A list of a thousand servers has thousands of them, so they are
//! written and read without a pattern.

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Timelike, Utc};

/// The length of a moment with microseconds and without a zone.
const WITH_MICROSECONDS: usize = "2026-11-20T12:00:00.000000".len();
/// The number of nanoseconds in a second.
const NANOS: u32 = 1_000_000_000;

/// Formats a moment as `2026-11-20T12:00:00Z`.
pub fn seconds(at: DateTime<Utc>) -> String {
    written(at, 'T', Fraction::None, "Z")
}

/// Formats a moment as `2026-11-20T12:00:00.000000`.
pub fn micros(at: DateTime<Utc>) -> String {
    written(at, 'T', Fraction::Micros, "")
}

/// Formats a moment as `2026-11-20T12:00:00.000000Z`.
pub fn micros_with_zone(at: DateTime<Utc>) -> String {
    written(at, 'T', Fraction::Micros, "Z")
}

/// Formats a moment as `2026-11-20 12:00:00.000000`: of fixed width, so that the order of texts is the order of times.
pub fn stored(at: DateTime<Utc>) -> String {
    written(at, ' ', Fraction::Micros, "")
}

/// Reads a text of [`stored`], or another in its form with fewer digits.
pub fn read_stored(text: &str) -> Option<DateTime<Utc>> {
    let naive = fixed(text).or_else(|| NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f").ok());
    naive.map(|naive| naive.and_utc())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fraction {
    None,
    Micros,
}

fn written(at: DateTime<Utc>, between: char, fraction: Fraction, zone: &str) -> String {
    let mut text = String::with_capacity(WITH_MICROSECONDS + zone.len());
    match u32::try_from(at.year()) {
        Ok(year @ 0..=9999) => push(&mut text, year, 4),
        // A year of other than four digits has a sign.
        _ => text.push_str(&format!("{:+05}", at.year())),
    }
    // A leap second counts on beyond the nanoseconds of the second before it.
    let (over, nanos) = (at.nanosecond() / NANOS, at.nanosecond() % NANOS);
    for (before, number) in [('-', at.month()), ('-', at.day()), (between, at.hour()), (':', at.minute()), (':', at.second() + over)] {
        text.push(before);
        push(&mut text, number, 2);
    }
    if fraction == Fraction::Micros {
        text.push('.');
        push(&mut text, nanos / 1000, 6);
    }
    text.push_str(zone);
    text
}

/// Adds a number with this many digits.
fn push(text: &mut String, number: u32, digits: u32) {
    for place in (0..digits).rev() {
        let digit = number / 10_u32.pow(place) % 10;
        text.push(char::from_digit(digit, 10).unwrap_or('0'));
    }
}

/// Reads a text of the usual width; none if it has another form.
fn fixed(text: &str) -> Option<NaiveDateTime> {
    let bytes: &[u8; WITH_MICROSECONDS] = text.as_bytes().try_into().ok()?;
    let marks = [(4, b'-'), (7, b'-'), (10, b' '), (13, b':'), (16, b':'), (19, b'.')];
    if marks.iter().any(|(at, mark)| bytes[*at] != *mark) {
        return None;
    }
    let number = |from: usize, to: usize| {
        bytes[from..to].iter().try_fold(0_u32, |number, byte| byte.is_ascii_digit().then(|| number * 10 + u32::from(byte - b'0')))
    };
    let day = NaiveDate::from_ymd_opt(i32::try_from(number(0, 4)?).ok()?, number(5, 7)?, number(8, 10)?)?;
    day.and_hms_micro_opt(number(11, 13)?, number(14, 16)?, number(17, 19)?, number(20, 26)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments() -> Vec<DateTime<Utc>> {
        let texts = ["2026-11-20T12:00:00Z", "2024-02-29T23:59:59.000001Z", "1970-01-01T00:00:00.999999Z", "0009-12-31T01:02:03.1Z"];
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_texts_are_those_of_the_patterns() {
        let far: Vec<DateTime<Utc>> = ["+10000-01-01T00:00:00Z", "-0001-01-01T00:00:00Z"].map(|text| text.parse().unwrap()).to_vec();
        for at in moments().into_iter().chain(far) {
            assert_eq!(seconds(at), at.format("%Y-%m-%dT%H:%M:%SZ").to_string());
            assert_eq!(micros(at), at.format("%Y-%m-%dT%H:%M:%S%.6f").to_string());
            assert_eq!(micros_with_zone(at), at.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string());
            assert_eq!(stored(at), at.format("%Y-%m-%d %H:%M:%S%.6f").to_string());
        }
    }

    #[test]
    fn stored_moments_are_read_again_and_nothing_else() {
        for at in moments() {
            assert_eq!(read_stored(&stored(at)), Some(at));
        }
        assert_eq!(read_stored("2026-11-20 12:00:00"), Some("2026-11-20T12:00:00Z".parse().unwrap()));
        assert_eq!(read_stored("2026-11-20 12:00:00.5"), Some("2026-11-20T12:00:00.5Z".parse().unwrap()));
        let others =
            ["", "2026-02-30 12:00:00.000000", "2026-11-20 24:00:00.000000", "2026-11-20 12:00:0a.000000", "2026-11-20X12:00:00.000000"];
        for other in others {
            assert_eq!(read_stored(other), None, "{other}");
        }
    }
}
