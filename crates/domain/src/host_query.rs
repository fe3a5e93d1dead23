//! Queries over hosts: JSON lists that begin with an operator, as `["and", [">=", "$free_ram_mb", 1024], ["in", "$host", "a", "b"]]`.
//!
//! A text that begins with `$` is the host's attribute of that name; further names, after dots, lead into objects.

use serde_json::Value;

/// The attributes of a host for queries. `hypervisor_hostname` and `nodename` mean the same.
pub const ATTRIBUTES: [&str; 17] = [
    "cell_uuid",
    "cpu_info",
    "free_disk_mb",
    "free_ram_mb",
    "host",
    "host_ip",
    "hypervisor_hostname",
    "hypervisor_type",
    "hypervisor_version",
    "nodename",
    "num_instances",
    "num_io_ops",
    "total_usable_disk_gb",
    "total_usable_ram_mb",
    "uuid",
    "vcpus_total",
    "vcpus_used",
];

const OPERATORS: [&str; 9] = ["=", "<", ">", "<=", ">=", "in", "not", "or", "and"];
/// The maximum depth of nested lists.
const DEEPEST: usize = 16;
/// The maximum length of a query in characters.
const LONGEST: usize = 4096;

/// A parsed query.
#[derive(Clone, PartialEq, Debug)]
pub struct HostQuery(Value);

impl HostQuery {
    /// Parses a query, or says why it is wrong.
    pub fn parse(text: &str) -> Result<HostQuery, String> {
        if text.len() > LONGEST {
            return Err(format!("it has more than {LONGEST} characters"));
        }
        let query: Value = serde_json::from_str(text).map_err(|_| "it is no JSON".to_owned())?;
        check(&query, DEEPEST)?;
        Ok(HostQuery(query))
    }

    /// True if the query holds for a host. An attribute that the host lacks is left out.
    pub fn holds(&self, attribute: &dyn Fn(&[&str]) -> Option<Value>) -> bool {
        match evaluate(&self.0, attribute) {
            Value::Array(several) => several.iter().any(is_true),
            one => is_true(&one),
        }
    }
}

fn check(query: &Value, depth: usize) -> Result<(), String> {
    let list = query.as_array().ok_or("it must be a list")?;
    let Some(operator) = list.first() else { return Ok(()) };
    if depth == 0 {
        return Err(format!("it is nested more than {DEEPEST} times"));
    }
    if !operator.as_str().is_some_and(|name| OPERATORS.contains(&name)) {
        return Err(format!("a list must begin with one of {}", OPERATORS.join(" ")));
    }
    for operand in &list[1..] {
        match operand {
            Value::Array(_) => check(operand, depth - 1)?,
            Value::String(text) => check_name(text)?,
            Value::Object(_) => return Err("an object cannot be compared".to_owned()),
            _ => {}
        }
    }
    Ok(())
}

fn check_name(text: &str) -> Result<(), String> {
    let Some(path) = text.strip_prefix('$') else { return Ok(()) };
    match path.split('.').next() {
        Some(name) if ATTRIBUTES.contains(&name) => Ok(()),
        _ => Err(format!("a name after $ is one of {}", ATTRIBUTES.join(" "))),
    }
}

fn evaluate(query: &Value, attribute: &dyn Fn(&[&str]) -> Option<Value>) -> Value {
    let list = query.as_array().map(Vec::as_slice).unwrap_or_default();
    let Some((operator, operands)) = list.split_first() else { return Value::Bool(true) };
    let operands: Vec<Value> = operands.iter().filter_map(|operand| value_of(operand, attribute)).collect();
    let each = |holds: fn(&Value, &Value) -> bool| match operands.split_first() {
        Some((first, others)) if !others.is_empty() => others.iter().all(|other| holds(first, other)),
        _ => false,
    };
    Value::Bool(match operator.as_str().unwrap_or_default() {
        "=" => each(is_equal),
        "<" => each(|first, other| is_ordered(first, other, std::cmp::Ordering::is_lt)),
        ">" => each(|first, other| is_ordered(first, other, std::cmp::Ordering::is_gt)),
        "<=" => each(|first, other| is_ordered(first, other, std::cmp::Ordering::is_le)),
        ">=" => each(|first, other| is_ordered(first, other, std::cmp::Ordering::is_ge)),
        "in" => operands.split_first().is_some_and(|(first, others)| others.iter().any(|other| is_equal(first, other))),
        "not" => return Value::Array(operands.iter().map(|operand| Value::Bool(!is_true(operand))).collect()),
        "or" => operands.iter().any(is_true),
        "and" => operands.iter().all(is_true),
        _ => false,
    })
}

fn value_of(operand: &Value, attribute: &dyn Fn(&[&str]) -> Option<Value>) -> Option<Value> {
    match operand {
        Value::Array(_) => Some(evaluate(operand, attribute)),
        Value::String(text) => match text.strip_prefix('$') {
            Some(path) => attribute(&path.split('.').collect::<Vec<_>>()),
            None => Some(operand.clone()).filter(|_| !text.is_empty()),
        },
        Value::Null => None,
        _ => Some(operand.clone()),
    }
}

fn is_equal(first: &Value, other: &Value) -> bool {
    match (first.as_f64(), other.as_f64()) {
        (Some(first), Some(other)) => first == other,
        _ => first == other,
    }
}

/// Compares numbers with numbers, and texts with texts; other values have no order.
fn is_ordered(first: &Value, other: &Value, condition: fn(std::cmp::Ordering) -> bool) -> bool {
    let order = match (first, other) {
        (Value::Number(first), Value::Number(other)) => first.as_f64().partial_cmp(&other.as_f64()),
        (Value::String(first), Value::String(other)) => Some(first.cmp(other)),
        _ => None,
    };
    order.is_some_and(condition)
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(object) => !object.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn attribute(path: &[&str]) -> Option<Value> {
        match path {
            ["host"] => Some(json!("h1")),
            ["free_ram_mb"] => Some(json!(1024)),
            ["cpu_info", "arch"] => Some(json!("x86_64")),
            _ => None,
        }
    }

    #[test]
    fn a_query_holds_or_not() {
        for (query, holds) in [
            (json!([]), true),
            (json!(["=", "$host", "h1"]), true),
            (json!(["=", "$host", "h1", "h2"]), false),
            (json!(["in", "$host", "h2", "h1"]), true),
            (json!([">=", "$free_ram_mb", 1024]), true),
            (json!([">", "$free_ram_mb", 1024]), false),
            (json!(["<", "$free_ram_mb", 1024.5]), true),
            (json!(["<", "$free_ram_mb", "many"]), false),
            (json!(["<=", "$free_ram_mb"]), false),
            (json!(["=", "$cpu_info.arch", "x86_64"]), true),
            (json!(["=", "$cpu_info.model", "x86_64"]), false),
            (json!(["not", ["=", "$host", "h1"]]), false),
            (json!(["not", ["=", "$host", "h1"], ["=", "$host", "h2"]]), true),
            (json!(["and", [">", "$free_ram_mb", 1], ["not", ["=", "$host", "h2"]]]), true),
            (json!(["or", ["=", "$host", "h2"], [">", "$free_ram_mb", 1]]), true),
            (json!(["or", ["=", "$host", "h2"]]), false),
        ] {
            assert_eq!(HostQuery::parse(&query.to_string()).unwrap().holds(&attribute), holds, "{query}");
        }
    }

    #[test]
    fn a_query_without_sense_is_refused() {
        let deep = "[\"not\", ".repeat(17) + "true" + &"]".repeat(17);
        let long = json!(["=", "x".repeat(4096)]).to_string();
        for wrong in ["", "{}", "7", "[1]", "[\"xor\", 1, 2]", "[\"=\", \"$color\", 1]", "[\"=\", {}, 1]", &deep, &long] {
            assert!(HostQuery::parse(wrong).is_err(), "{wrong:.60}");
        }
    }
}
