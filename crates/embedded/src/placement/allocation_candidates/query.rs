//! The query for allocation candidates: groups of resources, each with its own demands, by suffix.

use std::collections::{BTreeMap, BTreeSet};

use cellshift_web::error::ApiError;
use cellshift_web::microversion::ApiVersion;

use crate::placement::candidates::{Group, Query};
use crate::placement::query::{self, BAD_VALUE, MISSING_VALUE, Pairs, bad, coded, twice, unexpected};

const LIMIT: u16 = 16;
const TRAITS: u16 = 17;
const MEMBERS: u16 = 21;
const GROUPS: u16 = 25;
const IN_TREE: u16 = 31;
const FREE_SUFFIXES: u16 = 33;
const ROOT_REQUIRED: u16 = 35;
const SAME_SUBTREE: u16 = 36;
/// The parameters of a group, each with its minor version.
const OF_GROUPS: &[(&str, u16)] = &[("resources", 0), ("required", TRAITS), ("member_of", MEMBERS), ("in_tree", IN_TREE)];
/// The most groups of one query, and the most classes of one group: they bound the search.
const GROUPS_MAX: usize = 16;

/// The values of each parameter of a group, by its name without the suffix.
type Parameters<'a> = BTreeMap<&'static str, Vec<&'a str>>;

/// Parses the pairs of a query. Of several limits or policies the first counts, as in Placement.
pub fn parse(pairs: &Pairs, version: ApiVersion) -> Result<Query, ApiError> {
    let (mut query, mut policy, mut root_required) = (Query::default(), None, Vec::new());
    let mut groups: BTreeMap<&str, Parameters<'_>> = BTreeMap::new();
    for (name, value) in pairs {
        match name.as_str() {
            "limit" if version.at_least(LIMIT) => {
                let limit = value.parse().ok().filter(|limit| *limit > 0);
                let limit = limit.ok_or_else(|| bad(format!("'{value}' does not match '^[1-9][0-9]*$'. Failed validating 'pattern'")))?;
                query.limit.get_or_insert(limit);
            }
            "group_policy" if version.at_least(GROUPS) => {
                policy.get_or_insert(value.as_str());
            }
            "root_required" if version.at_least(ROOT_REQUIRED) => root_required.push(value.as_str()),
            "same_subtree" if version.at_least(SAME_SUBTREE) => query.same_subtree.push(value.split(',').map(str::to_owned).collect()),
            other => {
                let (key, suffix) = of_group(other, version)?;
                groups.entry(suffix).or_default().entry(key).or_default().push(value);
            }
        }
    }
    if root_required.len() > 1 {
        return Err(twice("root_required"));
    }
    query::traits(&mut query.root, "root_required", &root_required, version)?;
    query.isolate = match policy {
        Some("isolate") => true,
        None | Some("none") => false,
        Some(other) => return Err(bad(format!("'{other}' is not one of ['none', 'isolate']"))),
    };
    check_orphans(&groups, version)?;
    for (suffix, parameters) in groups {
        query.groups.insert(suffix.to_owned(), group(suffix, &parameters, version)?);
    }
    check(&query, policy.is_some())?;
    Ok(query)
}

/// Returns a parameter's name without its suffix, and the suffix.
fn of_group(name: &str, version: ApiVersion) -> Result<(&'static str, &str), ApiError> {
    let unknown = || match version.at_least(GROUPS) {
        true => {
            let suffix = if version.at_least(FREE_SUFFIXES) { "[a-zA-Z0-9_-]{1,64}" } else { "[1-9][0-9]*" };
            let keys = OF_GROUPS.iter().filter(|(_, since)| version.at_least(*since));
            let patterns: Vec<String> = keys.map(|(key, _)| format!("'^{key}({suffix})?$'")).collect();
            bad(format!("'{name}' does not match any of the regexes: {}", patterns.join(", ")))
        }
        false => unexpected(name),
    };
    let parameter = OF_GROUPS.iter().find_map(|(key, since)| name.strip_prefix(key).map(|suffix| (*key, suffix, *since)));
    let (key, suffix, since) = parameter.ok_or_else(unknown)?;
    let may_be = suffix.is_empty() || (version.at_least(GROUPS) && is_suffix(suffix, version));
    if version.at_least(since) && may_be { Ok((key, suffix)) } else { Err(unknown()) }
}

fn is_suffix(text: &str, version: ApiVersion) -> bool {
    match version.at_least(FREE_SUFFIXES) {
        true => text.len() <= 64 && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'),
        false => !text.starts_with('0') && text.chars().all(|c| c.is_ascii_digit()),
    }
}

fn group(suffix: &str, parameters: &Parameters<'_>, version: ApiVersion) -> Result<Group, ApiError> {
    let mut group = Group::default();
    let values = |key: &str| parameters.get(key).map_or(&[][..], Vec::as_slice);
    let one = |key: &str| match values(key) {
        [] => Ok(None),
        [value] => Ok(Some(*value)),
        _ => Err(twice(&format!("{key}{suffix}"))),
    };
    if let Some(text) = one("resources")? {
        group.resources = query::amounts(text)?;
    }
    query::traits(&mut group.traits, &format!("required{suffix}"), values("required"), version)?;
    let name = format!("in_tree{suffix}");
    group.in_tree = one("in_tree")?.map(|text| query::uuid(&name, text)).transpose()?;
    let members = query::members(&format!("member_of{suffix}"), values("member_of"), version)?;
    (group.member_of, group.no_member_of) = (members.of, members.not_of);
    Ok(group)
}

/// Refuses demands on nothing. From 1.36 on a group with a suffix may ask for no resources, if it is in a subtree with others.
fn check_orphans(groups: &BTreeMap<&str, Parameters<'_>>, version: ApiVersion) -> Result<(), ApiError> {
    let alone: Vec<(&&str, &Parameters<'_>)> = groups
        .iter()
        .filter(|(suffix, parameters)| !parameters.contains_key("resources") && (suffix.is_empty() || !version.at_least(SAME_SUBTREE)))
        .collect();
    for (key, what) in [("required", "traits"), ("member_of", "member_of")] {
        let orphans: Vec<String> =
            alone.iter().filter(|(_, parameters)| parameters.contains_key(key)).map(|(suffix, _)| format!("{key}{suffix}")).collect();
        if !orphans.is_empty() {
            return Err(coded(
                BAD_VALUE,
                format!(
                    "All {what} parameters must be associated with resources. Found the following orphaned {what} keys: {}",
                    orphans.join(", ")
                ),
            ));
        }
    }
    if groups.is_empty() && version.at_least(GROUPS) {
        return Err(coded(MISSING_VALUE, "At least one request group (`resources` or `resources{$S}`) is required."));
    }
    if groups.is_empty() {
        return Err(bad("'resources' is a required property"));
    }
    match alone.is_empty() {
        true => Ok(()),
        false => Err(coded(MISSING_VALUE, "All request groups must specify resources.")),
    }
}

fn check(query: &Query, has_policy: bool) -> Result<(), ApiError> {
    if query.groups.values().all(|group| group.resources.is_empty()) {
        return Err(coded(MISSING_VALUE, "There must be at least one resources or resources[$S] parameter."));
    }
    let numbered = query.groups.iter().filter(|(suffix, _)| !suffix.is_empty());
    if numbered.clone().filter(|(_, group)| !group.resources.is_empty()).count() > 1 && !has_policy {
        let why = "The \"group_policy\" parameter is required when specifying more than one \"resources{N}\" parameter.";
        return Err(coded(MISSING_VALUE, why));
    }
    let subtrees: BTreeSet<&String> = query.same_subtree.iter().flatten().collect();
    if subtrees.iter().any(|suffix| suffix.is_empty()) {
        return Err(coded(BAD_VALUE, "Empty string (unsuffixed group) can not be specified in `same_subtree`"));
    }
    let strange: Vec<&str> = subtrees.iter().filter(|suffix| !query.groups.contains_key(**suffix)).map(|suffix| suffix.as_str()).collect();
    if !strange.is_empty() {
        let why = format!("Real suffixes should be specified in `same_subtree`: {} not found in the query", strange.join(", "));
        return Err(coded(BAD_VALUE, why));
    }
    let alone: Vec<&str> = query
        .groups
        .iter()
        .filter(|(suffix, group)| group.resources.is_empty() && !subtrees.contains(suffix))
        .map(|(suffix, _)| suffix.as_str())
        .collect();
    if !alone.is_empty() {
        let why = "Resourceless suffixed group request should be specified in `same_subtree` query param";
        return Err(coded(BAD_VALUE, format!("{why}: bad group(s) - {}", alone.join(", "))));
    }
    if query.groups.len() > GROUPS_MAX || query.groups.values().any(|group| group.resources.len() > GROUPS_MAX) {
        return Err(bad(format!("A query has at most {GROUPS_MAX} groups, and a group at most {GROUPS_MAX} resource classes")));
    }
    Ok(())
}
