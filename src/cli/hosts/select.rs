//! The hosts that a command line names: by name, by pattern, or by their aggregate.

use serde_json::Value;

use crate::cli::Failure;
use crate::cli::output::{entries, text};
use crate::cli::words::there_are;
use crate::client::Client;
use crate::domain::nearest::did_you_mean;

/// The selected hosts of a list.
pub(super) struct Selection {
    /// Names and patterns. A host fits one of them; empty if all fit.
    names: Vec<String>,
    /// The hosts of the aggregate; none if no aggregate is named.
    members: Option<Vec<String>>,
}

impl Selection {
    /// Reads the hosts of the aggregate.
    pub(super) async fn read(client: &Client, names: Vec<String>, aggregate: Option<&str>) -> Result<Selection, Failure> {
        let members = match aggregate {
            Some(aggregate) => Some(members(&client.get("compute", "/os-aggregates").await?, aggregate)?),
            None => None,
        };
        Ok(Selection { names, members })
    }

    /// Removes the other hosts from the list. Fails if a name or a pattern fits none.
    pub(super) fn narrow(&self, hosts: &mut Value) -> Result<(), Failure> {
        let Some(hosts) = hosts.as_array_mut() else { return Ok(()) };
        if let Some(members) = &self.members {
            hosts.retain(|host| members.iter().any(|member| host["name"] == member.as_str()));
        }
        let missing = self.names.iter().find(|pattern| hosts.iter().all(|host| !fits(pattern, text(host, "name"))));
        if let Some(missing) = missing {
            let near = did_you_mean(missing, hosts.iter().map(|host| text(host, "name")));
            return Err(format!("none of the hosts is called {missing:?}.{near}").into());
        }
        hosts.retain(|host| self.names.is_empty() || self.names.iter().any(|pattern| fits(pattern, text(host, "name"))));
        Ok(())
    }
}

/// Returns the hosts of the aggregate with this name or id.
fn members(answer: &Value, name: &str) -> Result<Vec<String>, Failure> {
    let aggregates = entries(answer, "aggregates");
    let is_called = |aggregate: &&Value| {
        aggregate["name"] == name || aggregate["id"].as_u64().is_some_and(|id| id.to_string() == name) || aggregate["uuid"] == name
    };
    let names = || aggregates.iter().map(|aggregate| text(aggregate, "name"));
    let Some(aggregate) = aggregates.iter().find(is_called) else {
        return Err(format!("--aggregate: none is called {name:?}.{}{}", did_you_mean(name, names()), there_are(names())).into());
    };
    Ok(entries(aggregate, "hosts").iter().filter_map(|host| host.as_str().map(str::to_owned)).collect())
}

/// True if the pattern describes the whole name: `*` stands for any text, and `?` for any letter.
pub(in crate::cli) fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // Whether the part of the pattern so far describes the first letters of the name, by their number.
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    for letter in pattern {
        let mut next = vec![false; name.len() + 1];
        for at in 0..=name.len() {
            next[at] = match letter {
                '*' => reached[at] || at > 0 && next[at - 1],
                '?' => at > 0 && reached[at - 1],
                letter => at > 0 && reached[at - 1] && name[at - 1] == letter,
            };
        }
        reached = next;
    }
    reached[name.len()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patterns_describe_whole_names() {
        for (pattern, name) in [("cell1-*", "cell1-host1"), ("*host?", "cell1-host1"), ("*", ""), ("h1", "h1"), ("a*b*c", "a-b-b-c")] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("cell1", "cell1-host1"), ("?", ""), ("a*b", "abc"), ("H1", "h1"), ("", "h1")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_selection_fails_for_a_name_without_hosts() {
        let list = || json!([{"name": "h1"}, {"name": "h2"}, {"name": "other"}]);
        let narrowed = |names: &[&str], members: Option<&[&str]>| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            let mut hosts = list();
            let selection = Selection { names: owned(names), members: members.map(owned) };
            selection.narrow(&mut hosts).map(|()| hosts).map_err(|failure| failure.to_string())
        };
        assert_eq!(narrowed(&[], None), Ok(list()));
        assert_eq!(narrowed(&["h*"], None), Ok(json!([{"name": "h1"}, {"name": "h2"}])));
        assert_eq!(narrowed(&["h*"], Some(&["h2", "gone"])), Ok(json!([{"name": "h2"}])));
        assert_eq!(narrowed(&["h1", "othr"], None), Err("none of the hosts is called \"othr\". Did you mean other?".to_owned()));
        assert_eq!(narrowed(&["x*"], None), Err("none of the hosts is called \"x*\".".to_owned()));
    }

    #[test]
    fn aggregates_have_names_and_ids() {
        let answer = json!({"aggregates": [{"id": 7, "uuid": "u", "name": "gen1", "hosts": ["h1"]}]});
        assert_eq!(members(&answer, "gen1").unwrap(), ["h1"]);
        assert_eq!(members(&answer, "7").unwrap(), ["h1"]);
        assert_eq!(
            members(&answer, "gen2").unwrap_err().to_string(),
            "--aggregate: none is called \"gen2\". Did you mean gen1? There are: gen1"
        );
    }
}
