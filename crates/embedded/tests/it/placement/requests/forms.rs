//! Tests of what a microversion knows: parameters, fields of bodies, methods, and headers.

use actix_web::test::TestRequest;

use super::*;

const NOBODY: &str = "00000000-0000-0000-0000-000000000009";

fn detail(answer: &Answer) -> &str {
    answer.body["errors"][0]["detail"].as_str().unwrap_or_default()
}

/// A minor version, a method, a path, a body, the status of the answer, and words of its code and reason.
type Case<'a> = (u16, &'a str, &'a str, Option<Value>, u16, &'a str);

/// Sends each request, and checks its status, its code for programs and a part of its reason.
async fn check(api: &TestApi, rows: &[Case<'_>]) {
    for (minor, method, path, body, status, words) in rows {
        let answer = call(api, *minor, method, path, body.clone()).await;
        let code = answer.body["errors"][0]["code"].as_str().unwrap_or_default();
        let shown = format!("{code} {}", detail(&answer));
        assert!(answer.status == *status && shown.contains(words), "1.{minor} {method} {path} {body:?}: {} {shown}", answer.status);
    }
}

#[actix_web::test]
async fn a_query_has_the_parameters_of_its_version() {
    let api = api();
    let host = provider(&api, "host1", 4).await;
    let list = |query: &str| format!("resource_providers?{query}");
    let of = format!("member_of={NOBODY}");
    let twice = format!("{of}&{of}");
    let rows = [
        (29, list("colour=red"), 400, "Invalid query string parameters: Additional properties are not allowed ('colour' was unexpected)"),
        (2, list(&of), 400, "'member_of' was unexpected"),
        (3, list(&of), 200, ""),
        (23, list(&twice), 400, "placement.query.duplicate_key"),
        (24, list(&twice), 200, ""),
        (24, list(&format!("member_of={NOBODY},{NOBODY}")), 400, "must be prefixed with the 'in:'"),
        (24, list("member_of=in:"), 400, "valid UUID(s)"),
        (31, list(&format!("member_of=!{NOBODY}")), 400, "not supported in the specified microversion"),
        (32, list(&format!("member_of=!in:{NOBODY},{NOBODY}")), 200, ""),
        (3, list("resources=VCPU:1"), 400, "'resources' was unexpected"),
        (4, list("resources=VCPU:1"), 200, ""),
        (4, list("resources=VCPU"), 400, "Badly formed resources parameter"),
        (23, list("resources=VCPU"), 400, "placement.query.bad_value Badly formed resources parameter"),
        (4, list("resources="), 400, "Got: empty string"),
        (4, list("resources=VCPU:fred"), 400, "expected positive integer amount. Got: fred."),
        (4, list("resources=VCPU:-2"), 400, "requires amount >= 1. Got: -2."),
        (4, list("resources=NONE:1"), 400, "No such resource class NONE"),
        (17, list("required=HW_CPU_X86_SSE"), 400, "'required' was unexpected"),
        (18, list("required=HW_CPU_X86_SSE"), 200, ""),
        (18, list("required=NO_SUCH"), 400, "No such trait(s): NO_SUCH."),
        (21, list("required=!HW_CPU_X86_SSE"), 400, "of the form: HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: !HW_CPU_X86_SSE"),
        (22, list("required=!HW_CPU_X86_SSE"), 200, ""),
        (38, list("required=in:HW_CPU_X86_SSE,HW_CPU_X86_AVX"), 400, "only supported since microversion 1.39"),
        (39, list("required=in:HW_CPU_X86_SSE,HW_CPU_X86_AVX&required=!HW_CPU_X86_AVX2"), 200, ""),
        (39, list("uuid=x"), 400, "format of uuid"),
        (24, "allocation_candidates?required=HW_CPU_X86_SSE".to_owned(), 400, "orphaned traits keys: required"),
        (25, "allocation_candidates?resources=VCPU:1&resources0=VCPU:1".to_owned(), 400, "'^resources([1-9][0-9]*)?$'"),
        (31, "allocation_candidates?resources=VCPU:1&in_tree1=x".to_owned(), 400, "All request groups must specify resources"),
        (39, "allocation_candidates?resources=VCPU:1&group_policy=isolate&group_policy=none".to_owned(), 200, ""),
        (39, "traits?name=in_abc".to_owned(), 400, "Badly formatted name parameter"),
        (39, "traits?associated=maybe".to_owned(), 400, "only accepts"),
        (9, "usages?project_id=".to_owned(), 400, "minLength"),
        (9, "usages?user_id=alice".to_owned(), 400, "'project_id' is a required property"),
        (37, "usages?project_id=demo&consumer_type=all".to_owned(), 400, "'consumer_type' was unexpected"),
        (38, "usages?project_id=demo&consumer_type=server".to_owned(), 400, "does not match"),
    ];
    for (minor, path, status, words) in &rows {
        check(&api, &[(*minor, "GET", path, None, *status, words)]).await;
    }
    let path = format!("resource_providers/{host}/inventories");
    check(&api, &[(4, "DELETE", &path, None, 405, "from placement 1.5"), (5, "DELETE", &path, None, 204, "")]).await;
}

#[actix_web::test]
async fn a_body_breaks_the_rule_that_its_refusal_names() {
    let api = api();
    let host = provider(&api, "host1", 4).await;
    let (inventories, allocations) = (format!("resource_providers/{host}/inventories"), format!("allocations/{NOBODY}"));
    let with = |name: &str, value: Value| {
        let mut body = claim(&host, 1, None);
        body[name] = value;
        Some(body)
    };
    let vcpu = |more: &str, value: i64| {
        let mut body = json!({"resource_provider_generation": 1, "total": 8});
        body[more] = json!(value);
        Some(body)
    };
    let one = format!("{inventories}/VCPU");
    check(
        &api,
        &[
            (
                29,
                "PUT",
                &one,
                vcpu("total", 0),
                400,
                "0 is less than the minimum of 1. Failed validating 'minimum' in schema['properties']['total']",
            ),
            (25, "PUT", &one, vcpu("reserved", 8), 400, "greater than or equal to total"),
            (26, "PUT", &one, vcpu("reserved", 9), 400, "the reserved value is greater than total"),
            (29, "PUT", &format!("{inventories}/DISK_GB"), vcpu("reserved", 0), 400, "No inventory record with resource class"),
            (29, "POST", &inventories, Some(json!({"resource_class": "VCPU", "total": 1})), 409, "has an inventory of VCPU"),
            (29, "POST", &inventories, Some(json!({"resource_class": "DISK_GB"})), 400, "'total' is a required property"),
            (
                29,
                "PUT",
                &allocations,
                with("allocations", json!({"here": {"resources": {"VCPU": 1}}})),
                400,
                "'here' does not match any of the regexes",
            ),
            (
                29,
                "PUT",
                &allocations,
                with("allocations", json!({host.as_str(): {"resources": {"COWS": 1}}})),
                400,
                "No such resource class COWS",
            ),
            (
                29,
                "PUT",
                &allocations,
                with("allocations", json!({host.as_str(): {"resources": {"DISK_GB": 1}}})),
                409,
                "Inventory for 'DISK_GB' on",
            ),
            (29, "PUT", &allocations, with("user_id", json!("")), 400, "Failed validating 'minLength'"),
            (38, "PUT", &allocations, with("user_id", json!("alice")), 400, "'consumer_type' is a required property"),
            (34, "PUT", &allocations, with("mappings", json!({"": "beta"})), 400, "'beta' is not of type 'array'"),
            (7, "PUT", &allocations, with("user_id", json!("alice")), 400, "JSON does not validate"),
            (29, "PUT", "allocations/me", with("user_id", json!("alice")), 400, "Malformed consumer_uuid: me"),
            (0, "PUT", &format!("resource_providers/{host}/aggregates"), None, 404, "from placement 1.1"),
            (29, "POST", "resource_providers", Some(json!({"name": "host2", "uuid": "x"})), 400, "Failed validating 'format'"),
            (29, "POST", "resource_providers", Some(json!({"name": "host2", "uuid": host})), 409, "Conflicting resource provider uuid"),
            (29, "POST", "resource_providers", Some(json!({"name": "host1"})), 409, "placement.duplicate_name"),
            (29, "PUT", &format!("resource_providers/{host}"), Some(json!({"name": "a", "uuid": host})), 400, "'uuid' was unexpected"),
            (29, "PUT", "resource_classes/COW", None, 400, "Failed validating 'pattern'"),
            (29, "PUT", "resource_classes/CUSTOM_COW", None, 201, ""),
            (6, "PUT", "resource_classes/CUSTOM_COW", Some(json!({"name": "CUSTOM_PONY"})), 200, ""),
            (6, "PUT", "resource_classes/VCPU", Some(json!({"name": "CUSTOM_COW"})), 400, "Cannot update standard resource class VCPU"),
            (6, "PUT", "resource_classes/CUSTOM_COW", Some(json!({"name": "CUSTOM_CALF"})), 404, "No such resource class CUSTOM_COW"),
            (29, "DELETE", "resource_classes/CUSTOM_PONY", None, 204, ""),
            (29, "DELETE", &format!("resource_providers/{NOBODY}"), None, 404, "found for delete"),
        ],
    )
    .await;
}

#[actix_web::test]
async fn a_provider_gets_another_parent_from_1_37_on() {
    let api = api();
    let (above, other) = (provider(&api, "above", 1).await, provider(&api, "other", 1).await);
    let made =
        call(&api, 29, "POST", "resource_providers", Some(json!({"name": "below", "parent_provider_uuid": above}))).await.expect(200);
    let path = format!("resource_providers/{}", made["uuid"].as_str().unwrap());
    let to = |parent: Value| Some(json!({"name": "below", "parent_provider_uuid": parent}));
    check(
        &api,
        &[
            (36, "PUT", &path, to(json!(other)), 400, "re-parenting a provider is not currently allowed"),
            (36, "PUT", &path, to(Value::Null), 400, "un-parenting a provider is not currently allowed"),
            (36, "PUT", &path, Some(json!({"name": "renamed"})), 200, ""),
            (37, "PUT", &path, to(json!(other)), 200, ""),
            (
                37,
                "PUT",
                &format!("resource_providers/{other}"),
                Some(json!({"name": "other", "parent_provider_uuid": made["uuid"]})),
                400,
                "creating loop",
            ),
        ],
    )
    .await;
    let moved = call(&api, 37, "GET", &path, None).await.expect(200);
    assert_eq!((&moved["parent_provider_uuid"], &moved["generation"]), (&json!(other), &json!(0)), "a name is no part of the generation");
    let alone = call(&api, 37, "PUT", &path, to(Value::Null)).await.expect(200);
    assert_eq!(alone["root_provider_uuid"], made["uuid"]);
}

#[actix_web::test]
async fn media_types_and_caching_are_told_in_headers() {
    let api = api();
    let send = |request: TestRequest| api.send(request.insert_header(("X-Auth-Token", ADMIN)));
    let post = || TestRequest::post().uri("/placement/resource_providers").set_payload("{\"name\": \"a\"}");
    let plain = send(post().insert_header(("Content-Type", "text/plain"))).await;
    assert_eq!((plain.status, detail(&plain)), (415, "The media type text/plain is not supported, use application/json"));
    let unnamed = send(post()).await;
    assert_eq!((unnamed.status, detail(&unnamed)), (400, "content-type header required"));
    let empty = send(TestRequest::post().uri("/placement/resource_providers")).await;
    assert_eq!((empty.status, detail(&empty)), (415, "The media type None is not supported, use application/json"));
    send(post().insert_header(("Content-Type", "application/json; charset=utf-8"))).await.expect(201);
    let get = |accept: &str| TestRequest::get().uri("/placement/resource_providers").insert_header(("Accept", accept.to_owned()));
    let refused = send(get("text/html")).await;
    assert_eq!((refused.status, detail(&refused)), (406, "Only application/json is provided"));
    send(get("text/html, application/*;q=0.5")).await.expect(200);
    send(TestRequest::get().uri("/placement/nothing").insert_header(("Accept", "text/html"))).await.expect(404);

    let cached = |answer: &Answer| answer.headers.iter().any(|(name, value)| name == "cache-control" && value == "no-cache");
    let dated = |answer: &Answer| answer.headers.iter().any(|(name, value)| name == "last-modified" && value.ends_with(" GMT"));
    for (minor, method, path, has) in [
        (14, "GET", "resource_providers", false),
        (15, "GET", "resource_providers", true),
        (15, "PUT", "traits/CUSTOM_GOLD", true),
        (15, "PUT", "resource_classes/CUSTOM_GOLD", false),
    ] {
        let answer = call(&api, minor, method, path, None).await;
        assert_eq!((cached(&answer), dated(&answer)), (has, has), "1.{minor} {method} {path}");
    }
    let early = api.call("GET", "/placement/", ADMIN, Some("placement 0.5"), None).await;
    assert!(early.status == 406 && detail(&early).starts_with("Unacceptable version header: 0.5"), "{}", early.body);
}
