//! The name that somebody may have meant who wrote one that does not exist.

/// The largest number of changed letters, for a long word. A third of the letters of a short one may differ.
const CHANGES_MAX: usize = 3;

/// Returns the name that is most like the word; none if all are too different. Of names that are equally like it, the first.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.to_lowercase().chars().collect();
    let most = word.len().div_ceil(3).min(CHANGES_MAX);
    let distances = names.into_iter().map(|name| (distance(&word, &name.to_lowercase().chars().collect::<Vec<_>>()), name));
    distances.filter(|(changes, _)| *changes <= most).min_by_key(|(changes, _)| *changes).map(|(_, name)| name)
}

/// Returns a sentence that asks for the nearest name, with a blank before it; empty if no name is near.
pub fn did_you_mean<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, names).map(|name| format!(" Did you mean {name}?")).unwrap_or_default()
}

/// Returns the number of letters to insert, remove or replace that make one word of the other.
fn distance(word: &[char], name: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (at, letter) in word.iter().enumerate() {
        let mut diagonal = at;
        let mut left = at + 1;
        for (other, above) in name.iter().zip(row.iter_mut().skip(1)) {
            let changes = (diagonal + usize::from(letter != other)).min(*above + 1).min(left + 1);
            diagonal = *above;
            *above = changes;
            left = changes;
        }
        if let Some(first) = row.first_mut() {
            *first = at + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_with_the_fewest_changes_is_nearest() {
        let names = ["cell1", "cell2", "east", "gen1.small"];
        assert_eq!(nearest("cel2", names), Some("cell2"));
        assert_eq!(nearest("CELL2", names), Some("cell2"));
        assert_eq!(nearest("gen1-smal", names), Some("gen1.small"));
        assert_eq!(nearest("moon", names), None, "too many letters differ");
        assert_eq!(nearest("", names), None);
        assert_eq!(did_you_mean("eats", names), " Did you mean east?");
        assert_eq!(did_you_mean("moon", names), "");
    }

    #[test]
    fn distances_count_letters() {
        let of = |one: &str, other: &str| distance(&one.chars().collect::<Vec<_>>(), &other.chars().collect::<Vec<_>>());
        assert_eq!([of("", ""), of("abc", ""), of("", "abc"), of("abc", "abc"), of("kitten", "sitting")], [0, 3, 3, 0, 3]);
    }
}
