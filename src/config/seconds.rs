//! A time span in seconds, with an optional fraction.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A non-negative number of seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Seconds(Duration);

impl Seconds {
    pub const fn whole(seconds: u64) -> Seconds {
        Seconds(Duration::from_secs(seconds))
    }

    pub const fn millis(milliseconds: u64) -> Seconds {
        Seconds(Duration::from_millis(milliseconds))
    }

    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl JsonSchema for Seconds {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Seconds".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 0, "x-unit": "seconds"})
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.subsec_nanos() {
            0 => serializer.serialize_u64(self.0.as_secs()),
            _ => serializer.serialize_f64(self.0.as_secs_f64()),
        }
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Seconds, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Seconds;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number of seconds, 0 or more")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Seconds, E> {
                let seconds = u64::try_from(value).map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))?;
                Ok(Seconds::whole(seconds))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Seconds, E> {
                Ok(Seconds::whole(value))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Seconds, E> {
                let duration = Duration::try_from_secs_f64(value).map_err(|_| E::invalid_value(de::Unexpected::Float(value), &self))?;
                Ok(Seconds(duration))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
