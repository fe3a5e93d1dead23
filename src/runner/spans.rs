//! The spans of an ended operation, made of its journal: its own, below that of its request, and below it one for each try of a step.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::domain::saga_record::JournalEntry;
use crate::domain::saga_state::SagaState;
use crate::domain::trace::TraceContext;
use crate::saga::context::{Context, Place};
use crate::saga::migration_view::{StepView, steps_of};
use crate::traces::{Span, Value};

/// Returns the spans. Their ids follow from the journal alone, so that a collector recognises spans that are sent twice. An operation that
/// the service began by itself has a trace of its own.
pub fn of(context: &Context, state: SagaState, entries: &[JournalEntry], (began, ended): (DateTime<Utc>, DateTime<Utc>)) -> Vec<Span> {
    let request = context.caller.trace;
    let trace = request.map_or(context.saga.as_u128(), |request| request.trace);
    let own = TraceContext { trace, span: TraceContext::span_of(context.saga) };
    let text = |name, value: &dyn ToString| (name, Value::Text(value.to_string()));
    let mut attributes = vec![
        text("cellshift.migration", &context.saga),
        text("cellshift.server", &context.server),
        text("cellshift.request_id", &context.caller.request_id),
        text("cellshift.state", &state),
    ];
    let places: [(&str, &Option<Place>); 2] = [("cellshift.source", &context.source), ("cellshift.target", &context.target)];
    attributes.extend(places.into_iter().filter_map(|(name, place)| Some(text(name, place.as_ref()?))));
    let steps = steps_of(entries);
    // The first step is tried before the record of the operation is made.
    let began = steps.first().map_or(began, |first| began.min(first.begun_at));
    let operation = Span {
        context: own,
        parent: request.map(|request| request.span),
        name: context.kind.to_string(),
        is_request: false,
        begun_at: began,
        ended_at: ended,
        attributes,
        error: context.error.as_ref().map(ToString::to_string),
    };
    std::iter::once(operation).chain(steps.iter().map(|step| of_step(own, context.saga, step))).collect()
}

fn of_step(operation: TraceContext, saga: Uuid, step: &StepView) -> Span {
    let id = Uuid::new_v5(&saga, &step.seq.to_be_bytes());
    let outcome = step.outcome.clone().unwrap_or_default();
    Span {
        context: TraceContext { span: TraceContext::span_of(id), ..operation },
        parent: Some(operation.span),
        name: if step.side == "undo" { format!("undo {}", step.step) } else { step.step.clone() },
        is_request: false,
        begun_at: step.begun_at,
        // A try whose runner died has no end.
        ended_at: step.ended_at.unwrap_or(step.begun_at),
        attributes: vec![("cellshift.attempt", Value::Number(step.attempt)), ("cellshift.outcome", Value::Text(outcome))],
        error: step.error.clone(),
    }
}
