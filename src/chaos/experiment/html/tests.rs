//! Tests that the page shows the findings, is self-contained, and escapes all texts.

use uuid::Uuid;

use super::timeline::{EDGE, NAMES, WIDTH};
use super::*;
use crate::chaos::experiment::record::Injected;
use crate::chaos::experiment::scenario::Scenario;
use crate::chaos::experiment::verdict::{Mode, StepReport};

const HOSTILE: &str = "</title><script src=\"https://example.org/x.js\">alert('1')</script>&";

fn step(name: &str, side: &str, outcome: Option<&str>, begun_ms: u64, ended_ms: Option<u64>) -> StepReport {
    StepReport {
        step: name.into(),
        side: side.into(),
        attempt: 1,
        outcome: outcome.map(str::to_owned),
        error: outcome.filter(|outcome| *outcome != "ok").map(|_| HOSTILE.to_owned()),
        begun_ms,
        ended_ms,
    }
}

fn verdict() -> Verdict {
    let mut migration = MigrationEnd {
        uuid: Uuid::from_u128(1),
        server: Uuid::from_u128(2),
        saga: "resize".into(),
        state: "unwound".into(),
        error: Some(HOSTILE.into()),
        began_ms: 100,
        ended_ms: 900,
        steps: vec![
            step("accept", "act", Some("ok"), 100, Some(150)),
            step("record_migration", "act", Some("failed"), 150, Some(300)),
            step("record_migration", "act", Some("unknown"), 300, None),
            step("record_migration", "undo", Some("ok"), 500, Some(900)),
        ],
        faults: Vec::new(),
        recovery_ms: None,
    };
    let injected = vec![Injected { at_ms: 200, what: HOSTILE.into(), ..Injected::default() }];
    migration.met(&injected);
    let findings = Findings {
        mode: Mode::Simulation,
        seed: 1,
        elapsed_ms: 1_000,
        lives: 1,
        injected,
        migrations: vec![migration],
        violations: Vec::new(),
        unreachable: vec![HOSTILE.into()],
        answers: Default::default(),
        servers_in_error: 0,
        aborted: Some(HOSTILE.into()),
    };
    let scenario = Scenario { title: HOSTILE.into(), description: HOSTILE.into(), ..Scenario::default() };
    Verdict::of(&scenario, &[], findings)
}

fn origin() -> Origin {
    Origin { at: DateTime::from_timestamp(0, 0).unwrap(), again: Some(format!("cellshift chaos run {HOSTILE} --seed 1")) }
}

#[test]
fn the_page_says_how_to_see_it_again_and_when_it_was_made() {
    let page = page(&verdict(), &origin());
    assert!(page.contains("--seed 1</code>") && page.contains(&format!("cellshift {}, 1970-01-01", env!("CARGO_PKG_VERSION"))), "{page}");
    assert!(page.contains("name=\"viewport\"") && page.contains("prefers-color-scheme:dark") && page.contains("color-scheme:light dark"));
}

#[test]
fn the_pivot_is_marked_and_the_last_mark_is_not_at_the_edge() {
    let mut verdict = verdict();
    let migration = &mut verdict.findings.migrations[0];
    migration.steps.push(step("take_ownership", "act", Some("failed"), 500, Some(600)));
    assert!(!page(&verdict, &origin()).contains("class=\"pivot\""), "it did not take effect");
    verdict.findings.migrations[0].steps.push(step("take_ownership", "act", Some("ok"), 600, Some(900)));
    let page = page(&verdict, &origin());
    let end = NAMES + WIDTH;
    assert!(page.contains(&format!("<line class=\"pivot\" x1=\"{end:.1}\"")), "{page}");
    assert!(page.contains(&format!("viewBox=\"0 0 {:.0} ", end + EDGE)), "{page}");
}

#[test]
fn the_page_has_each_step_and_fault_in_its_place() {
    let page = page(&verdict(), &origin());
    let (from, to) = (NAMES, NAMES + WIDTH);
    assert!(page.contains(&format!("<rect class=\"ok\" x=\"{from:.1}\"")), "accept begins at the left");
    assert!(page.contains("<rect class=\"failed\"") && page.contains("<rect class=\"open\"") && page.contains("<rect class=\"undo\""));
    let fault = from + WIDTH / 8.0;
    assert!(page.contains(&format!("<line class=\"fault\" x1=\"{fault:.1}\"")), "an eighth of the way");
    assert!(page.contains(&format!("<text x=\"{to:.0}\"")) && page.contains("0.900 s"));
    assert!(page.contains("undo record_migration") && page.contains("recovered") || page.contains("Recovery of the 1 operation "));
    assert!(page.contains("INCOMPLETE"));
}

#[test]
fn the_page_is_whole_by_itself_and_everything_is_escaped() {
    let page = page(&verdict(), &origin());
    assert!(!page.contains("<script") && page.contains("&#60;script src=&#34;https://example.org/x.js&#34;&#62;alert(&#39;1&#39;)"));
    for outside in [" src=\"", " href=", "url(", "@import", "<link", "<img", "<iframe"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for element in ["html", "head", "style", "title", "body", "table", "svg", "h3", "p"] {
        let (opened, closed) = (
            page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count(),
            page.matches(&format!("</{element}>")).count(),
        );
        assert_eq!(opened, closed, "{element}");
    }
}
