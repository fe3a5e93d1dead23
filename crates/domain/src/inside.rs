//! Parts of errors that only operators may read: paths, SQL, the system's messages. They are marked when they enter a message, so that they
//! can be cut out for users after any number of layers.

use std::fmt::Display;
use std::io::{self, ErrorKind};

const BEGIN: char = '⟪';
const END: char = '⟫';

/// Marks a text as internal.
pub fn of(words: impl Display) -> String {
    let words: String = words.to_string().chars().filter(|c| ![BEGIN, END].contains(c)).collect();
    format!("{BEGIN}{words}{END}")
}

/// Marks the system's error about a file as [`of`] does, but tells users that the disk is full, because they can help.
pub fn of_system(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => format!("no space is left on the disk {}", of(error)),
        _ => of(error),
    }
}

/// Returns the message for users: without internal parts, and without the colon or blank before them.
pub fn cut(message: &str) -> String {
    let mut told = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        told.push_str(before);
        told.truncate(told.trim_end_matches([' ', ':']).len());
        rest = after.split_once(END).map_or("", |(_, behind)| behind);
    }
    told.push_str(rest);
    told
}

/// Returns the whole message for operators, without the marks.
pub fn opened(message: &str) -> String {
    message.replace([BEGIN, END], "")
}

/// Returns the message for a server's owner: cut, and without the names of these hosts, which services may have put into it.
pub fn cut_of_hosts<'a>(message: &str, hosts: impl IntoIterator<Item = &'a str>) -> String {
    let nameless = hosts.into_iter().fold(cut(message), |told, host| {
        let told = replace_name(&told, &format!("host {host}"), "the host");
        replace_name(&told, host, "the host")
    });
    // Errors of hosts begin with "the host", and callers put the name before them.
    nameless.replace("the host: the host ", "the host ")
}

/// Replaces the name, unless it is a part of a longer name.
fn replace_name(text: &str, name: &str, by: &str) -> String {
    let belongs = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let (mut told, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once(name).filter(|_| !name.is_empty()) {
        told.push_str(before);
        let is_whole = !told.ends_with(belongs) && !after.starts_with(belongs);
        told.push_str(if is_whole { by } else { name });
        rest = after;
    }
    told + rest
}

/// True if the message has internal parts.
pub fn is_in(message: &str) -> bool {
    message.contains(BEGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_read_the_message_without_what_is_from_the_inside() {
        let disk = format!("image is unavailable: {}", of("/var/lib/images: Permission denied"));
        let nested = format!("step failed: {disk}; {}.", of(format!("again: {disk}")));
        assert_eq!(cut(&disk), "image is unavailable");
        assert_eq!(cut(&nested), "step failed: image is unavailable;.");
        assert_eq!(opened(&disk), "image is unavailable: /var/lib/images: Permission denied");
        assert_eq!(cut("nothing of it"), "nothing of it");
        assert_eq!(cut("cut short ⟪at its e"), "cut short");
        assert!(disk.contains("Permission denied") && is_in(&disk) && !is_in("nothing"));
    }

    #[test]
    fn owners_read_no_name_of_a_host_in_any_message() {
        let told = |message: &str| cut_of_hosts(message, ["h1", "cell1-host1"]);
        assert_eq!(told("host cell1-host1: no room"), "the host: no room");
        assert_eq!(told("host cell1-host1: the host did not answer"), "the host did not answer");
        assert_eq!(told("Binding for port 5 on host h1 exists on h1."), "Binding for port 5 on the host exists on the host.");
        assert_eq!(told("h10 and cell1-host10 are others; ⟪h1 is inside⟫"), "h10 and cell1-host10 are others;");
        assert_eq!(cut_of_hosts("whole", [""]), "whole");
    }
}
