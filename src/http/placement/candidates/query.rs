//! The query for allocation candidates: groups of resources, each with its own demands, by suffix.

use uuid::Uuid;

use super::super::{amounts, invalid};
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;
use crate::services::placement::candidates::{Query, Traits};

const LIMIT: u16 = 16;
const TRAITS: u16 = 17;
const MEMBERS: u16 = 21;
const FORBIDDEN_TRAITS: u16 = 22;
const GROUPS: u16 = 25;
const IN_TREE: u16 = 31;
const FORBIDDEN_AGGREGATES: u16 = 32;
const FREE_SUFFIXES: u16 = 33;
const ROOT_REQUIRED: u16 = 35;
const SAME_SUBTREE: u16 = 36;
const ANY_TRAITS: u16 = 39;
/// The most groups of one query, and the most classes of one group: they bound the search.
const GROUPS_MAX: usize = 16;

/// Parses the pairs of a query.
pub fn parse(pairs: Vec<(String, String)>, version: ApiVersion) -> Result<Query, ApiError> {
    let (mut query, mut has_policy) = (Query::default(), false);
    for (name, value) in pairs {
        match name.as_str() {
            "limit" if version.at_least(LIMIT) => {
                let limit = value.parse().ok().filter(|limit| *limit > 0);
                query.limit = Some(limit.ok_or_else(|| invalid("limit is a number above 0"))?);
            }
            "group_policy" if version.at_least(GROUPS) => {
                query.isolate = match value.as_str() {
                    "isolate" => true,
                    "none" => false,
                    _ => return Err(invalid("group_policy is none or isolate")),
                };
                has_policy = true;
            }
            "root_required" if version.at_least(ROOT_REQUIRED) => traits(&mut query.root, &value, version)?,
            "same_subtree" if version.at_least(SAME_SUBTREE) => {
                query.same_subtree.push(value.split(',').map(str::to_owned).collect());
            }
            other => member(&mut query, other, &value, version)?,
        }
    }
    check(&query, has_policy)?;
    Ok(query)
}

/// Takes a parameter of a group.
fn member(query: &mut Query, name: &str, value: &str, version: ApiVersion) -> Result<(), ApiError> {
    let known = [("resources", 0), ("required", TRAITS), ("member_of", MEMBERS), ("in_tree", IN_TREE)];
    let found = known.iter().find_map(|(key, since)| name.strip_prefix(key).map(|suffix| (*key, suffix, *since)));
    let unknown = || invalid(format!("The query parameter {name} is not known in this version of placement"));
    let (key, suffix, since) = found.ok_or_else(unknown)?;
    let may_be = suffix.is_empty() || (version.at_least(GROUPS) && is_suffix(suffix, version));
    if !version.at_least(since) || !may_be {
        return Err(unknown());
    }
    let group = query.groups.entry(suffix.to_owned()).or_default();
    match key {
        "resources" => group.resources = amounts(value)?,
        "required" => traits(&mut group.traits, value, version)?,
        "in_tree" => group.in_tree = Some(Uuid::parse_str(value).map_err(|_| invalid(format!("{value} is not a UUID")))?),
        _ => {
            let forbidden = value.strip_prefix('!').filter(|_| version.at_least(FORBIDDEN_AGGREGATES));
            let list = super::super::resource_providers::aggregates(forbidden.unwrap_or(value))?;
            match forbidden {
                Some(_) => group.no_member_of.extend(list),
                None => group.member_of.push(list),
            }
        }
    }
    Ok(())
}

fn is_suffix(text: &str, version: ApiVersion) -> bool {
    match version.at_least(FREE_SUFFIXES) {
        true => text.len() <= 64 && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'),
        false => !text.starts_with('0') && text.chars().all(|c| c.is_ascii_digit()),
    }
}

/// Parses `A,!B` and `in:A,B`.
fn traits(into: &mut Traits, text: &str, version: ApiVersion) -> Result<(), ApiError> {
    let bad = || {
        invalid(format!(
            "Invalid query string parameters: Expected 'required' parameter value of the form: HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: {text}"
        ))
    };
    if let Some(any) = text.strip_prefix("in:").filter(|_| version.at_least(ANY_TRAITS)) {
        into.required.push(any.split(',').map(str::to_owned).collect());
        return Ok(());
    }
    for name in text.split(',') {
        match name.strip_prefix('!') {
            Some(name) if version.at_least(FORBIDDEN_TRAITS) && !name.is_empty() => drop(into.forbidden.insert(name.to_owned())),
            None if !name.is_empty() && !name.contains(':') => into.required.push([name.to_owned()].into()),
            _ => return Err(bad()),
        }
    }
    Ok(())
}

fn check(query: &Query, has_policy: bool) -> Result<(), ApiError> {
    if query.groups.values().all(|group| group.resources.is_empty()) {
        return Err(invalid("The query asks for no resources"));
    }
    let numbered = query.groups.iter().filter(|(suffix, _)| !suffix.is_empty());
    if numbered.clone().filter(|(_, group)| !group.resources.is_empty()).count() > 1 && !has_policy {
        return Err(invalid("The \"group_policy\" parameter is required when specifying more than one \"resources{N}\" parameter."));
    }
    let in_subtree = |suffix: &String| query.same_subtree.iter().any(|set| set.contains(suffix));
    if let Some((suffix, _)) = query.groups.iter().find(|(suffix, group)| group.resources.is_empty() && !in_subtree(suffix)) {
        return Err(invalid(format!("All traits must be associated with resources: the group \"{suffix}\" asks for none")));
    }
    for suffix in query.same_subtree.iter().flatten() {
        if suffix.is_empty() || !query.groups.contains_key(suffix) {
            return Err(invalid(format!("Real suffixes should be specified in same_subtree: \"{suffix}\" is none")));
        }
    }
    if query.groups.len() > GROUPS_MAX || query.groups.values().any(|group| group.resources.len() > GROUPS_MAX) {
        return Err(invalid(format!("A query has at most {GROUPS_MAX} groups, and a group at most {GROUPS_MAX} resource classes")));
    }
    let both = |traits: &Traits| traits.required.iter().any(|any| any.iter().all(|name| traits.forbidden.contains(name)));
    if both(&query.root) || query.groups.values().any(|group| both(&group.traits)) {
        return Err(invalid("The query requires a trait that it forbids"));
    }
    Ok(())
}
