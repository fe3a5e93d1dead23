//! The rules of fields in bodies: types without values that stand for a field's schema. A field names its rule with
//! `#[schemars(with = "…")]`.

use serde_json::{Value, json};

use crate::http::schema;

/// Returns a schema of [`crate::http::schema`] in the form that types use.
pub fn rule(schema: Value) -> schemars::Schema {
    match schema {
        Value::Object(keywords) => keywords.into(),
        _ => schemars::Schema::default(),
    }
}

/// Declares rules, each with the schema that it stands for.
macro_rules! rules {
    ($($(#[$attribute:meta])* $visibility:vis $name:ident = $schema:expr;)*) => {$(
        $(#[$attribute])*
        $visibility struct $name;

        impl ::schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                $crate::http::compute::body::rules::rule($schema)
            }
        }
    )*};
}

pub(in crate::http::compute) use rules;

rules! {
    /// A name: printable, not blank at either end.
    pub Name = schema::name();
    /// A name with optional blanks around it, which the handler strips.
    pub LooseName = schema::loose_name();
    /// The name of a host.
    pub HostName = schema::host();
    /// The name of a host, or null.
    pub HostOrNull = json!({"type": ["string", "null"], "pattern": "^[a-zA-Z0-9-._]*$", "minLength": 1, "maxLength": 255});
    /// A text of at most 255 characters.
    pub ShortText = json!({"type": "string", "maxLength": 255});
    /// A text of 1 to 255 characters.
    pub Word = json!({"type": "string", "minLength": 1, "maxLength": 255});
    /// An id.
    pub UuidText = json!({"type": "string", "format": "uuid"});
    /// An id, or null.
    pub UuidOrNull = json!({"type": ["string", "null"], "format": "uuid"});
    /// An address of IPv4 or IPv6.
    pub IpAddress = json!({"type": "string", "oneOf": [{"format": "ipv4"}, {"format": "ipv6"}]});
}
