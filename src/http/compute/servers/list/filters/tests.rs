//! Tests of the table of parameters.

use actix_web::test::TestRequest;

use super::{Filters, Form, PARAMETERS, Parameter};
use crate::domain::context::RequestContext;
use crate::domain::instance_filter::InstanceFilter;
use crate::domain::microversion::Microversion;
use crate::http::compute::query::Query;
use crate::http::microversion::ApiVersion;
use crate::policy_file::PolicyFile;

fn caller(role: &str) -> RequestContext {
    RequestContext { project_id: "demo".into(), roles: vec![role.into()], ..RequestContext::default() }
}

/// Returns the filter of a query, or the message that refuses the query.
fn read(query: &str, role: &str, minor: u16) -> Result<InstanceFilter, String> {
    let query = Query::of(&TestRequest::with_uri(&format!("/servers?{query}")).to_http_request()).unwrap();
    let policy = PolicyFile::built_in().unwrap();
    let filters = Filters { policy: &policy, caller: &caller(role), version: ApiVersion(Microversion::new(2, minor)), query: &query };
    filters.read("index").map(Option::unwrap).map_err(|error| error.message)
}

fn sets_something(query: &str, role: &str, minor: u16) -> bool {
    let (with, without) = (read(query, role, minor).unwrap(), read("", role, minor).unwrap());
    format!("{with:?}") != format!("{without:?}")
}

/// Returns a valid value. None for parameters without a field of their own.
fn sample(parameter: &Parameter) -> Option<&'static str> {
    match parameter.form {
        Form::Text(_) | Form::Pattern(_) | Form::Tags(_) => Some("x"),
        Form::Number(_) | Form::PowerState => Some("1"),
        Form::Flag(_) => Some("true"),
        Form::Bound(_) | Form::Time(_) => Some("2026-01-01T00:00:00Z"),
        Form::VmState => Some("active"),
        Form::TaskState => Some("None"),
        Form::Uuid => Some("7f3c0a52-5ad5-4f5e-9f5c-0c6c6b1f2a10"),
        Form::Combined | Form::WithoutEffect => None,
    }
}

#[test]
fn each_parameter_with_a_field_sets_it() {
    for parameter in PARAMETERS {
        let Some(value) = sample(parameter) else { continue };
        assert!(sets_something(&format!("{}={value}", parameter.name), "admin", 104), "{}", parameter.name);
    }
}

#[test]
fn a_parameter_works_for_its_users_in_their_versions() {
    for (query, minor, member, admin) in [
        ("name=x", 1, true, true),
        ("host=x", 104, false, true),
        ("locked=true", 72, false, false),
        ("locked=true", 73, true, true),
        ("key_name=x", 82, false, true),
        ("key_name=x", 83, true, true),
        ("hostname=x", 89, false, true),
        ("hostname=x", 90, true, true),
        ("kernel_id=x", 104, false, false),
    ] {
        assert_eq!(sets_something(query, "member", minor), member, "{query} at 2.{minor} for a member");
        assert_eq!(sets_something(query, "admin", minor), admin, "{query} at 2.{minor} for an administrator");
    }
}

#[test]
fn the_first_of_two_names_for_a_field_wins() {
    let name = |query| read(query, "admin", 104).unwrap().name.unwrap().as_str().to_owned();
    assert_eq!(name("display_name=b&name=a"), "a");
    assert_eq!(name("display_name=b"), "b");
    let refused = read("display_name=[&name=a", "admin", 104).unwrap_err();
    assert_eq!(refused, "Invalid filter field: display_name.");
}

#[test]
fn the_answer_names_the_first_wrong_value() {
    let period = "changes-before=2025-01-01T00:00:00Z&changes-since=2026-01-01T00:00:00Z";
    let refused = read(&format!("progress=x&name=[&{period}"), "admin", 104).unwrap_err();
    assert_eq!(refused, "The value of changes-since must be less than or equal to changes-before.");
    assert_eq!(read("progress=x&name=[", "admin", 104).unwrap_err(), "Invalid filter field: name.");
    assert_eq!(
        read("progress=x&nonsense=1", "admin", 75).unwrap_err(),
        "Additional properties are not allowed ('nonsense' was unexpected)"
    );
    assert_eq!(read("progress=x&nonsense=1", "admin", 74).unwrap_err(), "Invalid filter field: progress.");
}
