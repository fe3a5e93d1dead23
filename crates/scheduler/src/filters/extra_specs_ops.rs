//! The operators of extra specs: `=`, `==`, `!=`, `>=`, `<=` on numbers, `s==` and its kin on text, `<in>`, `<all-in>`, `<or>`.

/// True if `value` matches `condition`. Without an operator the two must be equal. A missing operand, or text where a number is needed,
/// never matches.
pub fn matches(value: &str, condition: &str) -> bool {
    let mut words = condition.split_whitespace();
    let Some(operator) = words.next() else { return value == condition };
    let operands: Vec<&str> = words.collect();
    let first = operands.first().copied();
    match operator {
        // In `<or> a <or> b` every second word is an operand.
        "<or>" => operands.iter().step_by(2).any(|operand| *operand == value),
        "<all-in>" => !operands.is_empty() && operands.iter().all(|operand| value.contains(operand)),
        "<in>" => first.is_some_and(|operand| value.contains(operand)),
        "s==" => first.is_some_and(|operand| value == operand),
        "s!=" => first.is_some_and(|operand| value != operand),
        "s<" => first.is_some_and(|operand| value < operand),
        "s<=" => first.is_some_and(|operand| value <= operand),
        "s>" => first.is_some_and(|operand| value > operand),
        "s>=" => first.is_some_and(|operand| value >= operand),
        // A lone "=" means "at least", as in Nova.
        "=" | ">=" => numbers(value, first).is_some_and(|(have, want)| have >= want),
        "<=" => numbers(value, first).is_some_and(|(have, want)| have <= want),
        "==" => numbers(value, first).is_some_and(|(have, want)| have == want),
        "!=" => numbers(value, first).is_some_and(|(have, want)| have != want),
        _ => value == condition,
    }
}

fn numbers(value: &str, operand: Option<&str>) -> Option<(f64, f64)> {
    Some((value.parse().ok()?, operand?.parse().ok()?))
}
