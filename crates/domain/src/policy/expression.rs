//! The policy language: parsing a rule's text and judging a caller by it.
//!
//! ```text
//! expression = conjunction { "or" conjunction }
//! conjunction = negation { "and" negation }
//! negation   = "not" negation | "(" expression ")" | check
//! check      = "@" | "!" | kind ":" match
//! ```
//! An empty text allows everybody, as `@` does; `!` allows nobody.

use crate::context::{ROLES, RequestContext};

/// The maximum depth of parentheses and negations.
const MAX_DEPTH: usize = 64;

/// The owner of the thing that an action is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Target<'a> {
    /// The project that owns it.
    pub project_id: &'a str,
    /// The user who made it.
    pub user_id: &'a str,
}

impl<'a> Target<'a> {
    /// Returns the caller as owner, for actions that concern no existing thing.
    pub fn own(context: &'a RequestContext) -> Target<'a> {
        Target { project_id: &context.project_id, user_id: &context.user_id }
    }
}

/// A parsed rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Expression {
    Constant(bool),
    Role(String),
    Rule(String),
    Compare(Operand, Operand),
    Not(Box<Expression>),
    All(Vec<Expression>),
    Any(Vec<Expression>),
}

/// A side of a comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Operand {
    Literal(String),
    CallerUser,
    CallerProject,
    CallerIsAdmin,
    CallerSystemScope,
    TargetUser,
    TargetProject,
}

impl Operand {
    fn value<'a>(&'a self, context: &'a RequestContext, target: &Target<'a>) -> &'a str {
        match self {
            Operand::Literal(text) => text,
            Operand::CallerUser => &context.user_id,
            Operand::CallerProject => &context.project_id,
            Operand::CallerIsAdmin => match context.is_admin() {
                true => "True",
                false => "False",
            },
            Operand::CallerSystemScope => match context.system_scope {
                true => "all",
                false => "",
            },
            Operand::TargetUser => target.user_id,
            Operand::TargetProject => target.project_id,
        }
    }
}

impl Expression {
    /// Judges the caller. `rule` judges by another rule's name.
    pub(super) fn allows(&self, context: &RequestContext, target: &Target<'_>, rule: &dyn Fn(&str) -> bool) -> bool {
        match self {
            Expression::Constant(value) => *value,
            Expression::Role(name) => context.has_role(name),
            Expression::Rule(name) => rule(name),
            Expression::Compare(left, right) => {
                let (left, right) = (left.value(context, target), right.value(context, target));
                // Two empty values do not match, because a thing without an owner belongs to nobody.
                !left.is_empty() && left == right
            }
            Expression::Not(inner) => !inner.allows(context, target, rule),
            Expression::All(parts) => parts.iter().all(|part| part.allows(context, target, rule)),
            Expression::Any(parts) => parts.iter().any(|part| part.allows(context, target, rule)),
        }
    }

    /// Returns the names of the rules to which this rule refers.
    pub(super) fn references(&self) -> Vec<&str> {
        match self {
            Expression::Rule(name) => vec![name],
            Expression::Not(inner) => inner.references(),
            Expression::All(parts) | Expression::Any(parts) => parts.iter().flat_map(Expression::references).collect(),
            _ => Vec::new(),
        }
    }

    /// Parses a rule's text, or says why it is wrong.
    pub(super) fn parse(text: &str) -> Result<Expression, String> {
        let tokens = tokens(text)?;
        if tokens.is_empty() {
            return Ok(Expression::Constant(true));
        }
        let mut parser = Parser { tokens, at: 0 };
        let expression = parser.any(0)?;
        match parser.peek() {
            None => Ok(expression),
            Some(token) => Err(format!("{} is not expected there: join checks with \"and\" or \"or\"", token.shown())),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Token {
    Open,
    Close,
    And,
    Or,
    Not,
    Check(String),
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Token::Open => "\"(\"".into(),
            Token::Close => "\")\"".into(),
            Token::And => "\"and\"".into(),
            Token::Or => "\"or\"".into(),
            Token::Not => "\"not\"".into(),
            Token::Check(text) => format!("{text:?}"),
        }
    }
}

/// Splits at white space and at parentheses outside `%(name)s`. Quotes keep white space.
fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut word = String::new();
    let mut chars = text.chars().peekable();
    let flush = |word: &mut String, tokens: &mut Vec<Token>| {
        if word.is_empty() {
            return;
        }
        let token = match word.to_ascii_lowercase().as_str() {
            "and" => Token::And,
            "or" => Token::Or,
            "not" => Token::Not,
            _ => Token::Check(word.clone()),
        };
        tokens.push(token);
        word.clear();
    };
    while let Some(c) = chars.next() {
        match c {
            '%' if chars.peek() == Some(&'(') => {
                word.push('%');
                let mut closed = false;
                for inner in chars.by_ref() {
                    word.push(inner);
                    if inner == ')' {
                        closed = true;
                        break;
                    }
                }
                if !closed {
                    return Err("\"%(\" is not closed".into());
                }
            }
            '\'' | '"' => {
                word.push(c);
                let mut closed = false;
                for inner in chars.by_ref() {
                    word.push(inner);
                    if inner == c {
                        closed = true;
                        break;
                    }
                }
                if !closed {
                    return Err(format!("the quote {c} is not closed"));
                }
            }
            '(' | ')' => {
                flush(&mut word, &mut tokens);
                tokens.push(if c == '(' { Token::Open } else { Token::Close });
            }
            c if c.is_whitespace() => flush(&mut word, &mut tokens),
            c => word.push(c),
        }
    }
    flush(&mut word, &mut tokens);
    Ok(tokens)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn take(&mut self, token: &Token) -> bool {
        let there = self.peek() == Some(token);
        self.at += usize::from(there);
        there
    }

    fn any(&mut self, depth: usize) -> Result<Expression, String> {
        let mut parts = vec![self.all(depth)?];
        while self.take(&Token::Or) {
            parts.push(self.all(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::Any(parts) })
    }

    fn all(&mut self, depth: usize) -> Result<Expression, String> {
        let mut parts = vec![self.one(depth)?];
        while self.take(&Token::And) {
            parts.push(self.one(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::All(parts) })
    }

    fn one(&mut self, depth: usize) -> Result<Expression, String> {
        if depth > MAX_DEPTH {
            return Err(format!("it nests deeper than {MAX_DEPTH} levels"));
        }
        let Some(token) = self.peek().cloned() else {
            return Err("a check is missing at its end".into());
        };
        self.at += 1;
        match token {
            Token::Not => Ok(Expression::Not(Box::new(self.one(depth + 1)?))),
            Token::Open => {
                let inner = self.any(depth + 1)?;
                match self.take(&Token::Close) {
                    true => Ok(inner),
                    false => Err("a \")\" is missing".into()),
                }
            }
            Token::Check(text) => check(&text),
            other => Err(format!("{} stands where a check is expected", other.shown())),
        }
    }
}

fn check(text: &str) -> Result<Expression, String> {
    match text {
        "@" => return Ok(Expression::Constant(true)),
        "!" => return Ok(Expression::Constant(false)),
        _ => {}
    }
    let Some((kind, rest)) = split_kind(text) else {
        return Err(format!("{text:?} is no check: write @, !, role:NAME, rule:NAME, or two sides with a colon between them"));
    };
    if rest.is_empty() {
        return Err(format!("{text:?} says nothing after the colon"));
    }
    match kind {
        "role" => Ok(Expression::Role(spelled(rest))),
        "rule" => Ok(Expression::Rule(rest.to_owned())),
        _ => Ok(Expression::Compare(left_operand(kind)?, right_operand(rest)?)),
    }
}

/// Returns the built-in spelling of a role. Callers' roles are compared exactly, but `role:Admin` in a file means the built-in role.
fn spelled(role: &str) -> String {
    let built_in = ROLES.iter().find(|name| name.eq_ignore_ascii_case(role));
    built_in.map_or_else(|| role.to_owned(), |name| (*name).to_owned())
}

/// Splits at the first colon outside quotes.
fn split_kind(text: &str) -> Option<(&str, &str)> {
    let from = match text.chars().next() {
        Some(quote @ ('\'' | '"')) => 1 + text[1..].find(quote)? + 1,
        _ => 0,
    };
    let colon = from + text[from..].find(':')?;
    Some((&text[..colon], &text[colon + 1..]))
}

fn left_operand(text: &str) -> Result<Operand, String> {
    match text {
        "user_id" => Ok(Operand::CallerUser),
        "project_id" | "tenant_id" => Ok(Operand::CallerProject),
        "is_admin" => Ok(Operand::CallerIsAdmin),
        "system_scope" => Ok(Operand::CallerSystemScope),
        _ => match quoted(text) {
            Some(literal) => Ok(Operand::Literal(literal)),
            None => Err(format!(
                "{text:?} is not known: a caller has user_id, project_id, is_admin and system_scope; quote a literal, as in 'text':%(project_id)s"
            )),
        },
    }
}

fn right_operand(text: &str) -> Result<Operand, String> {
    let Some(name) = text.strip_prefix("%(") else {
        return Ok(Operand::Literal(quoted(text).unwrap_or_else(|| text.to_owned())));
    };
    match name.strip_suffix(")s") {
        Some("user_id") => Ok(Operand::TargetUser),
        Some("project_id" | "tenant_id") => Ok(Operand::TargetProject),
        Some(other) => Err(format!("a target has no {other:?}: it has project_id and user_id")),
        None => Err(format!("{text:?} must end with \")s\"")),
    }
}

fn quoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| *c == '\'' || *c == '"')?;
    text.get(1..)?.strip_suffix(quote).map(str::to_owned)
}
