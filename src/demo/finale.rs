//! The end: the audit of everything, one line of summary, and where to go from there.

use tokio::time::Instant;

use super::DemoError;

use super::narrator::Narrator;
use super::stage::Stage;
use crate::client::audit::deep_audit;
use crate::domain::counted::counted;
use crate::timeline::wrapped;

/// Audits the cloud. Fails unless it is clean and all parts answered.
pub async fn audit(stage: &Stage, began: Instant) -> Result<(), DemoError> {
    let narrator = &stage.narrator;
    narrator.heading("The audit");
    narrator.say(
        "Is anything left behind anywhere? The audit compares the databases of both cells, the services and the hosts with each \
         other, and reads every image, volume and disk to see that it holds what was written to it.",
    );
    let report = deep_audit(&stage.admin, |_| {}).await?;
    for line in report.to_string().lines().flat_map(|line| wrapped(line, 88)) {
        narrator.line(&format!("    {line}"));
    }
    let wrong = |what: String| Err(DemoError::Wrong(what));
    if let Some(first) = report.violations.first() {
        return wrong(format!("the audit found {}, the first being {first}", counted(report.violations.len(), "violation")));
    }
    if let Some(silent) = report.checked.unreachable.first() {
        return wrong(format!("the audit had no answer from {silent}"));
    }
    if let Some(debt) = report.checked.debts.first() {
        return wrong(format!("{} of {} is still owed", debt.side, debt.step));
    }
    narrator.line("");
    let count = |name: &str| report.checked.counts.get(name).copied().unwrap_or_default();
    narrator.good(&format!(
        "{} servers, {} operations, {} invariants checked, nothing lost and nothing left over, in {:.1} s",
        count("servers"),
        count("sagas"),
        report.checked.invariants.len(),
        began.elapsed().as_secs_f32()
    ));
    narrator.line("");
    Ok(())
}

/// Says where to go from here.
pub fn what_next(narrator: &Narrator) {
    narrator.heading("What next");
    narrator.say("This cloud is gone. Serve one of your own, and move a server with the openstack command; it says how:");
    narrator.line("    cellshift serve --dev");
    narrator.say("Or break one, from a file that names the faults and what must hold:");
    narrator.line("    cellshift chaos run experiments/conductor-dies-at-the-pivot.toml --html verdict.html");
    narrator.line("");
}
