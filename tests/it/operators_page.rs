//! The operators' page (`/ui/`): its files and their headers, its session, and who may do what through it.

use cellshift::chaos::point::{Moment, StepFault};
use cellshift::config::Config;
use regex::Regex;
use reqwest::header::{HeaderMap, SET_COOKIE};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::client::PATIENCE;
use crate::stage::{Stage, play, play_default};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A browser without scripts: its cookie, and the headers that browsers and the page's scripts send.
struct Browser {
    http: Client,
    root: String,
    cookie: String,
}

impl Browser {
    fn new(stage: &Stage) -> Browser {
        let http = Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        Browser { http, root: format!("http://{}", stage.running.address), cookie: String::new() }
    }

    /// Sends what anybody can send.
    fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.root)).timeout(PATIENCE);
        if self.cookie.is_empty() { request } else { request.header("Cookie", &self.cookie) }
    }

    /// Sends what the page's scripts send.
    fn own(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.bare(method, path).header("Sec-Fetch-Site", "same-origin");
        request.header("Origin", &self.root).header("X-Requested-By", "cellshift-ui")
    }

    async fn get(&self, path: &str) -> (u16, HeaderMap, Value) {
        parts(self.own(Method::GET, path).send().await).await
    }

    async fn log_in(&mut self, user: &str, password: &str, project: &str) -> (u16, HeaderMap, Value) {
        let form = json!({"user": user, "password": password, "project": project, "domain": "Default"});
        let answer = parts(self.own(Method::POST, "/ui/login").json(&form).send().await).await;
        if answer.0 == 200 {
            let line = answer.1[SET_COOKIE].to_str().expect("a text");
            self.cookie = line.split(';').next().expect("a pair").to_owned();
        }
        answer
    }
}

async fn parts(answer: reqwest::Result<Response>) -> (u16, HeaderMap, Value) {
    let answer = answer.expect("an answer");
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let text = answer.text().await.expect("a body");
    (status, headers, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Makes an account, and logs it in through the page.
async fn logged_in(stage: &Stage, name: &str, role: &str) -> Browser {
    stage.user(name, "demo", role).await;
    let mut browser = Browser::new(stage);
    assert_eq!(browser.log_in(name, "a password", "demo").await.0, 200);
    browser
}

#[test]
fn a_session_is_a_cookie_that_no_script_reads() {
    play_default(|stage| async move {
        let mut browser = Browser::new(&stage);
        assert_eq!(browser.get("/ui/session").await.0, 401);
        stage.user("anna", "demo", "admin").await;
        let (status, headers, body) = browser.log_in("anna", "wrong", "demo").await;
        assert_eq!((status, &body["unauthorized"]["code"]), (401, &json!(401)));
        assert!(!headers.contains_key(SET_COOKIE));
        let (status, headers, body) = browser.log_in("anna", "a password", "demo").await;
        assert_eq!((status, &body["user"]["name"], &body["project"]["name"]), (200, &json!("anna"), &json!("demo")));
        let line = headers[SET_COOKIE].to_str().expect("a text");
        let (pair, flags) = line.split_once("; ").expect("flags");
        assert_eq!(flags, "Path=/ui; HttpOnly; SameSite=Strict");
        let token = pair.strip_prefix("cellshift_session=").expect("the cookie's name").to_owned();
        assert!(!body.to_string().contains(&token) && !headers.contains_key("x-subject-token"), "scripts do not see it");

        let (status, headers, body) = browser.get("/ui/session").await;
        assert_eq!(
            (status, &body["user"]["name"], &body["rules"]["ops:cells"], &body["chaos"]),
            (200, &json!("anna"), &json!(true), &json!(false))
        );
        assert_eq!(headers["cache-control"], "no-store");
        assert_eq!(browser.get("/ui/api/ops/v1/cells").await.0, 200);

        let (status, headers, _) = parts(browser.own(Method::POST, "/ui/logout").send().await).await;
        assert_eq!(status, 204);
        assert!(headers[SET_COOKIE].to_str().expect("a text").starts_with("cellshift_session=; Max-Age=0; Path=/ui;"));
        // The token itself is revoked, whoever has kept it.
        let (status, headers, body) = browser.get("/ui/api/ops/v1/cells").await;
        assert_eq!((status, &body["unauthorized"]["code"]), (401, &json!(401)));
        assert!(headers[SET_COOKIE].to_str().expect("a text").starts_with("cellshift_session=; Max-Age=0;"));
    });
}

#[test]
fn a_garbage_session_is_refused_and_removed() {
    play_default(|stage| async move {
        let mut browser = Browser::new(&stage);
        for garbage in ["gAAAA-no-token", "", "%00", "x y", "\u{fc}"] {
            browser.cookie = format!("cellshift_session={garbage}");
            for path in ["/ui/api/ops/v1/cells", "/ui/api/compute/v2.1/servers", "/ui/session"] {
                let (status, headers, body) = browser.get(path).await;
                assert_eq!((status, &body["unauthorized"]["code"]), (401, &json!(401)), "{garbage:?} {path}: {body}");
                assert_eq!(headers["content-security-policy"], POLICY, "{path}");
            }
        }
        browser.cookie = "cellshift_session=gAAAA-no-token".to_owned();
        let (_, headers, _) = browser.get("/ui/session").await;
        assert!(headers[SET_COOKIE].to_str().expect("a text").contains("Max-Age=0"));
        assert_eq!(parts(browser.bare(Method::GET, "/ui/").send().await).await.0, 200, "the login is reached");
    });
}

#[test]
fn another_sites_page_cannot_use_the_session() {
    play_default(|stage| async move {
        let browser = logged_in(&stage, "anna", "admin").await;
        let hosts = stage.admin.get("/os-services?host=cell1-host1").await.expect(200).body;
        let service = format!("/ui/api/compute/v2.1/os-services/{}", hosts["services"][0]["id"].as_str().expect("an id"));
        let put = |origin: Option<&str>, site: Option<&str>, asker: Option<&str>| {
            let mut request = browser.bare(Method::PUT, &service).header("OpenStack-API-Version", "compute 2.90");
            for (name, value) in [("Origin", origin), ("Sec-Fetch-Site", site), ("X-Requested-By", asker)] {
                request = value.into_iter().fold(request, |request, value| request.header(name, value));
            }
            request.json(&json!({"status": "disabled"})).send()
        };
        let (own, asker) = (Some(browser.root.as_str()), Some("cellshift-ui"));
        for (origin, site, asker) in [
            (Some("http://evil.example"), Some("cross-site"), asker),
            (Some("http://evil.example"), None, asker),
            (Some("null"), None, asker),
            (own, Some("same-site"), asker),
            (own, Some("same-origin"), None),
            (own, Some("same-origin"), Some("a form")),
            (None, None, asker),
        ] {
            let (status, headers, body) = parts(put(origin, site, asker).await).await;
            assert_eq!((status, &body["forbidden"]["code"]), (403, &json!(403)), "{origin:?} {site:?} {asker:?}: {body}");
            assert!(headers.contains_key("x-openstack-request-id"));
        }
        let status = async || stage.admin.get("/os-services?host=cell1-host1").await.expect(200).body["services"][0]["status"].clone();
        assert_eq!(status().await, "enabled", "nothing was changed");
        for path in ["/ui/api/ops/v1/cells", "/ui/session"] {
            let foreign = browser.bare(Method::GET, path).header("Sec-Fetch-Site", "cross-site").send().await;
            assert_eq!(parts(foreign).await.0, 403, "{path}");
        }
        for path in ["/ui/login", "/ui/logout"] {
            let foreign = browser.bare(Method::POST, path).header("Origin", "http://evil.example").send().await;
            assert_eq!(parts(foreign).await.0, 403, "{path}");
        }
        assert_eq!(browser.get("/ui/session").await.0, 200, "nobody was logged out");
        assert_eq!(parts(put(own, Some("same-origin"), asker).await).await.0, 200);
        assert_eq!(status().await, "disabled");
        assert_eq!(parts(put(own, None, asker).await).await.0, 200, "an older browser sends the origin alone");
    });
}

#[test]
fn the_session_reaches_no_tokens_and_takes_none() {
    play_default(|stage| async move {
        let mut browser = logged_in(&stage, "anna", "admin").await;
        let hidden = [
            "/identity/v3/auth/tokens",
            "/identity/v3/users",
            "/identity/v3/projects/1",
            "/metrics",
            "/ui/session",
            "/ui/api/ops/v1/cells",
            "",
        ];
        for path in hidden {
            assert_eq!(browser.get(&format!("/ui/api{path}")).await.0, 404, "{path}");
        }
        for path in ["/identity/v3/projects", "/image/v2/images", "/network/v2.0/networks"] {
            assert_eq!(browser.get(&format!("/ui/api{path}")).await.0, 200, "{path}");
        }
        let project = browser.own(Method::POST, "/ui/api/identity/v3/projects").json(&json!({"project": {"name": "own"}})).send().await;
        assert_eq!(parts(project).await.0, 404, "the names of projects are read, and nothing else");
        // Redirects itself, and names no page of another folder.
        for path in ["/", "/ui"] {
            let (status, headers, _) = parts(browser.bare(Method::GET, path).send().await).await;
            assert_eq!((status, &headers["location"]), (307, &"ui/".parse().expect("a value")), "{path}");
        }
        browser.cookie.clear();
        let header = browser.own(Method::GET, "/ui/api/ops/v1/cells").header("X-Auth-Token", stage.admin.token()).send().await;
        assert_eq!(parts(header).await.0, 401, "the cookie alone counts");
    });
}

#[test]
fn a_member_sees_and_does_what_the_policy_allows() {
    play_default(|stage| async move {
        let browser = logged_in(&stage, "bert", "member").await;
        let server = stage.create(stage.server()).await;
        let (_, _, session) = browser.get("/ui/session").await;
        let rules = session["rules"].as_object().expect("rules");
        let of_operators: Vec<_> = rules.iter().filter(|(rule, _)| rule.starts_with("ops:")).map(|(_, may)| may.clone()).collect();
        assert!(of_operators.len() > 5 && of_operators.iter().all(|may| *may == false), "{session}");
        assert_eq!(rules["os_compute_api:servers:confirm_resize"], true);
        for path in ["summary", "cells", "hosts", "migrations", "notifications", "audit", "drains", &format!("servers/{server}")] {
            let (status, _, body) = browser.get(&format!("/ui/api/ops/v1/{path}")).await;
            assert_eq!(status, 403, "{path}: {body}");
        }
        let (status, _, body) = browser.get("/ui/api/compute/v2.1/servers").await;
        assert_eq!((status, &body["servers"][0]["id"]), (200, &json!(server)));
        let drain = browser.own(Method::POST, "/ui/api/ops/v1/drains").json(&json!({"host": "cell1-host1"})).send().await;
        assert_eq!(parts(drain).await.0, 403);
    });
}

#[test]
fn streams_are_bounded_and_a_place_is_free_again() {
    let few = |config: &mut Config| config.notifications.max_subscribers = 3;
    play(few, |stage| async move {
        let browser = logged_in(&stage, "anna", "admin").await;
        let stream = || browser.own(Method::GET, "/ui/api/ops/v1/notifications").send();
        let mut open = Vec::new();
        for _ in 0..3 {
            let answer = stream().await.expect("an answer");
            assert_eq!(
                (answer.status().as_u16(), &answer.headers()["content-type"]),
                (200, &"text/event-stream".parse().expect("a value"))
            );
            open.push(answer);
        }
        for _ in 0..100 {
            let (status, headers, body) = parts(stream().await).await;
            assert_eq!((status, &body["serviceUnavailable"]["code"]), (503, &json!(503)));
            assert!(headers.contains_key("retry-after"));
        }
        stage.admin.get("/ops/v1/notifications").await.expect(503);
        let (_, _, summary) = browser.get("/ui/api/ops/v1/summary").await;
        assert_eq!(summary["event_streams"], json!({"open": 3, "max": 3}));
        open.pop();
        stage.until("a place is free", || async { stream().await.expect("an answer").status() == 200 }).await;
    });
}

#[test]
fn the_history_begins_with_the_service() {
    play_default(|stage| async move {
        let samples = async |path: &str| stage.admin.get(path).await.expect(200).body["samples"].as_array().expect("samples").clone();
        stage.until("the first sample is there", || async { !samples("/ops/v1/history").await.is_empty() }).await;
        let first = samples("/ops/v1/history").await[0].clone();
        assert!(first["requests"].is_u64() && first["room"].get("cell1").is_some() && first["room"].get("cell2").is_some(), "{first}");
        let since = first["at"].as_str().expect("a moment");
        assert!(samples(&format!("/ops/v1/history?since={since}")).await.iter().all(|later| later["at"] != first["at"]));
        stage.admin.get("/ops/v1/history?since=yesterday").await.expect(400);
    });
}

#[test]
fn every_file_is_served_and_nothing_else_may_run() {
    play_default(|stage| async move {
        let browser = Browser::new(&stage);
        let shell = browser.bare(Method::GET, "/ui/").send().await.expect("an answer");
        assert_eq!(
            (shell.status().as_u16(), &shell.headers()["content-type"]),
            (200, &"text/html; charset=utf-8".parse().expect("a value"))
        );
        let shell = shell.text().await.expect("a page");
        assert!(!shell.contains(" style=") && !shell.contains("<style") && !shell.contains("onclick"), "{shell}");
        let named = Regex::new(r#"(?:src|href)="([a-z]+\.[a-z]+)"|from "\./([a-z]+\.js)""#).expect("a pattern");
        let (mut texts, mut seen) = (vec![shell], std::collections::BTreeSet::new());
        while let Some(text) = texts.pop() {
            for name in named.captures_iter(&text).filter_map(|captures| captures.get(1).or(captures.get(2))) {
                if !seen.insert(name.as_str().to_owned()) {
                    continue;
                }
                let path = format!("/ui/{}", name.as_str());
                let (status, headers, body) = parts(browser.bare(Method::GET, &path).send().await).await;
                assert_eq!(status, 200, "{path}");
                for (header, value) in
                    [("content-security-policy", POLICY), ("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer")]
                {
                    assert_eq!(headers[header], value, "{path}");
                }
                let again = browser.bare(Method::GET, &path).header("If-None-Match", headers["etag"].clone()).send().await;
                assert_eq!(parts(again).await.0, 304, "{path}");
                let body = body.as_str().expect("a text").to_owned();
                assert!(!body.is_empty() && !body.contains("innerHTML") && !body.contains("eval("), "{path}");
                let has_purpose = !path.ends_with(".js") || body.starts_with("// ");
                assert!(body.lines().count() <= 600 && has_purpose, "{path}: at most 600 lines, and the first says what the file is for");
                texts.push(body);
            }
        }
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/ui")).expect("the files");
        let there: std::collections::BTreeSet<String> = folder
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .filter(|name| name != "index.html")
            .collect();
        assert_eq!(seen, there);
        let (status, headers, body) = parts(browser.bare(Method::GET, "/ui/nothing.js").send().await).await;
        assert_eq!((status, &body["itemNotFound"]["code"]), (404, &json!(404)));
        assert_eq!(headers["content-security-policy"], POLICY);
    });
}

#[test]
fn operators_see_what_the_audit_compares_for_a_server() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stage.cross(server).await;
        let state = stage.admin.get(&format!("/ops/v1/servers/{server}")).await.expect(200).body;
        let (record, owner) = (&state["record"], &state["ownership"]);
        assert_eq!((&record["cell"], &record["vm_state"], &record["host"]), (&json!("cell2"), &json!("resized"), &owner["host"]));
        assert_eq!((&owner["cell"], &state["held_by"]), (&json!("cell2"), &Value::Null));
        let guests = state["guests"].as_array().expect("guests");
        let of = |cell: &str| guests.iter().find(|guest| guest["cell"] == cell).unwrap_or_else(|| panic!("{cell}: {state:#}"));
        assert_eq!((&of("cell2")["defined"], &of("cell2")["power_state"]), (&json!(true), &json!(1)));
        assert_eq!(of("cell2")["started_epoch"], owner["epoch"]);
        assert_eq!((&of("cell1")["defined"], guests.len()), (&json!(false), 2), "the source keeps the disks");
        let kinds: Vec<_> = state["allocations"].as_array().expect("a list").iter().map(|held| held["kind"].clone()).collect();
        assert_eq!(kinds, ["server", "migration"]);

        let moves = stage.admin.get(&format!("/ops/v1/migrations?server={server}")).await.expect(200).body;
        let resize = &moves["migrations"][0];
        assert_eq!(
            (&resize["source"]["cell"], &resize["target"]["cell"], &resize["pivot"]),
            (&json!("cell1"), &json!("cell2"), &json!("take_ownership"))
        );
        let retry = format!("/ops/v1/migrations/{}/debts/retry", resize["uuid"].as_str().expect("an id"));
        assert!(stage.admin.post(&retry, json!({})).await.expect(409).message().contains("owes nothing"));
        stage.admin.post("/ops/v1/migrations/00000000-0000-0000-0000-000000000001/debts/retry", json!({})).await.expect(404);
        stage.admin.get("/ops/v1/servers/00000000-0000-0000-0000-000000000001").await.expect(404);
        stage.admin.get("/ops/v1/servers/nonsense").await.expect(404);
    });
}

#[test]
fn the_summary_counts_what_is_owed_and_answered() {
    play_default(|stage| async move {
        let quiet = stage.admin.get("/ops/v1/summary").await.expect(200).body;
        assert_eq!(quiet["operations"], json!({"running": 0, "unwinding": 0, "needs_operator": 0}));
        assert_eq!(quiet["left_alone"], json!({"operations": 0, "debts": 0, "tables": [], "remedy": null}));
        assert_eq!(quiet["debts"], json!({"waiting": 0, "needs_operator": 0, "oldest_since": null}));
        assert_eq!(quiet["unconfirmed_moves"], json!({"count": 0, "oldest_since": null, "room": {}}));
        assert_eq!((&quiet["hosts_down"], &quiet["drains"]["running"], &quiet["silent_cells"]), (&json!(0), &json!(0), &json!([])));
        let loud = stage.admin.get("/ops/v1/summary").await.expect(200).body;
        assert!(loud["requests"]["answered"].as_u64() > quiet["requests"]["answered"].as_u64(), "{loud}");
        assert_eq!(loud["requests"]["in_flight"], 1, "this one");
        let buckets = loud["requests"]["buckets"].as_array().expect("buckets");
        let sum: u64 = buckets.iter().filter_map(|bucket| bucket[1].as_u64()).sum();
        assert_eq!(Some(sum + loud["requests"]["beyond"].as_u64().expect("a count")), loud["requests"]["answered"].as_u64());
    });
}

#[test]
fn pages_share_answers_of_the_last_second() {
    play_default(|stage| async move {
        let mine = stage.admin.get("/ops/v1/summary").await.expect(200).body;
        for path in ["/ops/v1/summary", "/ops/v1/cells?hosts=false", "/ops/v1/hosts?limit=2", "/ops/v1/migrations?limit=2"] {
            let (own, recent) = (stage.admin.get(path).await.expect(200), stage.admin.recent(path).await.expect(200));
            assert_eq!(recent.headers["content-type"], own.headers["content-type"]);
            let keys = |body: &Value| body.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
            assert_eq!(keys(&recent.body), keys(&own.body), "{path}");
            stage.member.recent(path).await.expect(403);
        }
        let shared = stage.admin.recent("/ops/v1/summary").await.expect(200).body;
        assert!(shared["at"].as_str() > mine["at"].as_str(), "whoever wants an own answer shares it with nobody");
        stage.admin.recent("/ops/v1/hosts?marker=nobody").await.expect(400);
        stage.admin.recent("/ops/v1/hosts?marker=nobody").await.expect(400);
    });
}

#[test]
fn an_operator_has_debts_tried_again_now() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stage.arm(|point| match (point.step, point.side, point.moment) {
            ("prepare_at_target", "act", Moment::BeforeEffect) | ("activate_target_ports", "undo", Moment::BeforeEffect) => {
                StepFault::Refuse
            }
            _ => StepFault::None,
        });
        stage.member.resize(server, "gen2.small").await.expect(202);
        stage.ended(server).await;
        let debts = stage.admin.get("/ops/v1/summary").await.expect(200).body["debts"].clone();
        assert_eq!(
            (debts["waiting"].as_i64().unwrap_or(0) + debts["needs_operator"].as_i64().unwrap_or(0), debts["oldest_since"].is_string()),
            (1, true)
        );
        let moves = stage.admin.get(&format!("/ops/v1/migrations?server={server}")).await.expect(200).body;
        let retry = format!("/ops/v1/migrations/{}/debts/retry", moves["migrations"][0]["uuid"].as_str().expect("an id"));
        stage.member.post(&retry, json!({})).await.expect(403);
        stage.admin.post(&retry, json!({})).await.expect(202);
        stage.disarm();
        stage.paid(server).await;
        stage.admin.post(&retry, json!({})).await.expect(409);
    });
}

/// The link of `cellshift ui` has a token of its own, which logs in once.
#[test]
fn a_link_logs_in_once() {
    play_default(|stage| async move {
        let identity = json!({"methods": ["token"], "token": {"id": stage.admin.token()}});
        let scope = json!({"project": {"name": "admin", "domain": {"id": "default"}}});
        let request = json!({"auth": {"identity": identity, "scope": scope}});
        let issued = stage.admin.post("/identity/v3/auth/tokens", request).await.expect(201);
        let token = issued.headers["X-Subject-Token"].to_str().expect("a token").to_owned();
        let mut browser = Browser::new(&stage);
        let link = json!({"token": token});
        let (status, headers, answer) = parts(browser.own(Method::POST, "/ui/login").json(&link).send().await).await;
        assert_eq!((status, &answer["user"]["name"]), (200, &json!("admin")), "{answer}");
        browser.cookie = headers[SET_COOKIE].to_str().expect("a text").split(';').next().expect("a pair").to_owned();
        assert_eq!(browser.get("/ui/api/ops/v1/summary").await.0, 200);
        let (again, _, _) = parts(Browser::new(&stage).own(Method::POST, "/ui/login").json(&link).send().await).await;
        assert_eq!(again, 401, "the link was used");
        for form in [json!({}), json!({"user": "admin", "token": "x"}), json!({"user": "admin", "password": "x"})] {
            let (status, _, answer) = parts(Browser::new(&stage).own(Method::POST, "/ui/login").json(&form).send().await).await;
            assert_eq!(status, 400, "{form}: {answer}");
        }
        stage.admin.get("/servers").await.expect(200);
    });
}
