//! The order of a command's list: `--sort` by what one of the columns shows.

use std::marker::PhantomData;
use std::net::IpAddr;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::Value;

use super::words::moment;

/// The value that decides the place of an entry.
#[derive(Clone, Copy)]
pub(super) enum Key {
    /// The text of the column.
    Text,
    /// The number or the moment in this field, named by a JSON pointer.
    Field(&'static str),
    /// The number that this function makes of an entry.
    Number(fn(&Value) -> Option<i64>),
    /// The address in this field, named by a JSON pointer.
    Address(&'static str),
}

/// A word of `--sort`, and what it sorts by.
pub(super) type Sort = (&'static str, Key);

/// A list that can be sorted.
pub(super) trait Sorted: Clone + Send + Sync + 'static {
    /// The words of `--sort`: one for each column, in the columns' order, and then the words of fields that no column shows.
    const SORTS: &'static [Sort];
}

/// Declares a list and the words of its `--sort`. Behind a word stands what it sorts by, unless that is the text of its column:
/// `ServerList by "name", "created" = Key::Field("/created")`.
macro_rules! sorted {
    ($(#[$doc:meta])* $list:ident by $($word:literal $(= $key:expr)?),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Clone)]
        struct $list;

        impl $crate::cli::order::Sorted for $list {
            const SORTS: &'static [$crate::cli::order::Sort] = &[$(($word, $crate::cli::order::sorted!(@key $($key)?))),+];
        }
    };
    (@key) => {
        $crate::cli::order::Key::Text
    };
    (@key $key:expr) => {
        $key
    };
}
pub(super) use sorted;

/// The options for the order of a list.
#[derive(Args, Clone)]
pub(super) struct Order<L: Sorted> {
    /// Sort by this column. All entries are read for that, and --limit keeps the first of them.
    #[arg(long, value_name = "COLUMN", value_parser = PossibleValuesParser::new(words::<L>()))]
    sort: Option<String>,
    /// Turn the order of --sort round.
    #[arg(long, requires = "sort")]
    reverse: bool,
    #[arg(skip)]
    list: PhantomData<L>,
}

fn words<L: Sorted>() -> Vec<&'static str> {
    L::SORTS.iter().map(|(word, _)| *word).collect()
}

impl<L: Sorted> Order<L> {
    /// Returns the word of `--sort`.
    pub(super) fn word(&self) -> Option<&str> {
        self.sort.as_deref()
    }

    /// True if the order is turned round.
    pub(super) fn is_reversed(&self) -> bool {
        self.reverse
    }

    /// Returns the number of entries to read for a list of this length: all if they are to be sorted.
    pub(super) fn read_limit(&self, limit: Option<u32>) -> Option<u32> {
        if self.sort.is_some() { Some(u32::MAX) } else { limit }
    }

    /// Sorts a list by what the column of `--sort` shows, equal entries by the first column, and cuts it to its length. Without `--sort`
    /// the list stays as the service gives it.
    pub(super) fn arrange<const N: usize>(&self, list: &mut Value, limit: Option<u32>, row: impl Fn(&Value) -> [String; N]) {
        let sort = self.sort.as_deref().and_then(|sort| L::SORTS.iter().position(|(word, _)| *word == sort));
        let (Some(at), Some(entries)) = (sort, list.as_array_mut()) else { return };
        let key = L::SORTS[at].1;
        entries.sort_by_cached_key(|entry| Rank::of(entry, key, at, &row(entry)));
        if self.reverse {
            entries.reverse();
        }
        entries.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
    }
}

/// The place of an entry. An entry without a number or an address comes first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    address: Option<IpAddr>,
    number: Option<i64>,
    text: String,
    first: String,
}

impl Rank {
    /// Returns the place of an entry with this row in the order by the column at `at`.
    fn of(entry: &Value, key: Key, at: usize, row: &[String]) -> Rank {
        let address = match key {
            Key::Address(field) => entry.pointer(field).and_then(Value::as_str).and_then(|text| text.parse().ok()),
            _ => None,
        };
        let number = match key {
            Key::Field(field) => entry.pointer(field).and_then(number),
            Key::Number(of) => of(entry),
            Key::Text | Key::Address(_) => None,
        };
        let cell = |at: usize| row.get(at).cloned().unwrap_or_default();
        Rank { address, number, text: cell(at), first: cell(0) }
    }
}

/// Returns a number, or a moment in microseconds.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_bool().map(i64::from)).or_else(|| moment(value).map(|at| at.timestamp_micros()))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// Asserts that each column of a list has its word, by which a person would name it.
    pub(in crate::cli) fn words_name_the_columns<L: Sorted>(head: &[&str]) {
        let words = words::<L>();
        for (head, word) in head.iter().zip(&words) {
            let letters = |text: &str| text.to_lowercase().replace([' ', '-'], "");
            let is_named = letters(head).contains(&letters(word));
            assert!(is_named, "{head} is not named by {word}");
        }
        assert!(words.len() >= head.len(), "{words:?}");
    }

    sorted! {
        Things by
            "name", "count" = Key::Field("/count"), "since" = Key::Field("/since"), "address" = Key::Address("/addresses/0"),
            "length" = Key::Number(|thing| i64::try_from(thing["name"].as_str()?.len()).ok()),
    }

    fn order(sort: Option<&str>, reverse: bool) -> Order<Things> {
        Order { sort: sort.map(str::to_owned), reverse, list: PhantomData }
    }

    fn arranged(sort: Option<&str>, reverse: bool, limit: Option<u32>) -> Vec<String> {
        let thing = |name: &str, count: u32, since: &str, address: &str| json!({"name": name, "count": count, "since": since, "addresses": [address]});
        let mut list = json!([
            thing("web", 10, "2026-11-27T08:00:00Z", "10.0.0.30"),
            thing("db", 9, "2026-11-27T07:00:00.5+00:00", "10.0.0.4"),
            thing("cache", 9, "2026-11-27T09:00:00Z", "10.0.0.200"),
        ]);
        let row = |thing: &Value| [thing["name"].as_str().unwrap_or_default().to_owned(), thing["count"].to_string()];
        order(sort, reverse).arrange(&mut list, limit, row);
        list.as_array().into_iter().flatten().map(|thing| row(thing)[0].clone()).collect()
    }

    #[test]
    fn lists_are_sorted_by_the_thing_that_a_column_shows() {
        assert_eq!(arranged(Some("name"), false, None), ["cache", "db", "web"]);
        assert_eq!(arranged(Some("count"), false, None), ["cache", "db", "web"], "numbers are no texts; equal ones are sorted by name");
        assert_eq!(arranged(Some("count"), true, Some(1)), ["web"]);
        assert_eq!(arranged(Some("since"), false, None), ["db", "web", "cache"]);
        assert_eq!(arranged(Some("address"), false, None), ["db", "web", "cache"], "by number, not by letters");
        assert_eq!(arranged(Some("length"), false, Some(2)), ["db", "web"]);
    }

    #[test]
    fn a_list_without_a_sort_stays_as_it_is() {
        assert_eq!(arranged(None, false, Some(1)), ["web", "db", "cache"]);
        assert_eq!((order(None, false).read_limit(Some(5)), order(None, false).read_limit(None)), (Some(5), None));
        assert_eq!(order(Some("name"), false).read_limit(Some(5)), Some(u32::MAX));
    }
}
