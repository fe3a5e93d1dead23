//! Tests of what a scrape shows, and of the rules for names.

use super::*;

#[test]
fn events_are_shown_with_their_labels_help_and_units() {
    let metrics = Metrics::on();
    metrics.request_ended(Some("/servers/{id}"), "GET", 200, Duration::from_millis(3));
    metrics.request_ended(None, "BREW", 401, Duration::ZERO);
    metrics.step(["resize", "accept", "act", "ok"], Duration::from_secs(2));
    metrics.copied("memory", 7);
    let text = metrics.text();
    for line in [
        "# HELP cellshift_http_requests Requests that were answered; route none was refused or unknown before a route was found.",
        "# TYPE cellshift_http_requests counter",
        "cellshift_http_requests_total{route=\"/servers/{id}\",method=\"GET\",status=\"200\"} 1",
        "cellshift_http_requests_total{route=\"none\",method=\"other\",status=\"401\"} 1",
        "# UNIT cellshift_http_request_duration_seconds seconds",
        "cellshift_http_request_duration_seconds_bucket{le=\"0.005\",route=\"/servers/{id}\",method=\"GET\"} 1",
        "cellshift_steps_total{kind=\"resize\",step=\"accept\",side=\"act\",outcome=\"ok\"} 1",
        "cellshift_step_duration_seconds_sum{step=\"accept\",side=\"act\"} 2.0",
        "cellshift_copied_bytes_total{what=\"memory\"} 7",
        "cellshift_operations_waiting 0",
        "# EOF",
    ] {
        assert!(text.lines().any(|row| row == line), "{line} is not in\n{text}");
    }
    assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
}

#[test]
fn two_services_of_a_process_count_for_themselves() {
    let (one, other) = (Metrics::on(), Metrics::on());
    one.queued_deletes(3);
    assert!(one.text().contains("\ncellshift_queued_deletes 3\n"));
    assert!(other.text().contains("\ncellshift_queued_deletes 0\n"));
}

#[test]
fn a_level_falls_when_its_guards_are_dropped() {
    let metrics = Metrics::on();
    let (first, second) = (metrics.request_begins(), metrics.request_begins());
    assert!(metrics.text().contains("\ncellshift_http_requests_in_flight 2\n"));
    drop((first, second));
    assert!(metrics.text().contains("\ncellshift_http_requests_in_flight 0\n"));
}

#[test]
fn each_kind_of_mailbox_shows_its_messages() {
    let metrics = Metrics::on();
    let waits = metrics.messages(Mailbox::Notifier).enter();
    for (kind, waiting) in Mailbox::ALL.map(|kind| (kind.as_str(), i32::from(kind == Mailbox::Notifier))) {
        let line = format!("\ncellshift_messages_in_flight{{actor=\"{kind}\"}} {waiting}\n");
        assert!(metrics.text().contains(&line), "{line}");
    }
    drop(waits);
    assert!(metrics.text().contains("\ncellshift_messages_in_flight{actor=\"notifier\"} 0\n"));
}

#[test]
fn metrics_that_are_off_count_nothing() {
    let metrics = Metrics::off();
    metrics.request_ended(Some("/"), "GET", 200, Duration::ZERO);
    metrics.commits("api").note();
    assert!(metrics.database("api").is_none() && metrics.descriptions().is_empty());
    assert_eq!(metrics.text(), "");
}

#[test]
fn a_name_says_its_unit_and_no_label_can_hold_an_id() {
    let metrics = Metrics::on();
    for metric in metrics.descriptions() {
        let (name, help) = (metric.name, metric.help);
        assert!(name.starts_with("cellshift_") || name.starts_with("process_"), "{name}");
        assert_eq!(metric.kind == "counter", name.ends_with("_total"), "{name}");
        assert!(metric.kind != "histogram" || name.ends_with("_duration_seconds"), "{name}");
        assert!(!help.is_empty() && !help.ends_with('.'), "{name}: the encoder ends the sentence");
        let bounded = [
            "actor",
            "cell",
            "class",
            "conductor",
            "database",
            "end",
            "kind",
            "method",
            "operation",
            "outcome",
            "place",
            "reason",
            "route",
            "side",
            "state",
            "status",
            "step",
            "version",
            "what",
        ];
        assert!(metric.labels.iter().all(|label| bounded.contains(label)), "{name}: {:?}", metric.labels);
    }
}
