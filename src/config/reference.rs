//! The reference of all options, made from their types: an explained file and a page for people, and a JSON schema for editors.

use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use super::Config;

/// The width of comments in an explained file.
const WIDTH: usize = 100;

/// A table of the configuration file.
pub struct Section {
    /// The table's name, such as `compute.live_migration`; empty for the keys above all tables.
    pub name: String,
    /// The purpose of the table, in sentences.
    pub meaning: String,
    pub keys: Vec<Key>,
}

/// An option.
pub struct Key {
    pub name: String,
    /// The effect of the option, in sentences.
    pub meaning: String,
    /// The values that are allowed, such as `seconds` or ``one of `text`, `json` ``.
    pub kind: String,
    /// The default as TOML; none if the option is unset by default.
    pub default: Option<String>,
}

/// Returns the JSON schema of the configuration file.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<Config>().to_value()
}

/// Returns all tables in the order in which a file may have them: each before those below it.
pub fn sections() -> Result<Vec<Section>, Unwritable> {
    let mut sections = Vec::new();
    collect(&mut sections, "", &schema(), &serde_json::to_value(Config::default())?)?;
    Ok(sections)
}

fn collect(sections: &mut Vec<Section>, name: &str, schema: &Value, defaults: &Value) -> Result<(), Unwritable> {
    let members = schema["properties"].as_object().into_iter().flatten();
    let (tables, keys): (Vec<_>, Vec<_>) = members.partition(|(_, schema)| schema["properties"].is_object());
    let key = |(name, schema): (&String, &Value)| -> Result<Key, Unwritable> {
        Ok(Key { name: name.clone(), meaning: meaning(schema), kind: kind(schema), default: toml(&defaults[name])? })
    };
    let keys = keys.into_iter().map(key).collect::<Result<_, _>>()?;
    sections.push(Section { name: name.to_owned(), meaning: meaning(schema), keys });
    for (table, schema) in tables {
        let below = if name.is_empty() { table.clone() } else { format!("{name}.{table}") };
        collect(sections, &below, schema, &defaults[table])?;
    }
    Ok(())
}

fn meaning(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Describes the values that a schema allows.
fn kind(schema: &Value) -> String {
    if let Some(unit) = schema["x-unit"].as_str() {
        return unit.to_owned();
    }
    let words = [&schema["enum"], &schema["oneOf"]].into_iter().filter_map(Value::as_array).flatten();
    let words: Vec<String> = words.filter_map(|word| word.as_str().or(word["const"].as_str())).map(|word| format!("`{word}`")).collect();
    if !words.is_empty() {
        return format!("one of {}", words.join(", "));
    }
    // An option that may be unset allows null, which no TOML file can hold.
    let types = schema["type"].as_array().map_or_else(|| vec![&schema["type"]], |types| types.iter().collect());
    let kind = types.into_iter().filter_map(Value::as_str).find(|kind| *kind != "null");
    match kind.unwrap_or_default() {
        "boolean" => "true or false",
        "integer" => "whole number",
        "number" => "number",
        "array" => "list",
        "object" => "table",
        _ => "text",
    }
    .to_owned()
}

/// Returns a value as TOML on one line; none if it is unset.
fn toml(value: &Value) -> Result<Option<String>, Unwritable> {
    if value.is_null() {
        return Ok(None);
    }
    let mut text = String::new();
    value.serialize(toml::ser::ValueSerializer::new(&mut text))?;
    Ok(Some(text))
}

/// The reason why a configuration cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum Unwritable {
    #[error("the configuration cannot be written: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the configuration cannot be written: {0}")]
    Toml(#[from] toml::ser::Error),
}

/// Returns a configuration as a file in which each option has its meaning and its default above it, and unset options are comments.
pub fn explained(config: &Config) -> Result<String, Unwritable> {
    let values = serde_json::to_value(config)?;
    let mut text = String::new();
    for section in sections()? {
        comment(&mut text, &section.meaning);
        let mut table = &values;
        if !section.name.is_empty() {
            text += &format!("[{}]\n", section.name);
            table = section.name.split('.').fold(&values, |table, part| &table[part]);
        }
        for key in &section.keys {
            text.push('\n');
            comment(&mut text, &key.meaning);
            comment(&mut text, &format!("{}; {}", key.kind, key.default_in_words()));
            text += &match toml(&table[&key.name])? {
                Some(value) => format!("{} = {value}\n", key.name),
                None => format!("# {} =\n", key.name),
            };
        }
        text.push('\n');
    }
    Ok(text.trim_end().to_owned() + "\n")
}

fn comment(text: &mut String, sentences: &str) {
    for line in textwrap::wrap(sentences, WIDTH) {
        *text += &format!("# {line}\n");
    }
}

impl Key {
    fn default_in_words(&self) -> String {
        self.default.as_ref().map_or_else(|| "unset by default".to_owned(), |default| format!("default {default}"))
    }
}

/// Returns the tables as Markdown, for docs/CONFIGURATION.md.
pub fn markdown() -> Result<String, Unwritable> {
    let mut text = String::new();
    for section in sections()? {
        let title = if section.name.is_empty() { "Above all tables".to_owned() } else { format!("`[{}]`", section.name) };
        text += &format!("\n## {title}\n\n{}\n", section.meaning);
        if !section.keys.is_empty() {
            text += "\n| key | values | default | meaning |\n|---|---|---|---|\n";
        }
        for Key { name, meaning, kind, default } in &section.keys {
            let default = default.as_ref().map_or_else(|| "unset".to_owned(), |default| format!("`{default}`"));
            let row = [format!("`{name}`"), kind.clone(), default, meaning.clone()].map(|cell| cell.replace('|', "\\|"));
            text += &format!("| {} |\n", row.join(" | "));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Seconds;

    #[test]
    fn each_option_and_table_has_a_meaning() {
        for section in sections().unwrap() {
            assert!(!section.meaning.is_empty(), "[{}]", section.name);
            for key in section.keys {
                assert!(key.meaning.ends_with(['.', ')']), "[{}] {}: {:?}", section.name, key.name, key.meaning);
            }
        }
    }

    #[test]
    fn an_explained_file_is_the_configuration() {
        let mut config = Config::default();
        config.migration.lease = Seconds::millis(2500);
        config.cells.count = Some(3);
        config.migration.deadlines.insert("copy_disks".into(), 7);
        let text = explained(&config).unwrap();
        assert_eq!(Config::parse(&text).unwrap(), config, "{text}");
        assert!(text.contains("# seconds; default 10\nback_off_max = 10\n"), "{text}");
        assert!(text.contains("# text; unset by default\n# public_endpoint =\n"), "{text}");
        assert!(text.contains("# one of `text`, `json`; default \"text\"\nformat = \"text\"\n"), "{text}");
    }

    #[test]
    fn the_schema_knows_each_option() {
        let config = serde_json::to_value(Config::default()).unwrap();
        let validator = jsonschema::validator_for(&schema()).unwrap();
        assert!(validator.is_valid(&config), "{:?}", validator.iter_errors(&config).next().map(|error| error.to_string()));
        for wrong in [serde_json::json!({"http": {"lisen": ":1"}}), serde_json::json!({"migration": {"lease": -1}})] {
            assert!(!validator.is_valid(&wrong), "{wrong}");
        }
    }
}
