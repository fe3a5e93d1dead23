//! Numbers with their nouns.

use std::fmt::Display;

/// Returns a number with its noun: `1 host`, `2 hosts`. The noun is given in the singular, and takes an s.
pub fn counted<N: Copy + PartialEq + From<u8> + Display>(number: N, noun: &str) -> String {
    if number == N::from(1) { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Returns words in which each noun in the plural is replaced by its singular: `files read` becomes `file read`.
pub fn singular(words: &str) -> String {
    let one = |word: &str| match word.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => word.strip_suffix('s').unwrap_or(word).to_owned(),
    };
    words.split(' ').map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_agree_with_their_numbers() {
        assert_eq!([0_usize, 1, 2].map(|number| counted(number, "host")), ["0 hosts", "1 host", "2 hosts"]);
        assert_eq!(counted(1_u64, "host"), "1 host");
        assert_eq!(["images", "journal entries", "files read"].map(singular), ["image", "journal entry", "file read"]);
    }
}
