//! A saga's journal as a timeline for terminals: a row for each try, with its offset from the beginning, its outcome, its duration and a bar.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use textwrap::{Options, WordSplitter};

use crate::saga::migration_view::{MigrationView, StepView};

/// The width of the bars in columns.
const BARS: i64 = 24;
/// The width of an error in columns.
const ERROR_WIDTH: usize = 78;
/// The width of a debt in columns.
const DEBT_WIDTH: usize = 88;

/// Paints a text in a colour or weight by the terminal's code for it. Gets the code and the text.
pub type Paint<'a> = &'a dyn Fn(&str, &str) -> String;

/// Returns a text as it is, for output without colours.
pub fn plain(_code: &str, text: &str) -> String {
    text.to_owned()
}

/// A saga's tries on a common scale of time.
pub struct Timeline<'a> {
    view: &'a MigrationView,
    /// The milliseconds from the beginning to the right end of the bars.
    span: i64,
    paint: Paint<'a>,
}

impl<'a> Timeline<'a> {
    /// Lays the tries out from the saga's beginning to its last moment, or to `now` while it runs.
    pub fn of(view: &'a MigrationView, now: DateTime<Utc>, paint: Paint<'a>) -> Timeline<'a> {
        let tries = view.steps.iter().flatten().flat_map(|step| [Some(step.begun_at), step.ended_at]).flatten();
        let open = if view.is_over() { view.started_at } else { now };
        let last = tries.chain([open]).max().unwrap_or(view.started_at);
        Timeline { view, span: (last - view.started_at).num_milliseconds().max(1), paint }
    }

    /// Returns the milliseconds from the beginning to the last moment.
    pub fn span(&self) -> i64 {
        self.span
    }

    /// Returns the titles of the columns.
    pub fn head(&self) -> String {
        (self.paint)("2", &format!("{:>7}  {:<27} {:<4} {:>7}  {:<7} {:>5}", "at ms", "step", "side", "attempt", "outcome", "ms"))
    }

    /// Returns a row for each try with its bar, and below it the error, unless the try before had an equal one.
    pub fn rows(&self) -> Vec<String> {
        let steps = self.view.steps.as_deref().unwrap_or_default();
        let mut rows = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            rows.push(format!("{}  {}", self.row(step), self.bar(step, steps.get(at + 1))).trim_end().to_owned());
            let before = at.checked_sub(1).and_then(|before| steps.get(before));
            rows.extend(self.error(step, before));
        }
        rows
    }

    /// Returns a try's row without its bar, which needs no later try.
    pub fn row(&self, step: &StepView) -> String {
        let start = (step.begun_at - self.view.started_at).num_milliseconds().max(0);
        let took = step.ended_at.map_or_else(String::new, |ended| (ended - step.begun_at).num_milliseconds().max(0).to_string());
        let outcome = (self.paint)(colour(step), &format!("{:<7}", step.outcome.as_deref().unwrap_or("running")));
        let mark = if self.is_pivot(step) { "◆ pivot" } else { "" };
        format!("{start:>7}  {:<27} {:<4} {:>7}  {outcome} {took:>5}  {mark:<7}", step.step, step.side, step.attempt)
    }

    /// Returns the lines with a try's error, unless the try before had an equal one.
    pub fn error(&self, step: &StepView, before: Option<&StepView>) -> Vec<String> {
        let fresh = step.error.as_ref().filter(|error| before.and_then(|before| before.error.as_ref()) != Some(error));
        let lines = fresh.map(|error| wrapped(error, ERROR_WIDTH)).unwrap_or_default();
        lines.iter().map(|line| (self.paint)("31", &format!("         {line}"))).collect()
    }

    /// Returns the lines with the undos and clean-ups that are owed, and the reason of each if `reasons` is true.
    pub fn debts(&self, reasons: bool) -> Vec<String> {
        let lines = self.view.debts.iter().flat_map(|debt| {
            let reason = if reasons { format!(": {}", debt.reason) } else { String::new() };
            wrapped(&format!("owed: {} of {}{reason}", debt.side, debt.step), DEBT_WIDTH)
        });
        lines.map(|line| (self.paint)("33", &line)).collect()
    }

    /// True for the try after which the saga only goes forward.
    fn is_pivot(&self, step: &StepView) -> bool {
        step.side == "act" && step.outcome.as_deref() == Some("ok") && self.view.pivot.as_ref() == Some(&step.step)
    }

    /// Returns a try's bar. A try whose runner died ends where the next try begins, and an open one at the right end.
    fn bar(&self, step: &StepView, next: Option<&StepView>) -> String {
        let offset = |at: DateTime<Utc>| (at - self.view.started_at).num_milliseconds().clamp(0, self.span);
        let died = step.outcome.as_ref().and(next).map(|next| next.begun_at);
        let start = offset(step.begun_at);
        let ended = match (step.ended_at.or(died), &step.outcome) {
            (Some(end), _) => offset(end),
            (None, None) => self.span,
            (None, Some(_)) => start,
        };
        (self.paint)(colour(step), &bar(start, ended.max(start), self.span))
    }
}

fn colour(step: &StepView) -> &'static str {
    match step.outcome.as_deref() {
        Some("ok") if step.side == "undo" => "33",
        Some("ok") => "32",
        Some("skipped") => "2",
        None => "36",
        Some(_) => "31",
    }
}

/// Returns the bar from one offset to another within the whole time; at least one column.
fn bar(start: i64, ended: i64, span: i64) -> String {
    let column = |at: i64| usize::try_from(at * BARS / span).unwrap_or(0);
    let first = column(start).min(column(span) - 1);
    let length = column(ended).saturating_sub(first).max(1);
    format!("{}{}", " ".repeat(first), "▬".repeat(length))
}

/// Wraps words to lines of at most `width` columns. A longer word has its own line. Control characters, which could move the cursor, part words.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let words: Vec<&str> =
        text.split(|letter: char| letter.is_whitespace() || letter.is_control()).filter(|word| !word.is_empty()).collect();
    let whole_words = Options::new(width).break_words(false).word_splitter(WordSplitter::NoHyphenation);
    textwrap::wrap(&words.join(" "), whole_words).into_iter().map(Cow::into_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(ms: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + chrono::Duration::milliseconds(ms)
    }

    fn step(name: &str, side: &str, outcome: Option<&str>, error: Option<&str>, start: i64, ended: Option<i64>) -> Value {
        json!({
            "seq": start, "step": name, "side": side, "attempt": 1, "outcome": outcome, "error": error,
            "begun_at": at(start), "ended_at": ended.map(at),
        })
    }

    fn view(state: &str, steps: &[Value]) -> MigrationView {
        let id = uuid::Uuid::from_u128(1);
        let debt = json!({"step": "bind", "side": "undo", "reason": "h2 is away", "tries": 4, "needs_operator": false, "since": at(9)});
        let view = json!({
            "uuid": id, "server": id, "saga": "resize", "state": state, "step": "own", "progress": 50, "pivot": "own", "debts": [debt],
            "started_at": at(0), "updated_at": at(5000), "steps": steps,
        });
        serde_json::from_value(view).unwrap()
    }

    #[test]
    fn bars_lie_in_their_time() {
        assert_eq!(bar(0, 0, 100), "▬");
        assert_eq!(bar(50, 100, 100), format!("{}{}", " ".repeat(12), "▬".repeat(12)));
        assert_eq!(bar(100, 100, 100), format!("{}▬", " ".repeat(23)));
    }

    #[test]
    fn rows_tell_offsets_errors_once_and_the_pivot() {
        let steps = [
            step("bind", "act", Some("failed"), Some("no answer"), 0, Some(50)),
            step("bind", "act", Some("failed"), Some("no answer"), 50, Some(100)),
            step("own", "act", Some("ok"), None, 100, Some(200)),
        ];
        let view = view("done", &steps);
        let timeline = Timeline::of(&view, at(9999), &plain);
        assert_eq!(timeline.span(), 200, "payments after the end do not count");
        let expected = [
            "      0  bind                        act        1  failed     50           ▬▬▬▬▬▬",
            "         no answer",
            "     50  bind                        act        1  failed     50                 ▬▬▬▬▬▬",
            "    100  own                         act        1  ok        100  ◆ pivot              ▬▬▬▬▬▬▬▬▬▬▬▬",
        ];
        assert_eq!(timeline.rows(), expected);
        assert_eq!(timeline.debts(true), ["owed: undo of bind: h2 is away"]);
        assert_eq!(timeline.debts(false), ["owed: undo of bind"]);
    }

    #[test]
    fn open_and_dead_tries_have_bars() {
        let steps = [
            step("bind", "act", Some("unknown"), None, 0, None),
            step("bind", "act", Some("ok"), None, 120, Some(120)),
            step("own", "act", None, None, 120, None),
        ];
        let view = view("running", &steps);
        let bars = Timeline::of(&view, at(240), &plain).rows();
        assert!(bars[0].ends_with(&format!("  {}", "▬".repeat(12))), "{}", bars[0]);
        assert!(bars[2].contains("running") && bars[2].ends_with(&"▬".repeat(12)) && !bars[2].contains('◆'), "{}", bars[2]);
        let painted = Timeline::of(&view, at(240), &|code, text| format!("<{code}>{text}")).rows();
        assert!(painted[0].contains("<31>unknown") && painted[2].contains("<36>running"), "{painted:?}");
    }

    #[test]
    fn prose_is_wrapped_at_words() {
        assert_eq!(wrapped("one two  three\nfour", 8), ["one two", "three", "four"]);
        assert_eq!(wrapped("incomprehensible is", 4), ["incomprehensible", "is"]);
        assert_eq!(wrapped("clear\u{1b}[2J it", 20), ["clear [2J it"]);
    }
}
