//! The fields of request bodies that types describe, by their requests. A test of the program reads them, and says of each field what becomes
//! of it.

use std::collections::BTreeSet;

use cellshift_web::schema::fields_of;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

/// A request whose body a type describes, and a function that lists the body's fields.
pub type RequestBody = (&'static str, fn() -> BTreeSet<String>);

/// Returns the fields of a body that is parsed as a `T`. Other names of a field (`serde(alias)`) are not among them.
pub fn of_type<T: JsonSchema>() -> BTreeSet<String> {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    fields_of(&settings.into_generator().into_root_schema_for::<T>().to_value())
}
