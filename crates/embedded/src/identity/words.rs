//! The permitted forms of accounts' names, ids and other texts, for creation and change alike.

use crate::ServiceError;
use cellshift_domain::reason;

/// The maximum length of a name in characters.
const NAME_MAX: usize = 255;
/// The maximum length of a project's or domain's name in characters.
const SHORT_NAME_MAX: usize = 64;
/// The maximum number of a project's tags.
const TAGS_MAX: usize = 80;
/// The maximum length of an id in characters.
const ID_MAX: usize = 64;
/// The maximum length of a description in bytes: what Keystone's database takes.
const TEXT_MAX: usize = 65_535;
/// The maximum length of a URL in characters.
const URL_MAX: usize = 2048;
/// The maximum length of a password in bytes.
const PASSWORD_MAX: usize = 4096;

/// Checks a name, and trims the white space around it.
pub(super) fn name(of: &str, text: &str) -> Result<String, ServiceError> {
    let trimmed = text.trim();
    match trimmed.chars().count() {
        0 => Err(invalid("name", &format!("a {of} needs a name"))),
        count if count > NAME_MAX => Err(invalid("name", &format!("a {of}'s name has at most {NAME_MAX} characters"))),
        _ => without_controls("name", trimmed),
    }
}

/// Checks the name of a project or domain, and trims the white space around it. Keystone allows these fewer characters than others.
pub(super) fn short_name(of: &str, text: &str) -> Result<String, ServiceError> {
    let name = name(of, text)?;
    match name.chars().count() > SHORT_NAME_MAX {
        true => Err(invalid("name", &format!("a {of}'s name has at most {SHORT_NAME_MAX} characters"))),
        false => Ok(name),
    }
}

/// Checks a short text, which may be empty.
pub(super) fn short(field: &str, text: &str) -> Result<String, ServiceError> {
    match text.chars().count() > NAME_MAX {
        true => Err(invalid(field, &format!("it has at most {NAME_MAX} characters"))),
        false => without_controls(field, text),
    }
}

/// Checks an endpoint's URL, which may have places for ids such as `$(project_id)s`.
pub(super) fn url(text: &str) -> Result<String, ServiceError> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let is_url = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/')) && !text.contains(char::is_whitespace);
    match text.chars().count() > URL_MAX {
        true => Err(invalid("url", &format!("it has at most {URL_MAX} characters"))),
        false if !is_url => Err(invalid("url", "it must begin with http:// or https:// and a host")),
        false => without_controls("url", text),
    }
}

/// Checks an e-mail address for length and control characters only.
pub(super) fn email(text: &str) -> Result<String, ServiceError> {
    match text.chars().count() > NAME_MAX {
        true => Err(invalid("email", &format!("it has at most {NAME_MAX} characters"))),
        false => without_controls("email", text),
    }
}

/// Checks a reference to another record's id.
pub(super) fn id(field: &str, text: &str) -> Result<String, ServiceError> {
    let fits = (1..=ID_MAX).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    match fits {
        true => Ok(text.to_owned()),
        false => Err(invalid(field, &format!("an id has 1 to {ID_MAX} letters, digits and hyphens"))),
    }
}

/// Checks a text of several lines, which a database can store.
pub(super) fn text(field: &str, text: &str) -> Result<String, ServiceError> {
    match text.contains('\0') {
        true => Err(invalid(field, "it must not contain the character NUL")),
        false if text.len() > TEXT_MAX => Err(invalid(field, &format!("it has at most {TEXT_MAX} bytes"))),
        false => Ok(text.to_owned()),
    }
}

/// Checks a project's tags: each once, none with a character that paths or lists of tags need.
pub(super) fn tags(tags: Vec<String>) -> Result<Vec<String>, ServiceError> {
    if tags.len() > TAGS_MAX {
        return Err(invalid("tags", &format!("a project has at most {TAGS_MAX} tags")));
    }
    for (index, tag) in tags.iter().enumerate() {
        if tag.is_empty() || tag.chars().count() > NAME_MAX || tag.contains(['/', ',']) {
            return Err(invalid("tags", &format!("a tag has 1 to {NAME_MAX} characters, none of them a slash or a comma")));
        }
        without_controls("tags", tag)?;
        if tags[..index].contains(tag) {
            return Err(invalid("tags", "a tag must not be given twice"));
        }
    }
    Ok(tags)
}

/// Checks a password.
pub(super) fn password(text: String) -> Result<String, ServiceError> {
    hashed("password", text)
}

/// Checks an application credential's secret.
pub(super) fn secret(text: String) -> Result<String, ServiceError> {
    hashed("secret", text)
}

fn hashed(field: &str, text: String) -> Result<String, ServiceError> {
    match text.len() {
        0 => Err(invalid(field, "it must not be empty")),
        length if length > PASSWORD_MAX => Err(invalid(field, &format!("it has at most {PASSWORD_MAX} bytes"))),
        _ => Ok(text),
    }
}

fn without_controls(field: &str, text: &str) -> Result<String, ServiceError> {
    match text.chars().any(char::is_control) {
        true => Err(invalid(field, "it must not contain control characters")),
        false => Ok(text.to_owned()),
    }
}

pub(super) fn invalid(field: &str, why: &str) -> ServiceError {
    ServiceError::Invalid(reason!("Invalid input for field '{field}': {why}."))
}
