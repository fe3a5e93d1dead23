//! Checks that errors are values: no source decides by an error's text, and no message to a caller is made of an error's whole text, which has
//! parts for operators alone. Reads the sources as text.

use regex::Regex;

use crate::layers::{Source, code, sources};

/// The names that sources give to errors and to their texts.
const ERRORS: &str = r"\b(?:why|error|err|message|reason|refusal|refused|failure|fault|cause|detail)";

/// The files that decide by words, each with the reason why there is no value to decide by.
const DECIDERS: &[(&str, &str)] = &[
    ("crates/store/src/error.rs", "SQLite and PostgreSQL say only in words that a disk is full"),
    ("src/cli/chaos_service.rs", "the answer of another process: an older one has the status and words alone"),
];

/// The files that make messages of errors whose whole text is for callers, each with the errors.
const TELLERS: &[(&str, &str)] = &[
    ("crates/embedded/src/identity/mod.rs", "token keys that cannot be opened: all of it becomes an inner part"),
    ("crates/embedded/src/identity/tokens/routes.rs", "one fixed sentence for all wrong credentials"),
    ("crates/embedded/src/volume/processes/routes.rs", "a body that does not fit"),
    ("crates/embedded/src/volume/routes.rs", "a body that does not fit"),
    ("crates/web/src/limits.rs", "a query that cannot be read"),
    ("src/http/compute/assisted_volume_snapshots.rs", "a value of the request that is no JSON"),
    ("src/http/compute/body/mod.rs", "a body that its schema allows and that does not fit its type"),
    ("src/http/compute/query.rs", "a query that cannot be read"),
    ("src/http/compute/servers/new_ports.rs", "PortRefusal, a sentence of Nova's without a cause"),
    ("src/http/ops/chaos.rs", "a body that does not fit, and refusals of experiments to operators"),
    ("src/http/ui/session.rs", "one fixed sentence for all wrong credentials"),
];

/// Returns the program's sources without comments and unit tests, which stand at a module's end.
fn program() -> Vec<Source> {
    let of_tests =
        |source: &Source| source.module.iter().any(|part| part.ends_with("tests") || part.starts_with("tests_") || part == "fixture");
    let all = [sources("src"), sources("crates")].concat();
    let whole = all.into_iter().filter(|source| !of_tests(source));
    whole.map(|source| Source { text: code(source.text.split("#[cfg(test)]").next().unwrap_or_default()), ..source }).collect()
}

/// Checks that exactly these files have something that the pattern finds.
fn occurs_only_in(pattern: &str, allowed: &[(&str, &str)], advice: &str) {
    let pattern = Regex::new(pattern).expect("a pattern");
    let (mut wrong, mut unused) = (Vec::new(), allowed.iter().map(|(file, _)| *file).collect::<Vec<_>>());
    for source in program() {
        let file = source.path.strip_prefix(env!("CARGO_MANIFEST_DIR")).expect("inside").display().to_string();
        let Some(place) = pattern.find(&source.text) else { continue };
        match allowed.iter().any(|(name, _)| *name == file) {
            true => unused.retain(|name| *name != file),
            false => wrong.push(format!("{file}: {}", place.as_str())),
        }
    }
    assert!(wrong.is_empty(), "{advice}:\n{}", wrong.join("\n"));
    assert!(unused.is_empty(), "nothing is allowed here any more: {unused:?}");
}

/// Finds a decision by the text of an error.
fn decision() -> String {
    let end = r#"(?:starts_with|ends_with|contains|strip_prefix|strip_suffix|split_once|find)\((?:"|'|\w)"#;
    let equal = r#"(?:\.(?:as_str|as_deref|to_string|for_users)\(\))? [!=]= (?:"|[A-Z][A-Z_]+\b)"#;
    format!(r"{ERRORS}(?:\.\w+\(\))*(?:\.{end}|{equal})")
}

/// Finds a message to a caller that is made of an error's whole text.
fn telling() -> String {
    let maker = r"\b(?:bad_request|forbidden|not_found|conflict|unavailable|invalid|ApiError::new|ServiceError::\w+|Reason::public)\(";
    let whole = r#"(?:\b(?:error|refusal)\.to_string\(\)|format!\(\s*"[^"]*\{(?:error|refusal)\})"#;
    format!(r"{maker}[^;]*?{whole}")
}

#[test]
fn no_source_decides_by_an_errors_text() {
    occurs_only_in(&decision(), DECIDERS, "decisions by an error's text; give its Reason a ReasonCode (crates/domain/src/reason.rs)");
}

#[test]
fn no_message_to_callers_is_an_errors_whole_text() {
    occurs_only_in(&telling(), TELLERS, "messages with parts for operators alone; compose them with reason!");
}

#[test]
fn the_patterns_find_what_they_are_for() {
    let (decision, telling) = (Regex::new(&decision()).expect("a pattern"), Regex::new(&telling()).expect("a pattern"));
    for text in [
        "if why.starts_with(NO_VALID_HOST) {",
        "error.to_string().contains(\"disk\")",
        "matches!(&error, DbError::Conflict(reason) if reason == REFUSED)",
        "refusal.for_users() == \"gone\"",
    ] {
        assert!(decision.is_match(text), "{text}");
    }
    for text in ["why.code() == Some(ReasonCode::NoValidHost)", "hosts.contains(&host)", "words.find(|word| word.is_empty())"] {
        assert!(!decision.is_match(text), "{text}");
    }
    for text in
        ["unavailable(error.to_string())", "conflict(format!(\"it cannot be: {refusal}\"))", "ServiceError::Invalid(error.to_string())"]
    {
        assert!(telling.is_match(text), "{text}");
    }
    assert!(!telling.is_match("unavailable(reason!(\"{error}\"))") && !telling.is_match("log::warn!(\"{error}\")"));
}
