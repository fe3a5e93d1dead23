//! What an error says of the inside (paths, SQL, the system's words) is for operators. It is marked where it enters a message, so that
//! it can be cut out of what users read, however many layers the message has passed since.

use std::fmt::Display;
use std::io::{self, ErrorKind};

const BEGIN: char = '⟪';
const END: char = '⟫';

/// Marks the words as from the inside.
pub fn of(words: impl Display) -> String {
    let words: String = words.to_string().chars().filter(|c| ![BEGIN, END].contains(c)).collect();
    format!("{BEGIN}{words}{END}")
}

/// As [`of`] what the system said of a file. That the disk is full is no secret: users can help it.
pub fn of_system(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => format!("no space is left on the disk {}", of(error)),
        _ => of(error),
    }
}

/// The message as users read it: without what is from the inside, and without the colon or blank that led to it.
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

/// Whether there is anything in the message that users do not read.
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
        assert_eq!(cut("nothing of it"), "nothing of it");
        assert_eq!(cut("cut short ⟪at its e"), "cut short");
        assert!(disk.contains("Permission denied") && is_in(&disk) && !is_in("nothing"));
    }
}
