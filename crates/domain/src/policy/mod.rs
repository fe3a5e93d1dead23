//! Policy: rules in a language like oslo.policy's, over built-in defaults under Nova's names.
//!
//! A deployment's file changes rules by name, and may add rules to refer to. A set of rules is checked as a whole when it is made, so that
//! evaluation cannot fail: see [`Policy::new`].

mod defaults;
mod expression;

use std::collections::{BTreeMap, BTreeSet};

use super::context::RequestContext;
pub use defaults::{DefaultRule, defaults};
use expression::Expression;
pub use expression::Target;

/// The reason why a set of rules is refused, with the wrong rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy rule {rule:?}: {reason}")]
pub struct PolicyError {
    pub rule: String,
    pub reason: String,
}

/// A checked set of rules.
#[derive(Debug)]
pub struct Policy {
    rules: BTreeMap<String, Expression>,
}

impl Policy {
    /// Makes the defaults, changed by `overrides` (name to text). Refuses a malformed text, a reference to a missing rule, a circle of
    /// references, and an unknown name with a colon, which would be a misspelt rule without effect.
    pub fn new(overrides: &BTreeMap<String, String>) -> Result<Policy, PolicyError> {
        let mut rules = BTreeMap::new();
        for default in defaults() {
            rules.insert(default.name.to_owned(), parsed(default.name, default.check)?);
        }
        for (name, text) in overrides {
            if name.contains(':') && !rules.contains_key(name) {
                return Err(refused(name, "nothing asks for a rule of this name; it may be misspelt"));
            }
            rules.insert(name.clone(), parsed(name, text)?);
        }
        let policy = Policy { rules };
        policy.validate()?;
        Ok(policy)
    }

    /// True if the rule allows the caller to act on the target. A missing rule allows nobody.
    pub fn check(&self, rule: &str, context: &RequestContext, target: &Target<'_>) -> bool {
        match self.rules.get(rule) {
            Some(expression) => expression.allows(context, target, &|other| self.check(other, context, target)),
            None => false,
        }
    }

    /// True if there is a rule with this name.
    pub fn knows(&self, rule: &str) -> bool {
        self.rules.contains_key(rule)
    }

    fn validate(&self) -> Result<(), PolicyError> {
        let mut finished = BTreeSet::new();
        for name in self.rules.keys() {
            self.visit(name, &mut Vec::new(), &mut finished)?;
        }
        Ok(())
    }

    /// Follows references depth first. `path` contains the rules being followed.
    fn visit<'a>(&'a self, name: &'a str, path: &mut Vec<&'a str>, finished: &mut BTreeSet<&'a str>) -> Result<(), PolicyError> {
        if finished.contains(name) {
            return Ok(());
        }
        let expression = match (self.rules.get(name), path.last()) {
            (Some(expression), _) => expression,
            (None, Some(asker)) => return Err(refused(asker, &format!("it refers to rule {name:?}, which does not exist"))),
            (None, None) => return Err(refused(name, "it does not exist")),
        };
        if path.contains(&name) {
            path.push(name);
            return Err(refused(path[0], &format!("it refers to itself: {}", path.join(" -> "))));
        }
        if path.len() >= MAX_CHAIN {
            return Err(refused(path[0], &format!("it refers to other rules over more than {MAX_CHAIN} steps")));
        }
        path.push(name);
        for reference in expression.references() {
            self.visit(reference, path, finished)?;
        }
        path.pop();
        finished.insert(name);
        Ok(())
    }
}

/// The maximum length of a chain of references, because evaluation follows it on the stack.
const MAX_CHAIN: usize = 64;

fn parsed(rule: &str, text: &str) -> Result<Expression, PolicyError> {
    Expression::parse(text).map_err(|reason| refused(rule, &reason))
}

fn refused(rule: &str, reason: &str) -> PolicyError {
    PolicyError { rule: rule.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests;
