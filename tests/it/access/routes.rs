//! The methods and patterns that the router knows. actix-web names the patterns of its resources, and a resource names its methods when it is
//! asked with one that none has. A bare router is asked, which has none of the parts that let a request in.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use actix_web::dev::Service;
use actix_web::http::header::{ALLOW, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::test::{TestRequest, init_service};
use actix_web::{App, HttpResponse, web};
use regex::{Captures, Regex};

use cellshift::http::server::{Wiring, configure};

use super::row::nameless;

/// The method that no resource has.
const UNKNOWN: Method = Method::TRACE;
/// No route answers with this status.
const NOT_ROUTED: StatusCode = StatusCode::IM_A_TEAPOT;

/// Returns the method and the pattern of each route, with unnamed parameters.
pub async fn of(wiring: &Wiring) -> BTreeSet<(String, String)> {
    let described = Rc::new(RefCell::new(String::new()));
    let seen = described.clone();
    let router = App::new()
        .configure(|config| configure(config, wiring))
        .default_service(web::to(async || HttpResponse::build(NOT_ROUTED).finish()))
        .wrap_fn(move |request, service| {
            if seen.borrow().is_empty() {
                *seen.borrow_mut() = format!("{:?}", request.resource_map());
            }
            service.call(request)
        });
    let router = init_service(router).await;
    let ask = async |method: &Method, path: &str| {
        let request = TestRequest::with_uri(path).method(method.clone()).to_request();
        router.call(request).await.map_or_else(|error| error.error_response(), |answer| answer.into_parts().1.map_into_boxed_body())
    };
    ask(&UNKNOWN, "/").await;
    let patterns = patterns_in(&described.borrow());
    let mut routes = BTreeSet::new();
    for pattern in patterns {
        let (path, pattern) = (path_of(&pattern), nameless(&pattern));
        let answer = ask(&UNKNOWN, &path).await;
        let mut methods: Vec<String> = answer.headers().get(ALLOW).map(named_in).unwrap_or_default();
        if answer.status() == NOT_ROUTED {
            // A route without a resource of its own leaves other methods to other routes. Those there are ask for no rights.
            for method in [Method::GET, Method::HEAD, Method::POST] {
                if ask(&method, &path).await.status() != NOT_ROUTED {
                    methods.push(method.to_string());
                }
            }
        }
        assert!(!methods.is_empty(), "{path} leads to no method of {pattern}: {}", answer.status());
        routes.extend(methods.into_iter().map(|method| (method, pattern.clone())));
    }
    routes
}

/// Returns a path that the pattern matches. A parameter with a choice of words is the first of them.
fn path_of(pattern: &str) -> String {
    let parameter = Regex::new(r"\{\w+(?::(?<word>\w+)[^}]*|:[^}]*)?\}").expect("a pattern");
    parameter.replace_all(pattern, |choice: &Captures| choice.name("word").map_or("x", |word| word.as_str()).to_owned()).into_owned()
}

fn named_in(allow: &HeaderValue) -> Vec<String> {
    allow.to_str().expect("a text").split(',').map(|method| method.trim().to_owned()).collect()
}

/// Returns the patterns of the resources in the description of a resource map, each with the prefixes of its scopes.
fn patterns_in(described: &str) -> BTreeSet<String> {
    let parts =
        Regex::new(r#"patterns: Single\("(?<single>[^"]*)"\)|patterns: List\(\[(?<list>[^\]]*)\]\)|nodes: None|nodes: Some\(\[|\]\) \}"#);
    let mut scopes: Vec<String> = Vec::new();
    let mut latest: Vec<String> = Vec::new();
    let mut patterns = BTreeSet::new();
    for part in parts.expect("a pattern").captures_iter(described) {
        let whole = |pattern: &str| scopes.concat() + pattern;
        if let Some(single) = part.name("single") {
            latest = vec![whole(single.as_str())];
        } else if let Some(list) = part.name("list") {
            latest = list.as_str().split(", ").map(|quoted| whole(quoted.trim_matches('"'))).collect();
        } else if &part[0] == "nodes: None" {
            patterns.extend(std::mem::take(&mut latest));
        } else if part[0].starts_with("nodes: Some") {
            let own = std::mem::take(&mut latest).pop().unwrap_or_default();
            scopes.push(own[scopes.concat().len()..].to_owned());
        } else {
            scopes.pop();
        }
    }
    patterns
}

#[test]
fn a_path_has_a_word_for_each_parameter() {
    assert_eq!(path_of("/v3/{kind:projects|domains}/{id}/{tail:.*}/last"), "/v3/projects/x/x/last");
}

#[test]
fn patterns_have_the_prefixes_of_their_scopes() {
    let leaf = |pattern: &str| {
        format!("ResourceMap {{ pattern: ResourceDef {{ patterns: {pattern}, segments: [] }}, named: {{}}, parent: (Weak), nodes: None }}")
    };
    let scope = |prefix: &str, nodes: &str| {
        format!(
            "ResourceMap {{ pattern: ResourceDef {{ patterns: Single(\"{prefix}\"), segments: [] }}, named: {{}}, nodes: Some([{nodes}]) }}"
        )
    };
    let inner = scope("/v2", &[leaf("Single(\"/a/{id}\")"), leaf("List([\"/b\", \"/c\"])")].join(", "));
    let all = scope("", &[scope("/compute", &[inner, leaf("Single(\"\")")].join(", ")), leaf("Single(\"/last\")")].join(", "));
    let expected = ["/compute", "/compute/v2/a/{id}", "/compute/v2/b", "/compute/v2/c", "/last"];
    assert_eq!(patterns_in(&all), expected.map(str::to_owned).into());
}
