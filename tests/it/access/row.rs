//! A row of the table: a request, and each caller's expected answer.
//!
//! A table is a text. The line of a row has the method, the status of success, an answer for each of [`CALLERS`] (`+` is success), and the
//! path. Indented lines below it add to it (`body {…}`, `raw content-type text`, `version …`, `open`, `endless`, `about {…}`, `undo METHOD
//! /path status {…}`, `rules name …`). `#` begins a comment.

use std::path::Path;

use serde_json::Value;

/// The callers, in the order of a row's columns. `other` is a member of another project; `custom` has a role without a meaning; `service`
/// has only that role, in its own project; `unscoped` is the member with an unscoped token.
pub const CALLERS: [&str; 7] = ["reader", "member", "other", "custom", "service", "admin", "unscoped"];

/// Callers without a valid token.
pub const STRANGERS: [&str; 3] = ["none", "garbage", "expired"];

/// The tables: one per API, and one for servers.
pub const TABLES: [&str; 8] = ["compute", "servers", "identity", "image", "network", "volume", "placement", "ops"];

/// The request's body.
#[derive(Clone, PartialEq, Debug)]
pub enum Body {
    None,
    Json(Value),
    /// A text of this content type.
    Raw(String, String),
}

/// A request to a route.
///
/// The path is the route's pattern with its parameters filled in: `{server}` is the house's server, `{+server}` a new one for each admitted
/// caller, and `{=text}` the text itself. A body's strings are filled in likewise.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    pub method: String,
    pub path: String,
    pub body: Body,
    /// The value of `OpenStack-API-Version`.
    pub version: String,
    /// The statuses of the answers.
    pub answers: Answers,
    /// True if the answer is endless.
    pub endless: bool,
    /// The token in question, if it is not the caller's own.
    pub about: Option<String>,
    /// The request with which an administrator undoes the row's effect.
    pub undo: Option<Box<Row>>,
}

/// The statuses of the answers to a row's request.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Answers {
    /// The status of success.
    pub success: u16,
    /// The status for each caller, in the order of [`CALLERS`].
    pub by_caller: Vec<u16>,
    /// True if strangers get the answer of the first caller.
    pub open: bool,
    /// The rules of the policy that refusals name, the route's own first.
    pub rules: Vec<String>,
}

/// Returns all rows of all tables.
pub fn rows() -> Vec<Row> {
    TABLES.into_iter().flat_map(table).collect()
}

/// Returns the rows of a table.
pub fn table(name: &str) -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/access").join(name).with_extension("table");
    let text = std::fs::read_to_string(path).expect("a table");
    read(&text).unwrap_or_else(|why| panic!("{name}.table, {why}"))
}

/// Parses the rows of a table, or names the wrong line.
fn read(text: &str) -> Result<Vec<Row>, String> {
    let mut rows: Vec<Row> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let complain = |why: String| format!("line {}: {why}", number + 1);
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match rows.last_mut().filter(|_| line.starts_with(' ')) {
            Some(row) => row.extend(line.trim()).map_err(complain)?,
            None => rows.push(row(line).map_err(complain)?),
        }
    }
    Ok(rows)
}

fn row(line: &str) -> Result<Row, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [method, success, columns @ .., path] = words.as_slice() else { return Err("a row has a method, answers and a path".to_owned()) };
    let status = |word: &str| word.parse::<u16>().map_err(|_| format!("{word} is no status"));
    let success = status(success)?;
    let by_caller = columns.iter().map(|column| if *column == "+" { Ok(success) } else { status(column) });
    let by_caller = by_caller.collect::<Result<Vec<u16>, String>>()?;
    if by_caller.len() != CALLERS.len() {
        return Err(format!("there are {} callers and {} answers", CALLERS.len(), by_caller.len()));
    }
    Ok(Row { answers: Answers { success, by_caller, ..Answers::default() }, ..Row::bare(method, path) })
}

/// Returns the newest microversion for the path's API.
pub fn version_for(path: &str) -> &'static str {
    match path.split('/').nth(1) {
        Some("compute") => "compute 2.90",
        Some("placement") => "placement 1.39",
        Some("volume") => "volume 3.60",
        _ => "",
    }
}

impl Row {
    fn bare(method: &str, path: &str) -> Row {
        Row {
            method: method.to_owned(),
            path: path.to_owned(),
            body: Body::None,
            version: version_for(path).to_owned(),
            answers: Answers::default(),
            endless: false,
            about: None,
            undo: None,
        }
    }

    /// Parses one of a row's further lines.
    fn extend(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "body" => self.body = Body::Json(json(rest)?),
            "raw" => {
                let (kind, text) = rest.split_once(' ').ok_or("raw has a content type and a text")?;
                self.body = Body::Raw(kind.to_owned(), text.to_owned());
            }
            "version" => self.version = rest.to_owned(),
            "open" => self.answers.open = true,
            "endless" => self.endless = true,
            "rules" => self.answers.rules = rest.split_whitespace().map(str::to_owned).collect(),
            "about" => self.about = Some(rest.to_owned()),
            "undo" => {
                let mut parts = rest.splitn(4, ' ');
                let (Some(method), Some(path), Some(status)) = (parts.next(), parts.next(), parts.next()) else {
                    return Err("undo has a method, a path and a status".to_owned());
                };
                let status = status.parse().map_err(|_| format!("{status} is no status"))?;
                let body = parts.next().map(json).transpose()?.map_or(Body::None, Body::Json);
                let answers = Answers { by_caller: vec![status; CALLERS.len()], ..Answers::default() };
                self.undo = Some(Box::new(Row { body, answers, ..Row::bare(method, path) }));
            }
            other => return Err(format!("nothing is called {other}")),
        }
        Ok(())
    }

    /// Returns the expected answer for a caller of [`CALLERS`] or [`STRANGERS`].
    pub fn status_for(&self, caller: &str) -> u16 {
        match CALLERS.iter().position(|name| *name == caller) {
            Some(column) => self.answers.by_caller[column],
            None if self.answers.open => self.answers.by_caller[0],
            None => 401,
        }
    }

    /// Returns the route's method and pattern in the router's form.
    pub fn route(&self) -> (String, String) {
        let path = self.path.split('?').next().unwrap_or_default();
        (self.method.clone(), nameless(path))
    }

    /// Returns the action in the body, for routes whose body selects the action.
    pub fn action(&self) -> Option<&str> {
        match &self.body {
            Body::Json(Value::Object(body)) if self.path.ends_with("/action") => body.keys().next().map(String::as_str),
            _ => None,
        }
    }
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{error}: {text}"))
}

/// Removes the names of a pattern's parameters, and a slash at its end: `/servers/{}`.
pub fn nameless(pattern: &str) -> String {
    let (mut text, mut depth) = (String::new(), 0);
    for letter in pattern.chars() {
        match letter {
            '{' => {
                depth += 1;
                if depth == 1 {
                    text.push_str("{}");
                }
            }
            '}' => depth -= 1,
            _ if depth == 0 => text.push(letter),
            _ => {}
        }
    }
    text.trim_end_matches('/').to_owned()
}

#[test]
fn a_table_is_read_or_its_wrong_line_is_named() {
    let text = "# a comment\n\nPUT 202 403 + 404 403 404 + 403 /a/{+b}\n    body {\"a\": 1}\n    undo DELETE /a/{+b} 204\n";
    let rows = read(text).expect("a table");
    assert_eq!((rows.len(), rows[0].route()), (1, ("PUT".to_owned(), "/a/{}".to_owned())));
    assert_eq!((rows[0].status_for("member"), rows[0].status_for("other"), rows[0].status_for("expired")), (202, 404, 401));
    assert_eq!(rows[0].undo.as_ref().map(|undo| undo.status_for("admin")), Some(204));
    for wrong in ["GET 200 + + /a", "GET 200 + + + + + + x /a", "GET 200 + + + + + + + /a\n  body {", "GET 200 + + + + + + + /a\n  soon"] {
        assert!(read(wrong).is_err_and(|why| why.starts_with("line ")), "{wrong}");
    }
}
