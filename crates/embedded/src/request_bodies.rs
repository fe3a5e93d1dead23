//! Request bodies that types describe: how their optional fields are parsed, and which fields they have, by their requests. A test of the
//! program reads the fields, and says of each what becomes of it.

use std::collections::BTreeSet;

use cellshift_web::schema::fields_of;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Deserializer};

/// A request whose body a type describes, and a function that lists the body's fields.
pub type RequestBody = (&'static str, fn() -> BTreeSet<String>);

/// Lists requests, each with the type that describes its body.
macro_rules! bodies {
    ($($request:literal => $body:ty),+ $(,)?) => {
        &[$(($request, $crate::request_bodies::of_type::<$body>)),+]
    };
}
pub(crate) use bodies;

/// Returns the fields of a body that is parsed as a `T`. Other names of a field (`serde(alias)`) are not among them.
pub fn of_type<T: JsonSchema>() -> BTreeSet<String> {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    fields_of(&settings.into_generator().into_root_schema_for::<T>().to_value())
}

/// Parses a present field, which may be null.
pub(crate) fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Parses an optional field, which may not be null if it is present.
pub(crate) fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
