//! A verdict for a terminal.

use std::fmt::Write as _;

use super::short;
use super::verdict::{Conclusion, Findings, MigrationEnd, Mode, Recovery, Verdict};
use crate::domain::counted::counted;

/// Formats milliseconds as seconds.
pub fn seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1000, ms % 1000)
}

/// Returns the word for a conclusion.
pub fn word(conclusion: Conclusion) -> &'static str {
    match conclusion {
        Conclusion::Held => "HELD",
        Conclusion::Broken => "BROKEN",
        Conclusion::Incomplete => "INCOMPLETE",
    }
}

/// Says how the run was made.
pub fn made(findings: &Findings) -> String {
    match findings.mode {
        Mode::Simulation => format!("simulated under seed {} over {} of virtual time", findings.seed, seconds(findings.elapsed_ms)),
        Mode::Live => format!("run live under seed {} over {}", findings.seed, seconds(findings.elapsed_ms)),
        Mode::Service => format!("run on a service over {}", seconds(findings.elapsed_ms)),
        Mode::Cluster => format!("run on a cluster of processes over {}", seconds(findings.elapsed_ms)),
    }
}

/// Says how long the operations took that a fault met.
pub fn recovered(recovery: &Recovery) -> String {
    format!(
        "Recovery of the {} that a fault met: median {}, 99th percentile {}, longest {}",
        counted(recovery.migrations, "operation"),
        seconds(recovery.median_ms),
        seconds(recovery.p99_ms),
        seconds(recovery.longest_ms)
    )
}

/// Returns the whole verdict. Writing to a String cannot fail.
pub fn text(verdict: &Verdict) -> String {
    let findings = &verdict.findings;
    let mut text = format!("{}\n{}\n\n", verdict.title, made(findings));
    faults(&mut text, verdict);
    migrations(&mut text, findings);
    let _ = writeln!(text, "What had to hold:");
    let clean = if findings.violations.is_empty() { "held" } else { "BROKEN" };
    let _ = writeln!(text, "  invariants, during the run and at rest: {clean}");
    for violation in &findings.violations {
        let _ = writeln!(text, "    {violation}");
    }
    for silent in &findings.unreachable {
        let _ = writeln!(text, "    no answer: {silent}");
    }
    for expectation in &verdict.expectations {
        let met = if expectation.met { "held" } else { "BROKEN" };
        let _ = writeln!(text, "  {}: {} (wanted: {}): {met}", expectation.what, expectation.result, expectation.requirement);
    }
    if let Some(why) = &findings.aborted {
        let _ = writeln!(text, "  the experiment gave up: {why}");
    }
    match &verdict.recovery {
        None => text.push_str("\nNo fault met a migration.\n"),
        Some(recovery) => {
            let _ = writeln!(text, "\n{}", recovered(recovery));
        }
    }
    let _ = writeln!(text, "\nVerdict: {}", word(verdict.conclusion));
    text
}

fn faults(text: &mut String, verdict: &Verdict) {
    let _ = writeln!(text, "Faults injected: {}", verdict.findings.injected.len());
    for fault in &verdict.findings.injected {
        let place = match (&fault.step, fault.saga) {
            (Some(step), Some(saga)) => format!(", at {step} of {}", short(saga)),
            _ => String::new(),
        };
        let over = fault.over_ms.map_or_else(String::new, |over| format!(", over at {}", seconds(over)));
        let failed = fault.failed.as_ref().map_or_else(String::new, |why| format!(": it could not happen: {why}"));
        let _ = writeln!(text, "  {:>10}  {}{place}{over}{failed}", seconds(fault.at_ms), fault.what);
    }
    for fault in &verdict.not_injected {
        let _ = writeln!(text, "       never  {fault}");
    }
    text.push('\n');
}

fn migrations(text: &mut String, findings: &Findings) {
    let moves: Vec<&MigrationEnd> = findings.migrations.iter().filter(|migration| migration.is_move()).collect();
    let arrived = moves.iter().filter(|migration| migration.arrived()).count();
    let others = findings.migrations.len() - moves.len();
    let _ = writeln!(text, "Moves: {}, of which {arrived} arrived; other operations: {others}", moves.len());
    for migration in findings.migrations.iter().filter(|migration| migration.is_move() || !migration.faults.is_empty()) {
        let met = match migration.faults.len() {
            0 => String::new(),
            faults => format!(", met {}, recovered in {}", counted(faults, "fault"), seconds(migration.recovery_ms.unwrap_or_default())),
        };
        let why = migration.error.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let _ = writeln!(
            text,
            "  {:>10}  {} {} of server {}: {} after {}{met}{why}",
            seconds(migration.began_ms),
            migration.saga,
            short(migration.uuid),
            short(migration.server),
            migration.state,
            seconds(migration.ended_ms.saturating_sub(migration.began_ms)),
        );
    }
    text.push('\n');
}
