//! Checks the step tables in docs/behaviour/: each saga has one, with its steps in the code's order and their classes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use cellshift::saga::step::{Class, Step};
use cellshift::saga::tables;
use regex::Regex;

/// A heading of a step table: `### Confirm (`confirm`)`.
static HEADING: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^### .*\(`([a-z_]+)`\)$").expect("a pattern"));
/// A row that names one step or several: "| `accept`, `begin` | reversible | …".
static ROW: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \| ([^|]+) \|").expect("a pattern"));

/// Returns the steps of each saga that a page describes, with their classes, as `accept: reversible`.
fn described(page: &str) -> BTreeMap<String, Vec<String>> {
    let (mut sagas, mut saga) = (BTreeMap::<String, Vec<String>>::new(), None);
    for line in page.lines() {
        if line.starts_with('#') {
            saga = HEADING.captures(line).map(|heading| heading[1].to_owned());
        }
        let (Some(saga), Some(row)) = (&saga, ROW.captures(line)) else { continue };
        let steps = row[1].split(", ").map(|name| format!("{}: {}", name.trim_matches('`'), &row[2]));
        sagas.entry(saga.clone()).or_default().extend(steps);
    }
    sagas
}

fn as_described(step: &Step) -> String {
    let class = match step.class {
        Class::Reversible => "reversible",
        Class::Pivot => "pivot",
        Class::Forward => "forward",
        Class::Cleanup => "clean-up",
    };
    let tries = if step.tries > 1 { format!(", tried {} times", step.tries) } else { String::new() };
    format!("{}: {class}{tries}", step.name)
}

#[test]
fn pages_name_the_steps_of_each_saga_with_their_classes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/behaviour");
    let pages = fs::read_dir(folder).expect("the pages").map(|page| fs::read_to_string(page.expect("a page").path()).expect("text"));
    let mut sagas: BTreeMap<String, Vec<String>> = pages.flat_map(|page| described(&page)).collect();
    for (name, table) in tables::ALL {
        let steps: Vec<String> = table.steps.iter().map(as_described).collect();
        assert_eq!(sagas.remove(*name), Some(steps), "the table of {name}");
    }
    assert!(sagas.is_empty(), "no saga has these names: {:?}", sagas.keys());
}

#[test]
fn a_row_may_name_several_steps() {
    let page = "### Stop (`stop`)\n| step | class |\n|---|---|\n| `accept`, `begin` | reversible | x |\n## Else\n| `other` | forward | x |";
    assert_eq!(described(page), BTreeMap::from([("stop".to_owned(), vec!["accept: reversible".into(), "begin: reversible".into()])]));
}
