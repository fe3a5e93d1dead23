//! Times, sizes and ids as tables print them.

use std::collections::BTreeSet;

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use serde_json::Value;

use crate::domain::span::span;

/// The digits of an id in a table. Commands take the beginning of an id.
const SHORT: usize = 8;

/// The form of moments in notifications.
const NAIVE: &str = "%Y-%m-%d %H:%M:%S%.f";

/// Returns the moment of a field. A moment without a time zone, as notifications have it, is in UTC.
pub(super) fn moment(value: &Value) -> Option<DateTime<Utc>> {
    let text = value.as_str()?;
    text.parse().ok().or_else(|| NaiveDateTime::parse_from_str(text, NAIVE).ok().map(|at| at.and_utc()))
}

/// Returns a moment to the second, in UTC.
pub(super) fn date(value: &Value) -> String {
    moment(value).map_or_else(|| value.as_str().unwrap_or_default().to_owned(), |at| at.format("%Y-%m-%d %H:%M:%SZ").to_string())
}

/// Returns how long ago a moment was, in whole seconds; empty if the field has none.
pub(super) fn ago(value: &Value, now: DateTime<Utc>) -> String {
    let Some(at) = moment(value) else { return String::new() };
    match (now - at).num_seconds() {
        ..1 => "now".to_owned(),
        passed => format!("{} ago", span(TimeDelta::seconds(passed)).replace(".0 s", " s")),
    }
}

/// Returns the beginning of an id.
pub(super) fn short(id: &str) -> &str {
    id.get(..SHORT).unwrap_or(id)
}

/// Returns a number of mebibytes with a fitting unit.
pub(super) fn mebibytes(number: u64) -> String {
    match number {
        0..1024 => format!("{number} MiB"),
        _ => format!("{}.{} GiB", number / 1024, number % 1024 * 10 / 1024),
    }
}

/// The maximum number of good values that a refusal names.
const NAMED_MAX: usize = 20;

/// Names the values that would be right, for the end of a refusal; empty if there are none.
pub(super) fn there_are<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: BTreeSet<&str> = names.collect();
    let list = names.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => String::new(),
        1..=NAMED_MAX => format!(" There are: {list}"),
        all => format!(" There are: {list} and {} more", all - NAMED_MAX),
    }
}

/// Replaces the fields of a request in a message by the options of the command line that set them.
pub(super) fn in_options(message: &str, options: &[(&str, &str)]) -> String {
    options.iter().fold(message.to_owned(), |text, (field, option)| text.replace(field, option))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn moments_are_shown_in_utc_and_by_their_age() {
        let at = json!("2026-11-27T08:31:07.123456Z");
        let now = moment(&json!("2026-11-27T08:33:07Z")).unwrap();
        assert_eq!(date(&json!("2026-11-27 08:31:07.407271")), "2026-11-27 08:31:07Z");
        assert_eq!((date(&at), ago(&at, now)), ("2026-11-27 08:31:07Z".to_owned(), "119 s ago".to_owned()));
        assert_eq!((ago(&json!("2026-11-27T08:33:04.5Z"), now), ago(&json!(now), now)), ("2 s ago".to_owned(), "now".to_owned()));
        assert_eq!((date(&Value::Null), ago(&Value::Null, now)), (String::new(), String::new()));
        assert_eq!((short("0123456789"), short("0")), ("01234567", "0"));
        assert_eq!([512, 1024, 1536].map(mebibytes), ["512 MiB", "1.0 GiB", "1.5 GiB"]);
    }

    #[test]
    fn good_values_are_named_up_to_a_bound() {
        let names = |number: usize| (0..number).map(|number| format!("p{number:02}")).collect::<Vec<_>>();
        let choices = |number: usize| there_are(names(number).iter().map(String::as_str));
        assert_eq!((choices(0), choices(2)), (String::new(), " There are: p00, p01".to_owned()));
        assert!(choices(NAMED_MAX).ends_with(", p19") && choices(NAMED_MAX + 3).ends_with(", p19 and 3 more"));
    }

    #[test]
    fn messages_name_options_in_place_of_fields() {
        let options = [("to_cell or to_zone", "--to"), ("to_cell", "--to")];
        assert_eq!(
            in_options("A cell's drain needs a destination: to_cell or to_zone.", &options),
            "A cell's drain needs a destination: --to."
        );
        assert_eq!(in_options("no field is named", &options), "no field is named");
    }
}
