//! The place of work in a trace, as W3C's Trace Context (level 1) tells it in the header `traceparent`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A span in a trace, to which further spans belong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceContext {
    pub trace: u128,
    pub span: u64,
}

/// The text is no `traceparent` that asks for spans.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a traceparent of a recorded trace")]
pub struct NoTrace;

/// The length of a `traceparent` of the only version that there is, 00. Later versions may append to it.
const LENGTH: usize = 55;

impl FromStr for TraceContext {
    type Err = NoTrace;

    /// Reads a `traceparent`. An invalid one is to be ignored, and so is that of a trace which its beginner does not record.
    fn from_str(text: &str) -> Result<TraceContext, NoTrace> {
        let is_long = text.len() == LENGTH || (text.len() > LENGTH && !text.starts_with("00") && text.as_bytes()[LENGTH] == b'-');
        let parts: Vec<&str> = text.get(..LENGTH).filter(|_| is_long).ok_or(NoTrace)?.split('-').collect();
        let [version, trace, span, flags] = parts[..] else { return Err(NoTrace) };
        let is_hex = |digits: &str| digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        let have_lengths = [version, trace, span, flags].map(str::len) == [2, 32, 16, 2];
        if !have_lengths || ![version, trace, span, flags].into_iter().all(is_hex) || version == "ff" {
            return Err(NoTrace);
        }
        let context = TraceContext {
            trace: u128::from_str_radix(trace, 16).map_err(|_| NoTrace)?,
            span: u64::from_str_radix(span, 16).map_err(|_| NoTrace)?,
        };
        let is_recorded = u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1);
        if context.trace == 0 || context.span == 0 || !is_recorded { Err(NoTrace) } else { Ok(context) }
    }
}

impl TraceContext {
    /// Makes the id of a span, which is not 0, of an id.
    pub fn span_of(id: Uuid) -> u64 {
        let [.., a, b, c, d, e, f, g, h] = id.into_bytes();
        u64::from_be_bytes([a, b, c, d, e, f, g, h]).max(1)
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-01", self.trace, self.span)
    }
}

impl From<TraceContext> for String {
    fn from(context: TraceContext) -> String {
        context.to_string()
    }
}

impl TryFrom<String> for TraceContext {
    type Error = NoTrace;

    fn try_from(text: String) -> Result<TraceContext, NoTrace> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_and_written() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context: TraceContext = text.parse().unwrap();
        assert_eq!((context.trace, context.span), (0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7));
        assert_eq!(context.to_string(), text);
        assert_eq!(serde_json::from_str::<TraceContext>(&serde_json::to_string(&context).unwrap()).unwrap(), context);
        let later = text.replacen("00-", "01-", 1);
        assert_eq!((later.parse(), format!("{later}-more").parse()), (Ok(context), Ok(context)));
    }

    #[test]
    fn an_invalid_or_unrecorded_header_is_no_trace() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        for text in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e47361-0f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-é1",
            &zero_trace,
        ] {
            assert_eq!(text.parse::<TraceContext>(), Err(NoTrace), "{text}");
        }
    }
}
