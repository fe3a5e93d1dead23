//! Types of values that clients write in several forms, as Nova reads them.

use std::borrow::Cow;

use schemars::{JsonSchema, SchemaGenerator};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::rules::rule;
use crate::domain::secret::Secret;
use crate::http::error::ApiError;
use crate::http::schema;

/// A flag in any of the words that clients use; false if the field is absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flag(pub bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Flag, D::Error> {
        Value::deserialize(deserializer).map(|value| Flag(schema::as_bool(&value)))
    }
}

impl JsonSchema for Flag {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Flag".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
        rule(schema::boolean())
    }
}

/// An integer from `LEAST` (0 or 1) on, or its digits; zero if the field is absent.
#[derive(Clone, Debug, Deserialize)]
pub struct Integer<const LEAST: u8>(Value);

impl<const LEAST: u8> Integer<LEAST> {
    /// Returns the number. 400, with the name of the field, if it is too large to store.
    pub fn stored(&self, field: &str) -> Result<i32, ApiError> {
        schema::as_integer(&self.0, field)
    }
}

impl<const LEAST: u8> Default for Integer<LEAST> {
    fn default() -> Integer<LEAST> {
        Integer(json!(0))
    }
}

impl<const LEAST: u8> JsonSchema for Integer<LEAST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("IntegerFrom{LEAST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
        rule(schema::integer(LEAST))
    }
}

/// A text that is a secret of the guest.
#[derive(Clone, Default)]
pub struct SecretText(pub Secret<String>);

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SecretText, D::Error> {
        String::deserialize(deserializer).map(|text| SecretText(Secret::new(text)))
    }
}

/// Any value, which has no effect.
pub struct Anything;

impl<'de> Deserialize<'de> for Anything {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Anything, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Anything)
    }
}

impl JsonSchema for Anything {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Anything".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
        schemars::Schema::default()
    }
}

/// The `T` of an action; its default for null, and for the values of any kind that older clients may send without effect.
pub struct Lenient<T>(pub T);

impl<'de, T: DeserializeOwned + Default> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Lenient<T>, D::Error> {
        Value::deserialize(deserializer).map(|value| Lenient(serde_json::from_value(value).unwrap_or_default()))
    }
}

impl<T: JsonSchema> JsonSchema for Lenient<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> schemars::Schema {
        T::json_schema(generator)
    }
}

/// Parses a present field, which may be null.
pub fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Parses a whole number or its digits; none for other values.
pub fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    Value::deserialize(deserializer).map(|value| schema::number(&value))
}
