//! Tests of the catalog as tokens show it.

use cellshift_embedded::identity::catalog::view::{Reader, filled};

#[test]
fn an_endpoint_of_projects_is_shown_with_a_project_only() {
    let of = |project_id| Reader { user_id: "u", project_id };
    assert_eq!(filled("http://a/v1/$(project_id)s/%(user_id)s", &of(Some("p"))).as_deref(), Some("http://a/v1/p/u"));
    assert_eq!(filled("http://a/v1/AUTH_%(tenant_id)s", &of(Some("p"))).as_deref(), Some("http://a/v1/AUTH_p"));
    assert_eq!(filled("http://a/v1/$(project_id)s", &of(None)), None);
    assert_eq!(filled("http://a/v1", &of(None)).as_deref(), Some("http://a/v1"));
}
