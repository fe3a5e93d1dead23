//! Durations in words.

use chrono::TimeDelta;

/// Units of time, with the seconds that each has.
const UNITS: [(i64, &str); 4] = [(1, "s"), (60, "min"), (3600, "h"), (86_400, "d")];

/// Returns a duration as the operators' page tells it: `350 ms`, `3.2 s`, `12 s`, `3 min`.
pub fn span(passed: TimeDelta) -> String {
    let ms = passed.num_milliseconds().max(0);
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..10_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => {
            let seconds = ms / 1000;
            let fits = |(unit, _): &&(i64, &str)| seconds >= if *unit > 1 { unit * 2 } else { 1 };
            let (unit, name) = UNITS.iter().rev().find(fits).unwrap_or(&UNITS[0]);
            format!("{} {name}", seconds / unit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_fitting_units() {
        let text = |ms: i64| span(TimeDelta::milliseconds(ms));
        let (second, hour) = (1000, 3_600_000);
        assert_eq!([-5, 350, 999].map(text), ["0 ms", "350 ms", "999 ms"]);
        assert_eq!([3 * second + 250, 12 * second, 119 * second].map(text), ["3.2 s", "12 s", "119 s"]);
        assert_eq!([120 * second, hour, 2 * hour, 50 * hour].map(text), ["2 min", "60 min", "2 h", "2 d"]);
    }
}
