//! The log: one line per event on standard error, as text or JSON, with key-value pairs.

use std::io::Write;

use env_logger::fmt::Formatter;
use log::Record;
use log::kv::{Error, Key, Value, VisitSource};

use crate::config::log_level::{LEVELS, misspelt};
use crate::config::{Log, LogFormat};
use crate::env::{Clock, SystemClock};

/// The time of an event in UTC, for people.
const MILLISECONDS: &str = "%Y-%m-%dT%H:%M:%S%.3fZ";
/// The time of an event in UTC, for programs.
const MICROSECONDS: &str = "%Y-%m-%dT%H:%M:%S%.6fZ";

/// The reason why the log cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("log.level: {0:?} is no level: it must be {levels}", levels = LEVELS)]
    Level(String),
    #[error("{0}")]
    Twice(#[from] log::SetLoggerError),
}

/// Starts logging for the whole process, including panics.
pub fn init(config: &Log) -> Result<(), LogError> {
    if let Some(wrong) = misspelt(&config.level) {
        return Err(LogError::Level(wrong.to_owned()));
    }
    let mut builder = env_logger::Builder::new();
    builder.parse_filters(&config.level);
    match config.format {
        LogFormat::Text => builder.format(text),
        LogFormat::Json => builder.format(json),
    };
    builder.try_init()?;
    std::panic::set_hook(Box::new(|panic| log::error!(target: "cellshift::panic", "{}", one_line(&panic.to_string()))));
    Ok(())
}

fn text(out: &mut Formatter, record: &Record<'_>) -> std::io::Result<()> {
    let (message, level) = (one_line(&record.args().to_string()), record.level());
    // Without colour where standard error is no terminal, or the terminal or NO_COLOR says so.
    let style = out.default_level_style(level);
    let now = SystemClock.now().format(MILLISECONDS);
    let mut line = format!("{now} {style}{level:5}{style:#} {} {message}", record.target());
    let mut pairs = Pairs::default();
    // Collecting cannot fail, because the visitor below returns no error.
    let _ = record.key_values().visit(&mut pairs);
    for (key, value) in pairs.0 {
        let value = match value {
            serde_json::Value::String(text) if !text.is_empty() && !text.contains([' ', '"', '=', '\n']) => text,
            other => other.to_string(),
        };
        // The message of a request has its method and status.
        if message.split(' ').any(|word| word == value) {
            continue;
        }
        line.push_str(&format!(" {key}={value}"));
    }
    writeln!(out, "{line}")
}

fn json(out: &mut Formatter, record: &Record<'_>) -> std::io::Result<()> {
    let mut pairs = Pairs::default();
    let _ = record.key_values().visit(&mut pairs);
    let mut event = serde_json::Map::new();
    event.insert("timestamp".into(), SystemClock.now().format(MICROSECONDS).to_string().into());
    event.insert("level".into(), record.level().as_str().into());
    event.insert("target".into(), record.target().into());
    event.insert("message".into(), record.args().to_string().into());
    for (key, value) in pairs.0 {
        event.entry(key).or_insert(value);
    }
    writeln!(out, "{}", serde_json::Value::Object(event))
}

/// Escapes line breaks, so that a message cannot look like two.
fn one_line(message: &str) -> String {
    message.replace('\r', "\\r").replace('\n', "\\n")
}

/// A record's pairs, in order.
#[derive(Default)]
struct Pairs(Vec<(String, serde_json::Value)>);

impl<'kvs> VisitSource<'kvs> for Pairs {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        let value = match (value.to_i64(), value.to_u64(), value.to_f64(), value.to_bool()) {
            (Some(number), ..) => number.into(),
            (None, Some(number), ..) => number.into(),
            (None, None, Some(number), _) => number.into(),
            (None, None, None, Some(flag)) => flag.into(),
            _ => value.to_string().into(),
        };
        self.0.push((key.to_string(), value));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_keep_their_kinds() {
        let mut pairs = Pairs::default();
        let source: &[(&str, Value<'_>)] = &[("a", Value::from(1)), ("b", Value::from("x y")), ("c", Value::from(true))];
        log::kv::Source::visit(&source, &mut pairs).unwrap();
        assert_eq!(pairs.0, [("a".into(), 1.into()), ("b".into(), "x y".into()), ("c".into(), true.into())]);
    }
}
