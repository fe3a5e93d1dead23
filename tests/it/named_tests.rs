//! Checks that the tests which documents name as proof exist.

use std::path::{Path, PathBuf};

use regex::Regex;

/// Documents with tables whose last column names tests.
const DOCUMENTS: [&str; 4] = ["docs/DOWN-CELLS.md", "docs/NOVA-DIFFERENCES.md", "docs/NOVA-TESTS.md", "docs/behaviour/guaranteed-ports.md"];
/// The failure tests, which are named after sagas.
const HARNESS: &str = "faults";

fn text_of(path: impl AsRef<Path>) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the names of the tests in a file.
fn tests_in(text: &str) -> Vec<String> {
    let test = Regex::new(r"(?m)^\s*#\[(?:test|[a-z_]+::test(?:\([^\n]*\))?)\]\n(?:\s*#\[[^\n]*\n)*\s*(?:async )?fn ([a-z0-9_]+)\(")
        .expect("a pattern");
    test.captures_iter(text).map(|captures| captures[1].to_owned()).collect()
}

/// Returns the file of a module of the integration tests.
fn file_of(module: &str) -> Option<PathBuf> {
    let below = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(module.replace("::", "/"));
    [below.with_extension("rs"), below.join("mod.rs")].into_iter().find(|file| file.is_file())
}

/// Returns the reason if there is no test `module::test`.
pub fn objection(name: &str) -> Option<String> {
    let (module, test) = name.rsplit_once("::").expect("a path");
    if module == HARNESS {
        let saga = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/saga/tables").join(test).with_extension("rs");
        return (!saga.is_file()).then(|| format!("{name}: there is no such saga"));
    }
    let Some(file) = file_of(module) else { return Some(format!("{name}: there is no such file")) };
    let tests = tests_in(&text_of(file));
    let is_there = if test == "*" { !tests.is_empty() } else { tests.iter().any(|one| one == test) };
    (!is_there).then(|| format!("{name}: there is no such test"))
}

#[test]
fn every_test_that_a_document_names_is_there() {
    let ours = Regex::new(r"`([a-z0-9_]+(?:::[a-z0-9_]+)*::(?:[a-z0-9_]+|\*))`").expect("a pattern");
    let unit = Regex::new(r"`(src/[a-z0-9_/]+\.rs): ([a-z0-9_]+)`").expect("a pattern");
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for document in DOCUMENTS {
        let text = text_of(document);
        for name in ours.captures_iter(&text) {
            wrong.extend(objection(&name[1]).map(|why| format!("{document}: {why}")));
            seen += 1;
        }
        for name in unit.captures_iter(&text) {
            seen += 1;
            if !tests_in(&text_of(&name[1])).contains(&name[2].to_owned()) {
                wrong.push(format!("{document}: {}: there is no test {}", &name[1], &name[2]));
            }
        }
    }
    assert!(wrong.is_empty(), "tests that are named and are not there:\n{}", wrong.join("\n"));
    assert!(seen > 100, "the names are found at all: {seen}");
}

#[test]
fn a_missing_test_is_noticed() {
    assert_eq!(objection("named_tests::a_missing_test_is_noticed"), None);
    assert_eq!(objection("down_cells::lists::*"), None);
    for missing in ["named_tests::nothing", "nowhere::nothing", "stage::*", "faults::nothing", "named_tests::objection"] {
        assert!(objection(missing).is_some(), "{missing}");
    }
}
