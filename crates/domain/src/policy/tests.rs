//! Tests of the rights that rules give, and of refused sets of rules.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::expression::Expression;
use super::*;

fn caller(roles: &[&str]) -> RequestContext {
    RequestContext {
        user_id: "alice".into(),
        project_id: "demo".into(),
        roles: roles.iter().map(|r| (*r).to_owned()).collect(),
        ..RequestContext::default()
    }
}

fn overrides(rules: &[(&str, &str)]) -> BTreeMap<String, String> {
    rules.iter().map(|(n, t)| ((*n).to_owned(), (*t).to_owned())).collect()
}

fn allows(text: &str, roles: &[&str], target: Target<'_>) -> bool {
    let policy = Policy::new(&overrides(&[("mine", text)])).unwrap();
    policy.check("mine", &caller(roles), &target)
}

const OWN: Target<'_> = Target { project_id: "demo", user_id: "alice" };
const OTHER: Target<'_> = Target { project_id: "other", user_id: "bob" };

#[test]
fn the_language_means_what_it_says() {
    for (text, member_own, member_other, admin_other) in [
        ("", true, true, true),
        ("@", true, true, true),
        ("!", false, false, false),
        ("not !", true, true, true),
        ("role:admin", false, false, true),
        ("role:ADMIN", false, false, true),
        ("role:member and project_id:%(project_id)s", true, false, false),
        ("role:member and project_id:%(project_id)s or role:admin", true, false, true),
        ("role:admin or role:member and project_id:%(project_id)s", true, false, true),
        ("(role:admin or role:member) and project_id:%(project_id)s", true, false, false),
        ("user_id:%(user_id)s", true, false, false),
        ("not user_id:%(user_id)s", false, true, true),
        ("project_id:demo", true, true, true),
        ("'demo':%(project_id)s", true, false, false),
        ("is_admin:True", false, false, true),
        ("rule:context_is_admin OR NOT rule:admin_api", true, true, true),
        ("system_scope:all", false, false, false),
    ] {
        assert_eq!(allows(text, &["member", "reader"], OWN), member_own, "{text}: member, own");
        assert_eq!(allows(text, &["member", "reader"], OTHER), member_other, "{text}: member, other's");
        assert_eq!(allows(text, &["admin"], OTHER), admin_other, "{text}: admin, other's");
    }
}

#[test]
fn nobody_owns_what_has_no_owner() {
    let mut nobody = caller(&["member"]);
    nobody.project_id.clear();
    let policy = Policy::new(&BTreeMap::new()).unwrap();
    assert!(!policy.check("os_compute_api:servers:show", &nobody, &Target::default()));
}

#[test]
fn defaults_are_novas() {
    let policy = Policy::new(&BTreeMap::new()).unwrap();
    let check = |rule: &str, roles: &[&str], target| policy.check(rule, &caller(roles), &target);
    assert!(check("os_compute_api:servers:create", &["member", "reader"], OWN));
    assert!(!check("os_compute_api:servers:create", &["reader"], OWN));
    assert!(check("os_compute_api:servers:show", &["reader"], OWN));
    assert!(!check("os_compute_api:servers:show", &["reader"], OTHER));
    assert!(check("os_compute_api:servers:show", &["admin", "manager", "member", "reader"], OTHER));
    assert!(check("os_compute_api:os-migrate-server:migrate", &["manager", "member", "reader"], OWN));
    assert!(!check("os_compute_api:os-migrate-server:migrate", &["member", "reader"], OWN));
    assert!(!check("os_compute_api:os-migrate-server:migrate:host", &["manager", "member", "reader"], OWN));
    assert!(!check("compute:servers:resize:cross_cell", &["admin", "manager", "member", "reader"], OWN), "nobody until a file says so");
    assert!(!check("ops:cells", &["member"], OWN));
    assert!(!check("no:such:rule", &["admin"], OWN));
}

#[test]
fn a_file_changes_rules_by_name_and_adds_its_own() {
    let rules = overrides(&[("movers", "role:mover or rule:context_is_admin"), ("compute:servers:resize:cross_cell", "rule:movers")]);
    let policy = Policy::new(&rules).unwrap();
    assert!(policy.check("compute:servers:resize:cross_cell", &caller(&["mover"]), &OTHER));
    assert!(!policy.check("compute:servers:resize:cross_cell", &caller(&["member"]), &OTHER));
}

#[test]
fn a_bad_set_is_refused_with_the_rules_name() {
    for (rules, rule, part) in [
        (overrides(&[("mine", "role:admin or")]), "mine", "missing at its end"),
        (overrides(&[("mine", "(role:admin")]), "mine", "\")\" is missing"),
        (overrides(&[("mine", "role:admin role:member")]), "mine", "not expected"),
        (overrides(&[("mine", "and role:member")]), "mine", "where a check is expected"),
        (overrides(&[("mine", "admin")]), "mine", "no check"),
        (overrides(&[("mine", "role:")]), "mine", "nothing after the colon"),
        (overrides(&[("mine", "colour:red")]), "mine", "not known"),
        (overrides(&[("mine", "project_id:%(colour)s")]), "mine", "has no"),
        (overrides(&[("mine", "project_id:%(project_id")]), "mine", "not closed"),
        (overrides(&[("mine", "'x:%(project_id)s")]), "mine", "not closed"),
        (overrides(&[("mine", "rule:nothere")]), "mine", "does not exist"),
        (overrides(&[("a", "rule:b"), ("b", "not rule:c"), ("c", "rule:a or @")]), "a", "a -> b -> c -> a"),
        (overrides(&[("a", "rule:a")]), "a", "a -> a"),
        (overrides(&[("os_compute_api:servers:craete", "@")]), "os_compute_api:servers:craete", "misspelt"),
        (overrides(&[("mine", &"(".repeat(10_000))]), "mine", "nests deeper"),
    ] {
        let error = Policy::new(&rules).unwrap_err();
        assert_eq!(error.rule, rule);
        assert!(error.reason.contains(part), "{error}");
    }
}

proptest! {
    #[test]
    fn parsing_never_panics(text in "\\PC*") {
        let _ = Expression::parse(&text);
    }

    #[test]
    fn parsing_of_likely_texts_never_panics(words in proptest::collection::vec(
        prop::sample::select(vec!["role:a", "rule:b", "and", "or", "not", "(", ")", "!", "@", "'", "\"", ":", "%(", ")s", "'x':%(user_id)s", "é:é", " "]), 0..40)) {
        let _ = Expression::parse(&words.concat());
        let _ = Expression::parse(&words.join(" "));
    }
}
