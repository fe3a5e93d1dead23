//! Sends spans to a collector: OpenTelemetry's protocol over HTTP, with JSON.

use std::pin::pin;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::json;
use tokio::sync::mpsc::Receiver;
use tokio::time::sleep;

use super::{Message, Span, Traces, Value};

/// The maximum number of spans in a message.
const BATCH_MAX: usize = 512;
/// The maximum time that a span waits for others before a message is sent. A process that is killed loses the spans that wait.
const BATCH_WAIT: Duration = Duration::from_millis(250);
/// The maximum time for the collector's answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pauses after failures: a message is tried this often, and then given up.
const PAUSES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(25)];

/// Sends the spans of `traces` to the collector at this URL, until all that could tell spans are gone.
pub async fn export(traces: Traces, collector: String) {
    let Some(mut receiver) = traces.take_receiver() else { return };
    let client = match reqwest::Client::builder().timeout(PATIENCE).build() {
        Ok(client) => client,
        Err(error) => return log::error!("no trace is sent: {error}"),
    };
    let mut exporter = Exporter { client, url: format!("{}/v1/traces", collector.trim_end_matches('/')), failing: false };
    let mut spans = Vec::new();
    while let Some(first) = receiver.recv().await {
        let end = gather(&mut spans, first, &mut receiver).await;
        let dropped = traces.take_dropped();
        if dropped > 0 {
            log::warn!("{dropped} spans are dropped, because the collector of traces is too slow");
        }
        exporter.send(&spans, end.is_some()).await;
        spans.clear();
        // Nobody may wait any more.
        end.map(|end| end.send(()));
    }
}

/// Adds spans until the message is full, the first one has waited long enough, or the request to send all arrives, which it returns.
async fn gather(spans: &mut Vec<Span>, first: Message, receiver: &mut Receiver<Message>) -> Option<tokio::sync::oneshot::Sender<()>> {
    let mut next = Some(first);
    let mut waited = pin!(sleep(BATCH_WAIT));
    loop {
        match next {
            Some(Message::Span(span)) => spans.push(span),
            Some(Message::End(end)) => return Some(end),
            None => return None,
        }
        if spans.len() >= BATCH_MAX {
            return None;
        }
        next = tokio::select! {
            biased;
            next = receiver.recv() => next,
            () = &mut waited => return None,
        };
    }
}

struct Exporter {
    client: reqwest::Client,
    url: String,
    failing: bool,
}

impl Exporter {
    /// Sends a message. Tries once if it is the last one, else several times.
    async fn send(&mut self, spans: &[Span], is_last: bool) {
        if spans.is_empty() {
            return;
        }
        let message = message(spans);
        let mut pauses = PAUSES.iter().take(if is_last { 0 } else { PAUSES.len() });
        loop {
            let sent = self.client.post(&self.url).json(&message).send().await.and_then(reqwest::Response::error_for_status);
            let Err(error) = sent else {
                self.failing = false;
                return;
            };
            // Once, not for each message.
            if !std::mem::replace(&mut self.failing, true) {
                log::warn!("the collector of traces does not take them: {error}");
            }
            match pauses.next() {
                Some(pause) => sleep(*pause).await,
                None => return,
            }
        }
    }
}

/// Returns the request for these spans (`ExportTraceServiceRequest`).
fn message(spans: &[Span]) -> serde_json::Value {
    let version = env!("CARGO_PKG_VERSION");
    let resource = attributes(&[("service.name", Value::Text("cellshift".into())), ("service.version", Value::Text(version.into()))]);
    let spans: Vec<serde_json::Value> = spans.iter().map(of_span).collect();
    let scope = json!({"name": "cellshift", "version": version});
    json!({"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [{"scope": scope, "spans": spans}]}]})
}

fn of_span(span: &Span) -> serde_json::Value {
    // The numbers of `SpanKind` and `StatusCode`: internal and server; unset and error.
    let kind = if span.is_request { 2 } else { 1 };
    let status = span.error.as_ref().map_or_else(|| json!({}), |error| json!({"code": 2, "message": error}));
    let mut object = json!({
        "traceId": format!("{:032x}", span.context.trace),
        "spanId": format!("{:016x}", span.context.span),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": nanoseconds(span.begun_at),
        "endTimeUnixNano": nanoseconds(span.ended_at.max(span.begun_at)),
        "attributes": attributes(&span.attributes),
        "status": status,
    });
    if let Some(parent) = span.parent {
        object["parentSpanId"] = format!("{parent:016x}").into();
    }
    object
}

/// Returns a moment as the protocol wants it: a number as text, because it needs 64 bits.
fn nanoseconds(at: DateTime<Utc>) -> String {
    at.timestamp_nanos_opt().unwrap_or_default().to_string()
}

fn attributes(pairs: &[(&str, Value)]) -> Vec<serde_json::Value> {
    let value = |value: &Value| match value {
        Value::Text(text) => json!({"stringValue": text}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
    };
    pairs.iter().map(|(key, attribute)| json!({"key": key, "value": value(attribute)})).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellshift_domain::trace::TraceContext;

    fn span() -> Span {
        let at = DateTime::UNIX_EPOCH;
        Span {
            context: TraceContext { trace: 10, span: 11 },
            parent: Some(12),
            name: "resize".into(),
            is_request: false,
            begun_at: at,
            ended_at: at + chrono::TimeDelta::milliseconds(2),
            attributes: vec![("a", Value::Text("b".into())), ("c", Value::Number(7))],
            error: Some("h2 is away".into()),
        }
    }

    #[test]
    fn a_span_has_the_form_of_the_protocol() {
        let expected = json!({
            "traceId": "0000000000000000000000000000000a", "spanId": "000000000000000b", "parentSpanId": "000000000000000c",
            "name": "resize", "kind": 1, "startTimeUnixNano": "0", "endTimeUnixNano": "2000000",
            "attributes": [{"key": "a", "value": {"stringValue": "b"}}, {"key": "c", "value": {"intValue": "7"}}],
            "status": {"code": 2, "message": "h2 is away"},
        });
        assert_eq!(message(&[span()])["resourceSpans"][0]["scopeSpans"][0]["spans"], json!([expected]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_steady_trickle_of_spans_keeps_none_waiting() {
        let traces = Traces::on();
        let mut receiver = traces.take_receiver().expect("a receiver");
        let trickle = tokio::spawn(async move {
            loop {
                traces.tell([span()]);
                sleep(BATCH_WAIT / 4).await;
            }
        });
        let first = receiver.recv().await.expect("a span");
        let (mut spans, start) = (Vec::new(), tokio::time::Instant::now());
        assert!(gather(&mut spans, first, &mut receiver).await.is_none());
        assert!(start.elapsed() <= BATCH_WAIT && (2..6).contains(&spans.len()), "{:?} for {} spans", start.elapsed(), spans.len());
        trickle.abort();
    }

    #[tokio::test]
    async fn spans_are_told_off_and_without_an_exporter() {
        let off = Traces::default();
        assert!(!off.is_on());
        off.tell([]);
        off.ended().await;
        let on = Traces::on();
        assert!(on.is_on() && on.take_receiver().is_some() && on.take_receiver().is_none());
        // The receiver is gone, so nothing is sent and nobody waits.
        on.ended().await;
    }
}
