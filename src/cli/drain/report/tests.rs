//! Tests of the words for drains.

use serde_json::json;

use super::*;

fn drain(state: &str, moving: u64) -> Value {
    json!({
        "id": "d", "state": state, "cell": "cell1", "hosts": ["h1"], "whole_cell": false, "to_cells": null, "to_zone": "east",
        "hosts_disabled": true, "reason": null, "stays": 1,
        "servers": {"moved": 5, "gone": 0, "refused": 1, "pending": 3, "moving": moving},
    })
}

#[test]
fn the_bar_counts_servers_that_have_ended() {
    assert_eq!(progress(&drain("running", 1)), "[##################............] 6/10 servers, 1 in flight, 3 waiting, 1 refused");
    assert!(progress(&drain("paused", 0)).ends_with(", 3 waiting, 1 refused, paused"));
    assert!(!is_over(&drain("paused", 0)) && !is_over(&drain("cancelled", 1)) && is_over(&drain("cancelled", 0)));
}

#[test]
fn the_outlook_has_the_room_of_hosts_and_the_time() {
    let target = json!({
        "cell": "cell1", "host": "h2", "moves": 3, "vcpus": {"now": 1, "after": 4, "total": 64},
        "memory_mb": {"now": 512, "after": 2048, "total": 32768}, "disk_gb": {"now": 1, "after": 4, "total": 200},
    });
    let plan = |seconds: Value, measured: Value| {
        outlook(&json!({"stays": 1, "targets": [target], "time": {"seconds": seconds, "measured": measured}}))
    };
    let live = json!({"kind": "live", "moves": 50, "seconds_each": 0.5});
    let hosts = "One server stays where it is.\nAfter the moves these hosts have in use:\n  \
                 h2 in cell1: 4 of 64 vCPUs, 2048 of 32768 MiB of memory, 4 of 200 GiB of disk; 3 more servers\n";
    let timed_plan = plan(json!(120), json!([live]));
    assert_eq!(timed_plan, format!("{hosts}The moves take about 2 min: the last 50 live moves took 0.5 s each.\n"));
    let unknown = plan(Value::Null, json!([live, {"kind": "cold", "moves": 0, "seconds_each": null}]));
    assert_eq!(unknown, format!("{hosts}How long the moves take is not measured yet: no cold move has ended.\n"));
    assert_eq!(outlook(&json!({"stays": 0, "targets": [], "time": {"seconds": 0, "measured": []}})), "");
}

#[test]
fn the_report_says_who_stays_and_why() {
    let refused = |name: &str| json!({"server": "s", "name": name, "host": "h1", "state": "refused", "reason": "no aggregate with generation gen1 (6 hosts)"});
    let servers = [
        json!({"server": "a", "host": "h1", "state": "refused", "reason": "the server is locked"}),
        refused("web"),
        refused("d\u{1b}b"),
        json!({"server": "b", "host": "h1", "state": "moved", "target": "h9", "reason": "its move waits for confirm or revert"}),
        json!({"server": "c", "host": "h1", "state": "moved", "target": "h9", "reason": null}),
    ];
    let text = summary(&drain("done", 0), &servers);
    let report = "Drain d of host h1 to availability zone east has ended, 1 stayed: 5 moved, 0 gone, 0 in flight, 3 waiting, 1 refused.\n  \
                  2 servers stay: no aggregate with generation gen1 (6 hosts) (web, d b)\n  \
                  1 server has moved: its move waits for confirm or revert (b)\n  \
                  1 server stays: the server is locked (a)\nThe service stays disabled on what was drained; \
                  enable it with: cellshift drain h1 --undo\n";
    assert_eq!(text, report);
}

#[test]
fn servers_that_a_cancelled_drain_does_not_try_stay() {
    let waiting = [json!({"server": "a", "state": "pending", "reason": "cell2 does not answer"})];
    assert!(summary(&drain("paused", 0), &waiting).contains("\n  1 server still waits: cell2 does not answer (a)\n"));
    let unconfirmed = ["a", "b"].map(|name| json!({"name": name, "state": "moved", "reason": "its move waits for confirm or revert"}));
    assert!(summary(&drain("done", 0), &unconfirmed).contains("\n  2 servers have moved: their moves wait for confirm or revert (a, b)\n"));
    assert!(summary(&drain("cancelled", 0), &waiting).contains("\n  1 server stays: cell2 does not answer (a)\n"));
}

#[test]
fn a_drain_without_servers_that_stay_is_done() {
    let mut drain = drain("done", 0);
    drain["stays"] = json!(0);
    assert!(summary(&drain, &[]).contains("east is done: 5 moved"), "{}", summary(&drain, &[]));
    assert_eq!(state(&drain), "done");
}

#[test]
fn an_undone_drain_names_who_stays_away_and_who_stays_disabled() {
    let moved = [json!({"server": "a", "name": "web", "target": "h9"}), json!({"server": "b", "name": null, "target": "h9"})];
    let disabled = [json!({"name": "h1", "disabled_reason": "a broken fan"})];
    let report = undone(&drain("undone", 0), &moved, &disabled);
    let lines: Vec<&str> = report.lines().collect();
    assert_eq!(lines[0], "Drain d of host h1 is undone: 5 have moved and stay there, 1 did not move, 0 gone.");
    assert_eq!(
        lines[1..],
        ["  2 servers on h9 (web, b)", "Its host stays disabled, because somebody else disabled it:", "  h1: a broken fan"]
    );
    assert!(undone(&drain("undone", 0), &[], &[]).ends_with("Its host is enabled.\n"));
    let mut of_two = drain("undone", 0);
    of_two["hosts"] = json!(["h1", "h2"]);
    let ends = |disabled: &[Value], end: &str| undone(&of_two, &[], disabled).ends_with(end);
    assert!(ends(&[], "Its hosts are enabled.\n") && ends(&disabled, "but for those that somebody else disabled:\n  h1: a broken fan\n"));
}

#[test]
fn a_drain_names_its_cells_and_some_hosts() {
    let mut of_cell = drain("running", 0);
    (of_cell["whole_cell"], of_cell["hosts"]) = (json!(true), json!(["h1", "h2", "h3", "h4"]));
    assert_eq!(source(&of_cell), "cell cell1 (h1, h2, h3, …)");
    let to = |cells: Value| destination(&json!({ "to_cells": cells }));
    assert_eq!((&*to(json!(["c2"])), &*to(json!(["c2", "c3"]))), ("cell c2", "the cells c2, c3"));
}

#[test]
fn a_preview_tells_reasons_once() {
    let stays =
        |name: &str| json!({"server": name, "name": name, "host": "h1", "kind": null, "target": null, "reason": "the server is locked"});
    let mut plan = drain("running", 0);
    plan["servers"] = json!([stays("web"), stays("db")]);
    plan["stays"] = json!(2);
    assert!(preview(&plan).contains("\n  2 servers stay: the server is locked (web, db)\n2 servers stay where they are.\n"));
    (plan["servers"], plan["stays"]) = (json!([]), json!(0));
    assert!(preview(&plan).ends_with("nothing is started.\n  There is no server to move.\n"));
}
