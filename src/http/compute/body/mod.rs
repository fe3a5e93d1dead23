//! Typed request bodies of the compute API. The schema that checks a body is made from the body's type, for each microversion, so that check
//! and parser know the same fields. A type names the rules of its fields with `#[schemars(with = "…")]`; the marks of [`versions`] say in
//! which microversions a field is there.

pub mod rules;
mod values;
mod versions;

use std::marker::PhantomData;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use values::{Anything, Flag, Integer, Lenient, SecretText, nullable, number};

use super::answer::bad_request;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;
use crate::http::schema::Schema;

/// The changes of a body that is equal in all microversions.
pub const ALWAYS: &[u16] = &[1];

/// A kind of request body, which its schema checks and which then parses as a `T`.
pub struct Body<T> {
    /// The schema of the whole body.
    pub schema: Schema,
    /// The only field of the body, whose value is the `T`. None if the `T` is the whole body.
    key: Option<&'static str>,
    parsed: PhantomData<fn() -> T>,
}

impl<T: JsonSchema> Body<T> {
    /// Describes a body that is a `T`. `changes` are the minor versions at which its schema changes, ascending, with the first one.
    pub const fn whole(changes: &'static [u16]) -> Body<T> {
        Body { schema: Schema::new(changes, schema_of::<T>), key: None, parsed: PhantomData }
    }

    /// Describes a body whose only field is `key`, with a `T`. `changes` are as for [`Body::whole`].
    pub const fn within(key: &'static str, changes: &'static [u16]) -> Body<T> {
        Body { schema: Schema::within(key, changes, schema_of::<T>), key: Some(key), parsed: PhantomData }
    }
}

impl<T> Body<T> {
    /// True if the body has the only field of this kind of body.
    pub fn is_named_in(&self, body: &Value) -> bool {
        self.key.is_some_and(|key| body.get(key).is_some())
    }
}

impl<T: DeserializeOwned + Send + 'static> Body<T> {
    /// Checks and parses a body, off the worker if it is large. 400 with the first error and its place, unless the body fits.
    pub async fn read(&'static self, version: ApiVersion, body: &Document) -> Result<T, ApiError> {
        self.schema.check(version, body).await?;
        let key = self.key;
        let parse = move |body: &Value| match key {
            Some(key) => T::deserialize(&body[key]),
            None => T::deserialize(body),
        };
        body.judge(parse).await.map_err(|error| bad_request(format!("Malformed request body: {error}.")))
    }
}

/// Returns the schema of a type at a minor version.
pub fn schema_of<T: JsonSchema>(minor: u16) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    versions::at(minor, &settings.into_generator().into_root_schema_for::<T>().to_value())
}
