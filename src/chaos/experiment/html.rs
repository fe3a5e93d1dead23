//! A verdict as a self-contained page: without scripts, external styles or pictures, and with all texts escaped.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};

use super::short;
use super::text::{made, seconds, word};
use super::verdict::{Conclusion, Findings, MigrationEnd, StepTold, Verdict};
use crate::saga::step::Class;
use crate::saga::tables;

/// The width of a timeline in the drawing's units.
const WIDTH: f64 = 900.0;
/// The height of a timeline's row.
const ROW: f64 = 18.0;
/// The space left of the timeline for the steps' names.
const NAMES: f64 = 230.0;
/// The space right of the timeline for marks at its end.
const EDGE: f64 = 14.0;

/// Browsers in dark mode get these dark colours, which keep labels legible, and no colours of their own.
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c2430;--paper:#fff;--quiet:#5a6675;--rule:#e3e8ee;--grid:#eef1f4;--bad:#b3261e;--ok:#5b8def;\
--undo:#8a63c9;--doubt:#c98a00;--open:#9aa5b1;--code:#f4f6f8}\
@media (prefers-color-scheme:dark){:root{--ink:#e6eaf0;--paper:#14181e;--quiet:#a3aebb;--rule:#333b45;--grid:#262d36;--bad:#f2766d;\
--ok:#7ba4f4;--undo:#b08fe6;--doubt:#e0a92e;--open:#7d8894;--code:#20262e}}\
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1180px;padding:0 1rem;color:var(--ink);background:var(--paper)}\
h1{font-size:1.5rem;margin-bottom:0}h2{font-size:1.1rem;margin-top:2rem}h3{font-size:.95rem;margin:1.4rem 0 .2rem}\
p.made{color:var(--quiet);margin-top:.2rem}.verdict{display:inline-block;padding:.2rem .8rem;border-radius:4px;color:#fff;font-weight:600}\
.held{background:#2b7a4b}.broken{background:#b3261e}.incomplete{background:#9a6700}.wide{overflow-x:auto}\
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2rem .7rem .2rem 0;border-bottom:1px solid var(--rule);vertical-align:top}\
td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}svg{width:100%;min-width:760px;height:auto;display:block}\
svg text{font:11px system-ui,sans-serif;fill:var(--ink)}svg tspan,svg .mark{fill:var(--quiet)}.ok{fill:var(--ok)}.failed{fill:var(--bad)}\
.unknown{fill:var(--doubt)}.undo{fill:var(--undo)}.open{fill:var(--open)}.fault{stroke:var(--bad);stroke-width:1.5;stroke-dasharray:3 2}\
.pivot{stroke:var(--ink);stroke-width:1.5}.grid{stroke:var(--grid)}.why{color:var(--quiet);font-size:.85rem;overflow-wrap:anywhere}\
code{background:var(--code);padding:.1rem .4rem;border-radius:4px;overflow-wrap:anywhere}\
.key span{display:inline-block;margin-right:1rem}.key i{display:inline-block;width:.8rem;height:.8rem;margin-right:.3rem;vertical-align:-1px}";

/// The legend of the colours.
const KEY: &str = "<p class=\"key\"><span><i style=\"background:var(--ok)\"></i>act done</span>\
<span><i style=\"background:var(--undo)\"></i>undo done</span><span><i style=\"background:var(--bad)\"></i>failed</span>\
<span><i style=\"background:var(--doubt)\"></i>end unknown or too late</span><span><i style=\"background:var(--open)\"></i>no end recorded</span>\
<span><i style=\"background:var(--bad);width:2px\"></i>a fault</span>\
<span><i style=\"border-left:2px solid var(--ink);width:0\"></i>the pivot: the commit after which it only goes forward</span></p>";

/// The origin of a page, for its foot.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The moment of its creation.
    pub at: DateTime<Utc>,
    /// The command that repeats the run, if known.
    pub again: Option<String>,
}

/// Escapes text for HTML.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// Returns the page. Writing to a String cannot fail.
pub fn page(verdict: &Verdict, origin: &Origin) -> String {
    let findings = &verdict.findings;
    let title = escaped(&verdict.title);
    let class = match verdict.conclusion {
        Conclusion::Held => "held",
        Conclusion::Broken => "broken",
        Conclusion::Incomplete => "incomplete",
    };
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{title}</title>\n<style>{STYLE}</style></head>\n\
         <body><h1>{title}</h1>\n<p class=\"made\">{}</p>\n<p><span class=\"verdict {class}\">{}</span></p>\n",
        escaped(&made(findings)),
        word(verdict.conclusion)
    );
    for paragraph in verdict.description.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        let _ = writeln!(page, "<p>{}</p>", escaped(paragraph.trim()));
    }
    held(&mut page, verdict);
    faults(&mut page, verdict);
    page.push_str("<h2>Migrations</h2>\n");
    page.push_str(KEY);
    for migration in findings.migrations.iter().filter(|migration| migration.is_move() || !migration.faults.is_empty()) {
        timeline(&mut page, findings, migration);
    }
    others(&mut page, findings);
    foot(&mut page, origin);
    page.push_str("</body></html>\n");
    page
}

fn foot(page: &mut String, origin: &Origin) {
    if let Some(again) = &origin.again {
        let _ = writeln!(page, "<p class=\"why\">The same again: <code>{}</code></p>", escaped(again));
    }
    let (version, at) = (env!("CARGO_PKG_VERSION"), origin.at.format("%Y-%m-%d %H:%M:%S UTC"));
    let _ = writeln!(page, "<p class=\"why\">cellshift {version}, {at}</p>");
}

fn held(page: &mut String, verdict: &Verdict) {
    let findings = &verdict.findings;
    page.push_str("<h2>What had to hold</h2>\n<div class=\"wide\"><table><tr><th>what</th><th>wanted</th><th>found</th><th></th></tr>\n");
    let mut row = |what: &str, wanted: &str, found: &str, met: bool| {
        let (class, word) = if met { ("held", "held") } else { ("broken", "broken") };
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td><span class=\"verdict {class}\">{word}</span></td></tr>",
            escaped(what),
            escaped(wanted),
            escaped(found)
        );
    };
    let count = findings.violations.len();
    row("invariants, during the run and at rest", "no violation", &count.to_string(), count == 0);
    for expectation in &verdict.expectations {
        row(&expectation.what, &expectation.wanted, &expectation.found, expectation.met);
    }
    page.push_str("</table></div>\n");
    let troubles = findings.violations.iter().map(ToString::to_string);
    let silent = findings.unreachable.iter().map(|silent| format!("no answer: {silent}"));
    let gave_up = findings.aborted.iter().map(|why| format!("the experiment gave up: {why}"));
    for trouble in troubles.chain(silent).chain(gave_up) {
        let _ = writeln!(page, "<p class=\"why\">{}</p>", escaped(&trouble));
    }
    if let Some(recovery) = &verdict.recovery {
        let _ = writeln!(
            page,
            "<p>Recovery of the {} operations that a fault met: median {}, 99th percentile {}, longest {}.</p>",
            recovery.migrations,
            seconds(recovery.median_ms),
            seconds(recovery.p99_ms),
            seconds(recovery.longest_ms)
        );
    }
}

fn faults(page: &mut String, verdict: &Verdict) {
    page.push_str("<h2>Faults</h2>\n<div class=\"wide\"><table><tr><th>at</th><th>over</th><th>what</th><th>where</th></tr>\n");
    for fault in &verdict.findings.injected {
        let place = match (&fault.step, fault.saga) {
            (Some(step), Some(saga)) => {
                let moment = fault.moment.map_or_else(String::new, |moment| format!(", {moment}"));
                format!("{step} of {}{moment}", short(saga))
            }
            _ => String::new(),
        };
        let failed = fault.failed.as_ref().map_or_else(String::new, |why| format!(" (it could not happen: {why})"));
        let _ = writeln!(
            page,
            "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}{}</td><td>{}</td></tr>",
            seconds(fault.at_ms),
            fault.over_ms.map_or_else(String::new, seconds),
            escaped(&fault.what),
            escaped(&failed),
            escaped(&place)
        );
    }
    for fault in &verdict.not_injected {
        let _ = writeln!(page, "<tr><td class=\"n\">never</td><td></td><td>{}</td><td></td></tr>", escaped(fault));
    }
    page.push_str("</table></div>\n");
}

fn timeline(page: &mut String, findings: &Findings, migration: &MigrationEnd) {
    let took = migration.ended_ms.saturating_sub(migration.began_ms);
    let why = migration.error.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    let _ = writeln!(
        page,
        "<h3>{} {} of server {}: {}</h3><p class=\"why\">began at {}, took {}{}</p>",
        escaped(&migration.saga),
        short(migration.uuid),
        short(migration.server),
        escaped(&migration.state),
        seconds(migration.began_ms),
        seconds(took),
        escaped(&why)
    );
    let height = ROW * (migration.steps.len() as f64 + 1.0);
    let width = NAMES + WIDTH + EDGE;
    let _ = writeln!(page, "<div class=\"wide\"><svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">");
    let scale = Scale::of(migration);
    for (row, step) in migration.steps.iter().enumerate() {
        bar(page, &scale, row, step);
    }
    let base = height - 5.0;
    if let Some(ms) = pivot(migration) {
        let x = scale.at(ms);
        let _ = writeln!(
            page,
            "<line class=\"pivot\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{:.0}\"><title>{} the pivot</title></line>",
            height - ROW,
            seconds(ms)
        );
        let left_of_it = (x - 5.0).clamp(NAMES + 80.0, NAMES + WIDTH - 50.0);
        let _ = writeln!(page, "<text class=\"mark\" x=\"{left_of_it:.1}\" y=\"{base:.0}\" text-anchor=\"end\">pivot</text>");
    }
    for fault in migration.faults.iter().filter_map(|place| findings.injected.get(*place)) {
        let x = scale.at(fault.at_ms);
        let _ = writeln!(
            page,
            "<line class=\"fault\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{height:.0}\"><title>{} {}</title></line>",
            seconds(fault.at_ms),
            escaped(&fault.what)
        );
    }
    let _ = writeln!(page, "<text x=\"{NAMES}\" y=\"{base:.0}\">{}</text>", seconds(scale.from));
    let _ = writeln!(page, "<text x=\"{:.0}\" y=\"{base:.0}\" text-anchor=\"end\">{}</text></svg></div>", NAMES + WIDTH, seconds(scale.to));
}

/// Returns when the pivot's commit took effect; past it the operation only goes forward.
fn pivot(migration: &MigrationEnd) -> Option<u64> {
    let is_pivot = |name: &str| {
        tables::ALL.iter().flat_map(|(_, table)| table.steps).any(|step| step.name.as_str() == name && step.class == Class::Pivot)
    };
    let took_effect = |step: &&StepTold| step.side == "act" && step.outcome.as_deref() == Some("ok") && is_pivot(&step.step);
    migration.steps.iter().find(took_effect)?.ended_ms
}

/// Converts times to positions in the drawing.
struct Scale {
    from: u64,
    to: u64,
}

impl Scale {
    fn of(migration: &MigrationEnd) -> Scale {
        let ends = migration.steps.iter().map(|step| step.ended_ms.unwrap_or(step.begun_ms)).max().unwrap_or_default();
        Scale { from: migration.began_ms, to: migration.ended_ms.max(ends).max(migration.began_ms + 1) }
    }

    fn at(&self, ms: u64) -> f64 {
        let within = ms.clamp(self.from, self.to) - self.from;
        NAMES + WIDTH * within as f64 / (self.to - self.from) as f64
    }
}

fn bar(page: &mut String, scale: &Scale, row: usize, step: &StepTold) {
    let y = ROW * row as f64;
    let (from, to) = (scale.at(step.begun_ms), scale.at(step.ended_ms.unwrap_or(scale.to)));
    let class = match (step.outcome.as_deref(), step.ended_ms) {
        (_, None) => "open",
        (Some("ok"), _) if step.side == "undo" => "undo",
        (Some("ok"), _) => "ok",
        (Some("timeout" | "unknown"), _) => "unknown",
        _ => "failed",
    };
    let side = if step.side == "undo" { "undo " } else { "" };
    let told = format!(
        "{}{}: {} from {} to {}{}",
        side,
        step.step,
        step.outcome.as_deref().unwrap_or("no end"),
        seconds(step.begun_ms),
        step.ended_ms.map_or_else(|| "?".into(), seconds),
        step.error.as_ref().map_or_else(String::new, |why| format!(" ({why})"))
    );
    let _ = writeln!(
        page,
        "<line class=\"grid\" x1=\"0\" x2=\"{:.0}\" y1=\"{line:.0}\" y2=\"{line:.0}\"/><text x=\"0\" y=\"{:.0}\">{}{} <tspan>{}</tspan></text><rect class=\"{class}\" x=\"{from:.1}\" y=\"{:.0}\" width=\"{:.1}\" height=\"{:.0}\" rx=\"2\"><title>{}</title></rect>",
        NAMES + WIDTH,
        y + ROW - 5.0,
        side,
        escaped(&step.step),
        step.attempt,
        y + 3.0,
        (to - from).max(2.0),
        ROW - 6.0,
        escaped(&told),
        line = y + ROW,
    );
}

fn others(page: &mut String, findings: &Findings) {
    let quiet: Vec<&MigrationEnd> =
        findings.migrations.iter().filter(|migration| !migration.is_move() && migration.faults.is_empty()).collect();
    if quiet.is_empty() {
        return;
    }
    page.push_str(
        "<h2>Operations that no fault met</h2>\n<div class=\"wide\"><table><tr><th>at</th><th>took</th><th>what</th><th>server</th><th>end</th></tr>\n",
    );
    for one in quiet {
        let _ = writeln!(
            page,
            "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            seconds(one.began_ms),
            seconds(one.ended_ms.saturating_sub(one.began_ms)),
            escaped(&one.saga),
            short(one.server),
            escaped(&one.state)
        );
    }
    page.push_str("</table></div>\n");
}

#[cfg(test)]
mod tests;
