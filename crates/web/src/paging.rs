//! Pages of lists: their order, their beginning after a marker, and the link to the next one. Each API has its own parameters and messages.

use std::cmp::Reverse;

use actix_web::HttpRequest;

use crate::base_url;

/// Sorts by keys, the most important first, each with whether it is descending. Entries with equal values keep their order.
pub fn sort<T, K, V: Ord>(entries: &mut [T], keys: &[(K, bool)], value: impl Fn(&T, &K) -> V) {
    for (key, descending) in keys.iter().rev() {
        match descending {
            true => entries.sort_by_cached_key(|entry| Reverse(value(entry, key))),
            false => entries.sort_by_cached_key(|entry| value(entry, key)),
        }
    }
}

/// Removes the marked entry and those before it. False if no entry is marked; then all stay.
pub fn begin_after<T>(entries: &mut Vec<T>, is_marker: impl Fn(&T) -> bool) -> bool {
    let marked = entries.iter().position(is_marker);
    entries.drain(..marked.map_or(0, |at| at + 1));
    marked.is_some()
}

/// Returns the URL of the page after the entry with this id: that of the request, without these parameters and with the marker.
pub fn next(request: &HttpRequest, without: &[&str], marker: &str) -> String {
    let stays = |pair: &&str| !pair.is_empty() && !without.contains(&pair.split('=').next().unwrap_or_default());
    let marker = format!("marker={marker}");
    let query: Vec<&str> = request.query_string().split('&').filter(stays).chain([marker.as_str()]).collect();
    format!("{}{}?{}", base_url::of(request), request.path(), query.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_decides_and_equal_entries_keep_their_order() {
        let mut entries = vec![("b", 1), ("a", 2), ("b", 2), ("a", 1)];
        sort(&mut entries, &[("letter", true)], |entry, _| entry.0);
        assert_eq!(entries, [("b", 1), ("b", 2), ("a", 2), ("a", 1)]);
        sort(
            &mut entries,
            &[("letter", false), ("number", true)],
            |entry, key| if *key == "letter" { entry.0.to_owned() } else { entry.1.to_string() },
        );
        assert_eq!(entries, [("a", 2), ("a", 1), ("b", 2), ("b", 1)]);
    }

    #[test]
    fn a_page_begins_after_its_marker() {
        let mut entries = vec![1, 2, 3];
        assert!(!begin_after(&mut entries, |entry| *entry == 4));
        assert_eq!(entries, [1, 2, 3]);
        assert!(begin_after(&mut entries, |entry| *entry == 2));
        assert_eq!(entries, [3]);
    }
}
