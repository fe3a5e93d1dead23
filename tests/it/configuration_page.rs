//! docs/CONFIGURATION.md names each option, and `cellshift config` explains it.

use std::path::Path;

use cellshift::config::{Config, reference};
use serde_json::Value;

use crate::service::run;

const PAGE: &str = "docs/CONFIGURATION.md";
const BEGIN: &str = "<!-- Made from src/config: CELLSHIFT_WRITE_DOCS=1 cargo test --test it configuration_page -->\n";

#[test]
fn the_page_names_every_option() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = std::fs::read_to_string(&path).expect("a page");
    let (by_hand, made) = page.split_once(BEGIN).expect("the place of the tables");
    let expected = reference::markdown().expect("the tables");
    if std::env::var_os("CELLSHIFT_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{by_hand}{BEGIN}{expected}")).expect("the page is written");
        return;
    }
    let differing = made.lines().zip(expected.lines()).find(|(made, expected)| made != expected);
    assert!(made == expected, "{PAGE} is stale, first in {differing:?}: make it anew with the command that it names");
}

#[test]
fn a_configuration_is_explained_and_read_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, explained) = (dir.path().join("a.toml"), dir.path().join("b.toml"));
    std::fs::write(&file, "[database]\napi = \"postgres://u:secret@h/d\"\n[migration]\nlease = 5\n").expect("a file");
    let shown = run(&["config", "--explain", "--config", file.to_str().expect("a path")]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    assert!(shown.stdout.contains("postgres://u:***@h/d") && !shown.stdout.contains("secret"), "{}", shown.stdout);
    assert!(shown.stdout.contains("# The length of a conductor's lease on an operation.") && shown.stdout.contains("\nlease = 5\n"));
    std::fs::write(&explained, &shown.stdout).expect("a file");
    let plain = |file: &Path| run(&["config", "--config", file.to_str().expect("a path")]).stdout;
    assert_eq!(plain(&explained), plain(&file));

    let schema: Value = serde_json::from_str(&run(&["config", "--schema"]).stdout).expect("JSON");
    let lease = &schema["properties"]["migration"]["properties"]["lease"];
    let default = serde_json::to_value(Config::default()).expect("a configuration");
    assert_eq!((&lease["type"], &lease["default"]), (&"number".into(), &default["migration"]["lease"]), "{lease:#}");
}
