//! The operators of extra specs: `=`, `==`, `!=`, `>=`, `<=` on numbers, `s==` and its kin on text, `<in>`, `<all-in>`, `<or>`.

/// Whether `value` meets `wanted`. Without an operator they must be equal. An operand that is missing, or is no number where
/// one is needed, is never met.
pub fn matches(value: &str, wanted: &str) -> bool {
    let mut words = wanted.split_whitespace();
    let Some(operator) = words.next() else { return value == wanted };
    let operands: Vec<&str> = words.collect();
    let first = operands.first().copied();
    match operator {
        // `<or> a <or> b`: the operands stand at every second word.
        "<or>" => operands.iter().step_by(2).any(|operand| *operand == value),
        "<all-in>" => !operands.is_empty() && operands.iter().all(|operand| value.contains(operand)),
        "<in>" => first.is_some_and(|operand| value.contains(operand)),
        "s==" => first.is_some_and(|operand| value == operand),
        "s!=" => first.is_some_and(|operand| value != operand),
        "s<" => first.is_some_and(|operand| value < operand),
        "s<=" => first.is_some_and(|operand| value <= operand),
        "s>" => first.is_some_and(|operand| value > operand),
        "s>=" => first.is_some_and(|operand| value >= operand),
        // A lone "=" means "at least", as operators of this field have long known it.
        "=" | ">=" => numbers(value, first).is_some_and(|(have, want)| have >= want),
        "<=" => numbers(value, first).is_some_and(|(have, want)| have <= want),
        "==" => numbers(value, first).is_some_and(|(have, want)| have == want),
        "!=" => numbers(value, first).is_some_and(|(have, want)| have != want),
        _ => value == wanted,
    }
}

fn numbers(value: &str, operand: Option<&str>) -> Option<(f64, f64)> {
    Some((value.parse().ok()?, operand?.parse().ok()?))
}
