//! Reasons of failures as values: the part for users, the parts that operators alone may read (paths, SQL, the system's messages), and the
//! kind on which a program acts. [`reason!`](crate::reason!) composes them, and keeps inner parts apart through any number of layers.
//! A stored reason is a text with marks around its inner parts; [`Reason::read`] is the only place that reads one.

use std::cell::Cell;
use std::fmt::{self, Display, Write};
use std::io::{self, ErrorKind};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use crate::reason_code::{NO_VALID_HOST, QUOTA_EXCEEDED, ReasonCode};

/// The marks around an inner part in a stored text.
const BEGIN: char = '⟪';
const END: char = '⟫';

/// Composes a [`Reason`] as `format!` composes a text. Reasons, errors with reasons and [`Inside`] keep their inner parts.
#[macro_export]
macro_rules! reason {
    // The inner block ends what the arguments borrow, so that a reason may be made in the midst of an `await`.
    ($($words:tt)*) => {{
        $crate::reason::Reason::from(::std::format_args!($($words)*))
    }};
}

/// The reason of a failure. Its `Display` is for operators: it writes all parts. There is no conversion from a `String`, because the text
/// of an error has lost the border between its parts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reason {
    parts: Vec<Part>,
    code: Option<ReasonCode>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Public(String),
    Inside(String),
}

impl Reason {
    /// Makes a reason of a text that holds nothing but words for users, such as a request's own. For an error's text see
    /// [`reason!`](crate::reason!).
    pub fn public(words: impl Into<String>) -> Reason {
        let parts = Some(words.into()).filter(|words| !words.is_empty()).map(Part::Public);
        Reason { parts: parts.into_iter().collect(), code: None }
    }

    /// Makes a reason that operators alone may read.
    pub fn inside(words: impl Display) -> Reason {
        reason!("{}", Inside(words))
    }

    /// Makes the reason of the system's error about a file. Users read that the disk is full, because they can help.
    pub fn of_system(error: &io::Error) -> Reason {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => reason!("no space is left on the disk {}", Inside(error)),
            _ => Reason::inside(error),
        }
    }

    /// Makes the reason when no host passes: Nova's sentence, and what follows it.
    pub fn no_valid_host(details: Reason) -> Reason {
        reason!("{NO_VALID_HOST} {details}").coded(ReasonCode::NoValidHost)
    }

    /// Makes the reason when the project may have no more of the resource.
    pub fn quota_exceeded(resource: &str) -> Reason {
        reason!("{QUOTA_EXCEEDED}['{resource}'].").coded(ReasonCode::QuotaExceeded)
    }

    /// Sets the kind. It reaches whoever has this value; a stored reason has the kind that its words say.
    pub fn coded(self, code: ReasonCode) -> Reason {
        Reason { code: Some(code), ..self }
    }

    /// Returns the kind of the failure, if somebody acts on it.
    pub fn code(&self) -> Option<ReasonCode> {
        self.code
    }

    /// Adds words behind the reason, which keeps its kind.
    pub fn and(self, words: &Reason) -> Reason {
        let code = self.code;
        Reason { code, ..reason!("{self} {words}") }
    }

    /// Joins reasons to one.
    pub fn join<'a>(reasons: impl IntoIterator<Item = &'a Reason>, between: &'static str) -> Reason {
        reasons.into_iter().cloned().reduce(|joined, next| reason!("{joined}{between}{next}")).unwrap_or_default()
    }

    /// Returns the text for users: without inner parts, and without the colon or blank before them.
    pub fn for_users(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Public(words) => text.push_str(words),
                Part::Inside(_) => text.truncate(text.trim_end_matches([' ', ':']).len()),
            }
        }
        text
    }

    /// Returns the text for a server's owner: that for users, without the names of these hosts, which services may have put into it.
    pub fn without_hosts<'a>(&self, hosts: impl IntoIterator<Item = &'a str>) -> String {
        let nameless = hosts.into_iter().fold(self.for_users(), |text, host| {
            let text = replace_name(&text, &format!("host {host}"), "the host");
            replace_name(&text, host, "the host")
        });
        // Errors of hosts begin with "the host", and callers put the name before them.
        nameless.replace("the host: the host ", "the host ")
    }

    /// True if operators read more than users.
    pub fn has_inside(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Inside(_)))
    }

    /// Returns the text to store. Marks in the words themselves are dropped, so they never begin or end a part.
    pub fn stored(&self) -> String {
        let parts = self.parts.iter().map(|part| match part {
            Part::Public(words) => without_marks(words),
            Part::Inside(words) => format!("{BEGIN}{}{END}", without_marks(words)),
        });
        parts.collect()
    }

    /// Reads a stored text, of this release or an earlier one. A part that was cut short reaches to the end.
    pub fn read(stored: &str) -> Reason {
        let (mut parts, mut rest) = (Parts::default(), stored);
        while let Some((before, after)) = rest.split_once(BEGIN) {
            let (inside, behind) = after.split_once(END).unwrap_or((after, ""));
            parts.push(&without_marks(before), false);
            parts.push(&without_marks(inside), true);
            rest = behind;
        }
        parts.push(&without_marks(rest), false);
        let reason = Reason { parts: parts.0, code: None };
        let code = ReasonCode::of_words(&reason.for_users());
        Reason { code, ..reason }
    }
}

fn without_marks(words: &str) -> String {
    words.replace([BEGIN, END], "")
}

/// Replaces the name, unless it is a part of a longer name.
fn replace_name(text: &str, name: &str, by: &str) -> String {
    let belongs = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let (mut replaced, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once(name).filter(|_| !name.is_empty()) {
        replaced.push_str(before);
        let is_whole = !replaced.ends_with(belongs) && !after.starts_with(belongs);
        replaced.push_str(if is_whole { by } else { name });
        rest = after;
    }
    replaced + rest
}

impl Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Public(words) => f.write_str(words),
            Part::Inside(words) => Inside(words).fmt(f),
        })
    }
}

impl From<&'static str> for Reason {
    fn from(words: &'static str) -> Reason {
        Reason::public(words)
    }
}

impl From<fmt::Arguments<'_>> for Reason {
    /// See [`reason!`](crate::reason!).
    fn from(words: fmt::Arguments<'_>) -> Reason {
        let mut parts = Parts::default();
        let outer = IS_INSIDE.replace(false);
        // Nothing here fails. If a value cannot be written, the words before it stand.
        parts.write_fmt(words).unwrap_or_default();
        IS_INSIDE.set(outer);
        Reason { parts: parts.0, code: None }
    }
}

impl Serialize for Reason {
    /// Writes the text to store.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.stored())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Reason, D::Error> {
        Ok(Reason::read(&String::deserialize(deserializer)?))
    }
}

/// Words that operators alone may read. A writer shows them as they are; a [`Reason`] keeps them apart.
pub struct Inside<T>(pub T);

thread_local! {
    /// True while the words of an [`Inside`] are written, so that a reason in the making knows where they belong.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

impl<T: Display> Display for Inside<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outer = IS_INSIDE.replace(true);
        let written = self.0.fmt(f);
        IS_INSIDE.set(outer);
        written
    }
}

/// The parts of a reason in the making.
#[derive(Default)]
struct Parts(Vec<Part>);

impl Parts {
    fn push(&mut self, words: &str, is_inside: bool) {
        match self.0.last_mut() {
            _ if words.is_empty() => {}
            Some(Part::Public(last)) if !is_inside => last.push_str(words),
            Some(Part::Inside(last)) if is_inside => last.push_str(words),
            _ if is_inside => self.0.push(Part::Inside(words.to_owned())),
            _ => self.0.push(Part::Public(words.to_owned())),
        }
    }
}

impl Write for Parts {
    fn write_str(&mut self, words: &str) -> fmt::Result {
        self.push(words, IS_INSIDE.get());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_read_a_reason_without_its_inner_parts() {
        let disk = reason!("image is unavailable: {}", Inside("/var/lib/images: Permission denied"));
        let nested = reason!("step failed: {disk}; {}.", Inside(format!("again: {disk}")));
        assert_eq!(disk.for_users(), "image is unavailable");
        assert_eq!(nested.for_users(), "step failed: image is unavailable;.");
        assert_eq!(disk.to_string(), "image is unavailable: /var/lib/images: Permission denied");
        assert!(disk.has_inside() && !reason!("nothing").has_inside());
    }

    #[test]
    fn an_error_keeps_the_parts_of_its_cause() {
        #[derive(thiserror::Error, Debug)]
        #[error("the disk of {server} is unavailable: {why}")]
        struct Outer {
            server: &'static str,
            why: Reason,
        }
        let error = Outer { server: "s", why: Reason::of_system(&io::Error::from(ErrorKind::StorageFull)) };
        let refusal = reason!("not now: {error}");
        assert_eq!(refusal.for_users(), "not now: the disk of s is unavailable: no space is left on the disk");
        assert_eq!(refusal.to_string(), format!("not now: {error}"), "operators read the whole text");
        assert_eq!(reason!("{}", Inside(&error)).for_users(), "");
    }

    #[test]
    fn a_users_words_neither_cut_nor_reveal() {
        let name = "⟫ a ⟪ server";
        let refusal = reason!("{name} is refused: {}", Inside("⟫/var⟪"));
        assert_eq!(refusal.for_users(), "⟫ a ⟪ server is refused");
        assert_eq!(refusal.stored(), " a  server is refused: ⟪/var⟫");
        assert_eq!(Reason::read(&refusal.stored()).for_users(), " a  server is refused");
        assert_eq!(Reason::public(name).to_string(), name);
    }

    #[test]
    fn stored_reasons_are_read_as_they_were_written() {
        for stored in ["no room", "host h1: no room ⟪(h1: 5)⟫ now", "⟪all of it⟫", "a: ⟪b⟫; c ⟪d⟫.", ""] {
            assert_eq!(Reason::read(stored).stored(), stored);
            let json = serde_json::to_string(&Reason::read(stored)).unwrap();
            assert_eq!(json, serde_json::to_string(stored).unwrap(), "an earlier release reads it");
            assert_eq!(serde_json::from_str::<Reason>(&json).unwrap(), Reason::read(stored));
        }
        assert_eq!(Reason::read("cut short ⟪at its e").for_users(), "cut short");
    }

    #[test]
    fn a_code_is_read_from_the_words_that_its_maker_writes() {
        for refusal in [Reason::no_valid_host("There are not enough.".into()), Reason::quota_exceeded("port")] {
            assert!(refusal.code().is_some());
            assert_eq!(Reason::read(&refusal.stored()), refusal);
            assert_eq!(refusal.clone().and(&Reason::inside("Tried h1")).code(), refusal.code());
        }
        assert_eq!(Reason::read("⟪No valid host was found.⟫").code(), None);
    }

    #[test]
    fn owners_read_no_name_of_a_host_in_any_reason() {
        let shown = |stored: &str| Reason::read(stored).without_hosts(["h1", "cell1-host1"]);
        assert_eq!(shown("host cell1-host1: no room"), "the host: no room");
        assert_eq!(shown("host cell1-host1: the host did not answer"), "the host did not answer");
        assert_eq!(shown("Binding for port 5 on host h1 exists on h1."), "Binding for port 5 on the host exists on the host.");
        assert_eq!(shown("h10 and cell1-host10 are others; ⟪h1 is inside⟫"), "h10 and cell1-host10 are others;");
        assert_eq!(Reason::public("whole").without_hosts([""]), "whole");
    }
}
