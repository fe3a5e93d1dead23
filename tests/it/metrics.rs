//! `/metrics`: the stories that it tells, who may read it, and that the documentation, the alerts and the dashboard name the metrics that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::process::Command;

use cellshift::chaos::borders::{Outage, Outages};
use cellshift::config::Seconds;
use cellshift::db::DbError;
use cellshift::db::cell::CellTxn;
use cellshift::domain::fence::Fence;
use cellshift::domain::host_protocol::{HostCommand, HostReply, HostRequest};
use cellshift::domain::host_trial::HostTrial;
use cellshift::metrics::Mailbox;
use cellshift::virt::HostUnreachable;
use regex::Regex;

use crate::client::{PATIENCE, id_of};
use crate::service::Service;
use crate::stage::{Stage, play, play_default, play_placed};

/// The samples of one scrape, by the metric with its labels.
struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    fn of(text: &str) -> Scrape {
        let sample = |line: &str| line.rsplit_once(' ').map(|(name, value)| (name.to_owned(), value.parse().expect("a number")));
        Scrape(text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect())
    }

    /// Returns a sample; 0 if there is none, as a query's `increase` sees it.
    fn value(&self, sample: &str) -> f64 {
        self.0.get(sample).copied().unwrap_or_default()
    }

    /// Checks samples.
    #[track_caller]
    fn shows(&self, samples: &[(&str, f64)]) {
        for (sample, value) in samples {
            let family: Vec<_> = self.0.iter().filter(|(name, _)| name.split('{').next() == sample.split('{').next()).collect();
            assert!((self.value(sample) - value).abs() < 1e-9, "{sample} is not {value} among {family:#?}");
        }
    }
}

async fn scrape(stage: &Stage) -> Scrape {
    let answer = stage.admin.get("/metrics").await.expect(200);
    assert_eq!(answer.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(answer.text.ends_with("# EOF\n"));
    Scrape::of(&answer.text)
}

/// Waits until a sample has at least this value: some events are counted just after they can be seen.
async fn until(stage: &Stage, sample: &str, least: f64) {
    stage.until(sample, || async { scrape(stage).await.value(sample) >= least }).await;
}

#[test]
fn requests_are_counted_by_route_method_and_status() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stage.member.get(&format!("/servers/{server}")).await.expect(200);
        stage.member.get("/servers/00000000-0000-0000-0000-000000000001").await.expect(404);
        stage.member.get("/nothing/here").await.expect(404);
        let metrics = scrape(&stage).await;
        let route = "route=\"/compute/v2.1/servers/{id}\",method=\"GET\"";
        metrics.shows(&[
            (&format!("cellshift_http_requests_total{{{route},status=\"404\"}}"), 1.0),
            ("cellshift_http_requests_total{route=\"/compute/v2.1/servers\",method=\"POST\",status=\"202\"}", 1.0),
            ("cellshift_http_requests_total{route=\"none\",method=\"GET\",status=\"404\"}", 1.0),
            // The scrape itself.
            ("cellshift_http_requests_in_flight", 1.0),
        ]);
        assert!(metrics.value(&format!("cellshift_http_requests_total{{{route},status=\"200\"}}")) >= 2.0);
        assert!(metrics.value(&format!("cellshift_http_request_duration_seconds_count{{{route}}}")) >= 3.0);
        for (sample, least) in [
            ("cellshift_db_calls_total{database=\"api\",kind=\"read\",outcome=\"ok\"}", 1.0),
            ("cellshift_db_calls_total{database=\"cell1\",kind=\"write\",outcome=\"ok\"}", 1.0),
            ("cellshift_db_commits_total{database=\"cell1\"}", 1.0),
            ("cellshift_db_pool_wait_duration_seconds_count{database=\"api\"}", 1.0),
            ("process_resident_memory_bytes", 1e6),
        ] {
            assert!(metrics.value(sample) >= least, "{sample} is {}", metrics.value(sample));
        }
    });
}

#[test]
fn mailboxes_of_actors_that_stand_still_fill() {
    play_default(|stage| async move {
        let waiting = |actor: &str| format!("cellshift_messages_in_flight{{actor=\"{actor}\"}}");
        let roster = &stage.running.tree.roster;
        assert!(roster.pause("notifier"));
        let stream = stage.admin.stream("/ops/v1/notifications").await;
        until(&stage, &waiting("notifier"), 1.0).await;
        assert!(roster.resume("notifier"));
        drop(stream);
        for actor in ["scheduler", "conductor"] {
            assert!(roster.pause(actor), "{actor}");
            let resumed = async {
                until(&stage, &waiting(actor), 1.0).await;
                assert!(roster.resume(actor), "{actor}");
            };
            // A conductor that stands still accepts the create when it goes on.
            let (begun, ()) = futures::join!(stage.server().ask(&stage.member), resumed);
            let server = id_of(&begun.expect(202).body["server"]);
            stage.at_rest(server, "ACTIVE").await;
        }
        let is_empty = |metrics: &Scrape| Mailbox::ALL.iter().all(|kind| metrics.0.get(&waiting(kind.as_str())) == Some(&0.0));
        stage.until("all mailboxes are empty", || async { is_empty(&scrape(&stage).await) }).await;
    });
}

#[test]
fn metrics_tell_done_moves_from_undone_ones() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stage.cross(server).await;
        until(&stage, "cellshift_operations_ended_total{kind=\"resize\",end=\"done\"}", 1.0).await;
        let step = |step: &str, side: &str, outcome: &str| {
            format!("cellshift_steps_total{{kind=\"resize\",step=\"{step}\",side=\"{side}\",outcome=\"{outcome}\"}}")
        };
        let metrics = scrape(&stage).await;
        metrics.shows(&[
            ("cellshift_operations_begun_total{kind=\"resize\",outcome=\"accepted\"}", 1.0),
            ("cellshift_operation_duration_seconds_count{kind=\"resize\",end=\"done\"}", 1.0),
            (&step("accept", "act", "ok"), 1.0),
            (&step("take_ownership", "act", "ok"), 1.0),
            ("cellshift_step_duration_seconds_count{step=\"bind_ports_at_target\",side=\"act\"}", 1.0),
            ("cellshift_scheduler_decisions_total{operation=\"resize\",outcome=\"chosen\"}", 1.0),
            ("cellshift_operations_ended_total{kind=\"resize\",end=\"unwound\"}", 0.0),
            ("cellshift_fences_refused_total{place=\"host\"}", 0.0),
            ("cellshift_operations_waiting", 0.0),
        ]);
        for way in ["disks_out", "disks_in"] {
            assert!(metrics.value(&format!("cellshift_copied_bytes_total{{what=\"{way}\"}}")) > 0.0, "{way}");
        }
        stage.confirm(server).await;

        let other = stage.create(stage.server()).await;
        stage.refuse("prepare_at_target");
        stage.member.resize(other, "gen2.small").await.expect(202);
        stage.at_rest(other, "ACTIVE").await;
        stage.disarm();
        until(&stage, "cellshift_operations_ended_total{kind=\"resize\",end=\"unwound\"}", 1.0).await;
        let metrics = scrape(&stage).await;
        metrics.shows(&[(&step("accept", "undo", "ok"), 1.0), (&step("take_ownership", "act", "ok"), 1.0)]);
        let refused = ["failed", "next_candidate"].map(|outcome| metrics.value(&step("prepare_at_target", "act", outcome)));
        assert!(refused.iter().sum::<f64>() >= 1.0, "the step that was refused");
        assert!(metrics.value(&step("prepare_at_target", "undo", "ok")) >= 1.0);
        stage.member.confirm(other).await.expect(409);
        names_nothing_unbounded(&stage).await;
    });
}

/// Checks that no label names a host or an id, and that only listed metrics are told.
async fn names_nothing_unbounded(stage: &Stage) {
    let text = stage.admin.get("/metrics").await.expect(200).text;
    let id = Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}|-host[0-9]").expect("a pattern");
    let named: Vec<&str> = text.lines().filter(|line| id.is_match(line)).collect();
    assert!(named.is_empty(), "{named:#?}");
    let rows = rows();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        assert!(rows.contains_key(whole(name)), "{name} is not listed");
    }
}

#[test]
fn metrics_show_a_debt_until_it_is_paid() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        stage.cross(server).await;
        stage.power(&source, false).await;
        stage.confirm(server).await;
        stage.running.tree.conductor.pay_debts().await;
        until(&stage, "cellshift_debts{state=\"waiting\"}", 1.0).await;
        let metrics = scrape(&stage).await;
        metrics.shows(&[
            ("cellshift_debts_recorded_total{step=\"clean_source_host\",side=\"act\"}", 1.0),
            ("cellshift_debts{state=\"needs_operator\"}", 0.0),
        ]);
        assert!(metrics.value("cellshift_debt_tries_total{outcome=\"failed\"}") >= 1.0);
        stage.power(&source, true).await;
        stage.paid(server).await;
        until(&stage, "cellshift_debt_tries_total{outcome=\"paid\"}", 1.0).await;
        stage
            .until("no debt is told", || async {
                stage.running.tree.conductor.pay_debts().await;
                scrape(&stage).await.value("cellshift_debts{state=\"waiting\"}") < 1.0
            })
            .await;
    });
}

#[test]
fn metrics_show_a_cell_that_is_down() {
    let quick = |config: &mut cellshift::config::Config| {
        config.cells.probe_interval = Seconds::millis(20);
        config.compute.heartbeat = Seconds::millis(50);
        config.cells.timeout = Seconds::whole(2);
    };
    play(quick, |stage| async move {
        until(&stage, "cellshift_hosts{cell=\"cell1\",state=\"up\"}", 2.0).await;
        let metrics = scrape(&stage).await;
        metrics.shows(&[("cellshift_cell_up{cell=\"cell1\"}", 1.0), ("cellshift_hosts{cell=\"cell1\",state=\"down\"}", 0.0)]);
        assert!(metrics.value("cellshift_heartbeat_timestamp_seconds{cell=\"cell1\"}") > 1.7e9);
        stage.cell("cell1").db().set_outage(Outage::Refuses);
        stage.until("the cell is told as down", || async { scrape(&stage).await.value("cellshift_cell_up{cell=\"cell1\"}") < 0.5 }).await;
        until(&stage, "cellshift_heartbeats_total{cell=\"cell1\",outcome=\"failed\"}", 1.0).await;
        let metrics = scrape(&stage).await;
        metrics.shows(&[("cellshift_cell_up{cell=\"cell2\"}", 1.0)]);
        assert!(metrics.value("cellshift_cell_failures_total{cell=\"cell1\"}") >= 3.0);
        stage.cell("cell1").db().set_outage(Outage::None);
        until(&stage, "cellshift_cell_up{cell=\"cell1\"}", 1.0).await;
        stage.power("cell1-host1", false).await;
        until(&stage, "cellshift_hosts{cell=\"cell1\",state=\"down\"}", 1.0).await;
        stage.power("cell1-host1", true).await;
    });
}

#[test]
fn metrics_count_a_refused_fence_at_its_place() {
    play_default(|stage| async move {
        let (server, host) = stage.create_on_a_host(stage.server()).await;
        let fence = Fence { server, epoch: 0, attempt: 0 };
        let request = HostRequest::new(fence, stage.world().env.uuid(), HostCommand::Fence);
        let reply = stage.world().hosts.request("cell1", &host, request).await.expect("the host answers");
        assert!(matches!(reply, HostReply::Stale { .. }), "{reply:?}");
        let written = stage.cell("cell1").apply(fence, CellTxn::new()).await;
        assert!(matches!(written, Err(DbError::Stale(..))), "{written:?}");
        scrape(&stage).await.shows(&[
            ("cellshift_fences_refused_total{place=\"host\"}", 1.0),
            ("cellshift_fences_refused_total{place=\"cell1\"}", 1.0),
            ("cellshift_db_calls_total{database=\"cell1\",kind=\"write\",outcome=\"stale\"}", 1.0),
        ]);
    });
}

#[test]
fn metrics_count_the_restart_of_a_dead_host() {
    play_default(|stage| async move {
        let cell = stage.running.tree.cell("cell1").expect("a cell");
        let crashed = cell.hosts.trial("cell1-host1", HostTrial::Crash, PATIENCE).await;
        assert!(matches!(crashed, Err(HostUnreachable::Unknown(_))), "{crashed:?}");
        until(&stage, "cellshift_actor_restarts_total{actor=\"host\"}", 1.0).await;
    });
}

#[test]
fn the_api_answers_those_whom_the_policy_allows() {
    play_default(|stage| async move {
        stage.member.get("/metrics").await.expect(403);
        let url = format!("http://{}/metrics", stage.running.address);
        assert_eq!(reqwest::get(&url).await.expect("an answer").status(), 401);
        stage.admin.get("/metrics").await.expect(200);
        let monitor = stage.user("prometheus", "monitoring", "reader").await;
        monitor.get("/metrics").await.expect(403);
        std::fs::write(stage.running.cloud.config.policy_file(), "\"ops:metrics\": \"role:reader\"\n").expect("a policy");
        stage.until("the rule holds", || async { monitor.get("/metrics").await.status == 200 }).await;
        monitor.get("/ops/v1/cells").await.expect(403);
    });
}

#[test]
fn a_listener_of_its_own_tells_metrics_and_nothing_else() {
    let own = |config: &mut cellshift::config::Config| config.metrics.listen = Some("127.0.0.1:0".parse().expect("an address"));
    play(own, |stage| async move {
        let (address, _) = stage.running.metrics.as_ref().expect("a listener");
        let answer = reqwest::get(format!("http://{address}/metrics")).await.expect("an answer");
        assert_eq!(answer.status(), 200);
        let metrics = Scrape::of(&answer.text().await.expect("a text"));
        assert!(metrics.value("cellshift_db_calls_total{database=\"api\",kind=\"read\",outcome=\"ok\"}") >= 1.0);
        for path in ["/", "/healthcheck", "/ops/v1/cells", "/compute/v2.1/servers"] {
            assert_eq!(reqwest::get(format!("http://{address}{path}")).await.expect("an answer").status(), 404, "{path}");
        }
        stage.admin.get("/metrics").await.expect(404);
    });
}

#[test]
fn metrics_that_are_switched_off_are_nowhere() {
    play(
        |config| config.metrics.enabled = false,
        |stage| async move {
            stage.admin.get("/metrics").await.expect(404);
            assert!(stage.running.metrics.is_none());
        },
    );
}

#[test]
fn two_services_in_a_process_count_for_themselves() {
    play_placed(
        |_| {},
        |_| {},
        |stage| async move {
            let other = cellshift::env::Env::system();
            assert!(other.metrics().text().contains("\ncellshift_queued_deletes 0\n"));
            assert!(!other.metrics().text().contains("cellshift_db_calls_total"), "nothing of the running service");
            stage.admin.get("/metrics").await.expect(200);
        },
    );
}

#[test]
fn a_place_to_listen_that_is_taken_or_wrong_stops_the_start() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    for (text, parts) in [
        (format!("[metrics]\nlisten = \"{address}\"\n"), ["metrics.listen", "Choose another address"]),
        ("[metrics]\nlisten = \"nowhere\"\n".to_owned(), ["listen = ", "ADDRESS:PORT"]),
    ] {
        let data = tempfile::tempdir().expect("a directory");
        let file = data.path().join("cellshift.toml");
        std::fs::write(&file, text).expect("a configuration");
        let said = Service::refusal(&data.path().join("data"), &["--config", file.to_str().expect("a path")]);
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
}

/// Returns all metrics: the kind, the labels and the help by the name.
fn rows() -> BTreeMap<&'static str, String> {
    let metrics = cellshift::metrics::Metrics::on();
    let row = |metric: &cellshift::metrics::MetricDescription| {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        (metric.name, format!("| `{}` | {} | {} | {} |\n", metric.name, metric.kind, labels.join(", "), metric.help))
    };
    metrics.descriptions().iter().map(row).collect()
}

/// Returns the name of a histogram whose sample this is, else the name itself.
fn whole(name: &str) -> &str {
    let base = ["_bucket", "_count", "_sum"].into_iter().find_map(|suffix| name.strip_suffix(suffix));
    base.filter(|base| base.ends_with("_duration_seconds")).unwrap_or(name)
}

fn file(path: &str) -> String {
    std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("a file")
}

const PAGE: &str = "docs/operating/watching.md";
const BEGIN: &str = "<!-- Made from the program: CELLSHIFT_WRITE_DOCS=1 cargo test --test it metrics:: -->\n";
const END: &str = "<!-- The end of the list of metrics. -->\n";

#[test]
fn the_page_lists_every_metric() {
    let page = file(PAGE);
    let (before, rest) = page.split_once(BEGIN).expect("the place of the list");
    let (listed, after) = rest.split_once(END).expect("the end of the list");
    let rows: String = rows().into_values().collect();
    let expected = format!("| metric | kind | labels | meaning |\n|---|---|---|---|\n{rows}");
    if std::env::var_os("CELLSHIFT_WRITE_DOCS").is_some() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
        std::fs::write(path, format!("{before}{BEGIN}{expected}{END}{after}")).expect("the page is written");
        return;
    }
    let differing = listed.lines().zip(expected.lines()).find(|(listed, expected)| listed != expected);
    assert!(listed == expected, "{PAGE} is stale, first in {differing:?}: make it anew with the command that it names");
}

#[test]
fn the_page_explains_every_alert() {
    let alert = Regex::new(r"(?m)^ +- alert: (\w+)$").expect("a pattern");
    let rules = file("packaging/prometheus/cellshift.rules.yml");
    let alerts: Vec<&str> = alert.captures_iter(&rules).filter_map(|heading| heading.get(1)).map(|name| name.as_str()).collect();
    let heading = Regex::new(r"(?m)^#### (Cellshift\w+)$").expect("a pattern");
    let page = file(PAGE);
    let explained: Vec<&str> = heading.captures_iter(&page).filter_map(|heading| heading.get(1)).map(|name| name.as_str()).collect();
    assert_eq!(explained, alerts, "in the order of the rules");
    let tests = file("packaging/prometheus/cellshift.rules.test.yml");
    for alert in alerts {
        let runbook = format!("runbook_url: file:///usr/share/doc/cellshift/{PAGE}#{}\n", alert.to_lowercase());
        assert!(rules.contains(&runbook), "{alert} leads to no paragraph of {PAGE}");
        assert!(tests.contains(&format!("alertname: {alert}\n        exp_alerts")), "no test sees {alert} raised");
    }
}

#[test]
fn the_documented_command_changes_where_alerts_lead() {
    let page = file(PAGE);
    let script = Regex::new(r"(?m)^    sed '(.+)' \\$").expect("a pattern").captures(&page).expect("the command")[1].to_owned();
    let rules = "packaging/prometheus/cellshift.rules.yml";
    let changed = Command::new("sed").arg(script).arg(rules).current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("sed runs");
    let (before, after) = (file(rules), String::from_utf8(changed.stdout).expect("text"));
    let places = |rules: &str, base: &str| rules.matches(&format!("runbook_url: {base}/{PAGE}#")).count();
    let alerts = before.matches("- alert: ").count();
    assert_eq!(places(&before, "file:///usr/share/doc/cellshift"), alerts);
    assert_eq!((places(&after, "https://docs.example.org/cellshift"), after.contains("file://")), (alerts, false));
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_exist() {
    let name = Regex::new(r"\b(?:cellshift|process)_[a-z_]+").expect("a pattern");
    let rows = rows();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for path in
        ["packaging/prometheus/cellshift.rules.yml", "packaging/prometheus/cellshift.rules.test.yml", "packaging/grafana/cellshift.json"]
    {
        let text = file(path);
        for word in name.find_iter(&text) {
            let metric = whole(word.as_str());
            assert!(rows.contains_key(metric), "{path} asks for {metric}, which does not exist");
            seen.extend(rows.keys().copied().find(|name| *name == metric));
        }
    }
    let dashboard: serde_json::Value = serde_json::from_str(&file("packaging/grafana/cellshift.json")).expect("JSON");
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() > 20));
    let unseen: Vec<_> = rows.keys().filter(|name| !seen.contains(*name)).collect();
    assert!(unseen.is_empty(), "neither an alert nor the dashboard shows {unseen:?}");
}
