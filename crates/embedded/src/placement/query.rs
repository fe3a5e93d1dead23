//! Query strings: the parameters that a microversion knows, and the forms of those that several lists share.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::{HttpRequest, web};
use cellshift_web::error::{ApiError, Message};
use cellshift_web::microversion::ApiVersion;
use uuid::Uuid;

use super::EmbeddedPlacement;
use super::candidates::Traits;
use super::routes::{invalid, refusal};

/// The minor versions from which `!` forbids traits, `in:` allows any of several, and both may be said repeatedly.
const FORBIDDEN_TRAITS: u16 = 22;
const ANY_TRAITS: u16 = 39;
/// The minor version from which `member_of` may be said repeatedly.
const SEVERAL_MEMBER_OF: u16 = 24;
/// The minor version from which `!` forbids aggregates.
const FORBIDDEN_AGGREGATES: u16 = 32;

/// A code for programs: a parameter's value makes no sense.
pub(super) const BAD_VALUE: &str = "placement.query.bad_value";
/// A code for programs: a parameter is missing.
pub(super) const MISSING_VALUE: &str = "placement.query.missing_value";
const DUPLICATE_KEY: &str = "placement.query.duplicate_key";

/// The pairs of a query, in their order.
pub(super) type Pairs = Vec<(String, String)>;

/// Returns the pairs of a request.
pub(super) fn pairs(request: &HttpRequest) -> Result<Pairs, ApiError> {
    let pairs = web::Query::<Pairs>::from_query(request.query_string());
    let pairs = pairs.map_err(|why| bad(why.to_string()))?.into_inner();
    Ok(pairs.into_iter().map(|(name, value)| (name, value.trim().to_owned())).collect())
}

/// The parameters of a list.
pub(super) struct Parameters(Pairs);

impl Parameters {
    /// Reads the parameters. 400 for one that is not among `parameters`, each with the minor version from which it is there.
    pub(super) fn of(request: &HttpRequest, parameters: &[(&str, u16)], version: ApiVersion) -> Result<Parameters, ApiError> {
        let pairs = pairs(request)?;
        let exists = |name: &str| parameters.iter().any(|(parameter, since)| *parameter == name && version.at_least(*since));
        match pairs.iter().find(|(name, _)| !exists(name)) {
            Some((name, _)) => Err(unexpected(name)),
            None => Ok(Parameters(pairs)),
        }
    }

    /// Returns all values of a parameter.
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }

    /// Returns the value of a parameter. 400 if it is there twice.
    pub(super) fn one(&self, name: &str) -> Result<Option<&str>, ApiError> {
        match self.all(name)[..] {
            [] => Ok(None),
            [value] => Ok(Some(value)),
            _ => Err(twice(name)),
        }
    }

    /// Returns a parameter whose value is a UUID.
    pub(super) fn uuid(&self, name: &str) -> Result<Option<Uuid>, ApiError> {
        self.one(name)?.map(|text| uuid(name, text)).transpose()
    }
}

/// Refuses a query: 400 with the general beginning.
pub(super) fn bad(why: impl std::fmt::Display) -> ApiError {
    coded(BAD_VALUE, format!("Invalid query string parameters: {why}"))
}

/// Refuses a query with a code for programs.
pub(super) fn coded(code: &'static str, message: impl Message) -> ApiError {
    let mut answer = invalid(message);
    answer.code = Some(code);
    answer
}

pub(super) fn twice(name: &str) -> ApiError {
    coded(DUPLICATE_KEY, format!("Query parameter '{name}' may be specified only once."))
}

pub(super) fn unexpected(name: &str) -> ApiError {
    bad(format!("Additional properties are not allowed ('{name}' was unexpected)"))
}

pub(super) fn uuid(name: &str, text: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(text).map_err(|_| bad(format!("Expected '{name}' parameter to be a format of uuid: '{text}' is not a 'uuid'")))
}

/// Parses `VCPU:1,MEMORY_MB:512`.
pub(super) fn amounts(text: &str) -> Result<BTreeMap<String, i64>, ApiError> {
    let malformed = |got: &str| {
        let form = "Badly formed resources parameter. Expected resources query string parameter in form: ?resources=VCPU:2,MEMORY_MB:1024.";
        coded(BAD_VALUE, format!("{form} Got: {got}."))
    };
    if text.trim().is_empty() {
        return Err(malformed("empty string"));
    }
    let mut amounts = BTreeMap::new();
    for part in text.split(',') {
        let (class, amount) = part.split_once(':').ok_or_else(|| malformed(part))?;
        let number: i64 = amount
            .trim()
            .parse()
            .map_err(|_| coded(BAD_VALUE, format!("Requested resource {class} expected positive integer amount. Got: {amount}.")))?;
        if number < 1 {
            return Err(coded(BAD_VALUE, format!("Requested resource {class} requires amount >= 1. Got: {number}.")));
        }
        amounts.insert(class.to_owned(), number);
    }
    Ok(amounts)
}

/// Takes the values of a `required` parameter: `A,!B`, and `in:A,B`. Before 1.39 the last of several replaces the others.
pub(super) fn traits(into: &mut Traits, name: &str, values: &[&str], version: ApiVersion) -> Result<(), ApiError> {
    let counted = if version.at_least(ANY_TRAITS) { values } else { &values[values.len().saturating_sub(1)..] };
    for value in counted {
        one_of_traits(into, name, value, version)?;
    }
    let clash: Vec<&str> = into
        .required
        .iter()
        .filter(|any| any.len() == 1)
        .flatten()
        .filter(|one| into.forbidden.contains(*one))
        .map(String::as_str)
        .collect();
    if !clash.is_empty() {
        return Err(coded(BAD_VALUE, format!("Conflicting required and forbidden traits found in {name}: {}", clash.join(", "))));
    }
    Ok(())
}

fn one_of_traits(into: &mut Traits, name: &str, value: &str, version: ApiVersion) -> Result<(), ApiError> {
    let may_forbid = version.at_least(FORBIDDEN_TRAITS);
    let form = if may_forbid { "HW_CPU_X86_VMX,!CUSTOM_MAGIC" } else { "HW_CPU_X86_VMX,CUSTOM_MAGIC" };
    let malformed = || bad(format!("Expected '{name}' parameter value of the form: {form}. Got: {value}"));
    if let Some(any) = value.strip_prefix("in:") {
        if !version.at_least(ANY_TRAITS) {
            return Err(bad(format!("The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since microversion 1.{ANY_TRAITS}.")));
        }
        let names: BTreeSet<String> = any.split(',').map(str::to_owned).collect();
        if names.iter().any(|one| one.is_empty() || one.starts_with('!')) {
            return Err(malformed());
        }
        into.required.push(names);
        return Ok(());
    }
    for part in value.split(',') {
        match part.strip_prefix('!') {
            Some(rest) if may_forbid && !rest.is_empty() => drop(into.forbidden.insert(rest.to_owned())),
            None if !part.is_empty() && !part.contains(':') => into.required.push([part.to_owned()].into()),
            _ => return Err(malformed()),
        }
    }
    Ok(())
}

/// Aggregates that a provider must be in, one of each set, and those that it must not be in.
#[derive(Default)]
pub(super) struct Members {
    pub(super) of: Vec<BTreeSet<Uuid>>,
    pub(super) not_of: BTreeSet<Uuid>,
}

/// Parses the values of a `member_of` parameter: `UUID`, `in:UUID,UUID`, `!UUID` and `!in:UUID,UUID`.
pub(super) fn members(name: &str, values: &[&str], version: ApiVersion) -> Result<Members, ApiError> {
    if values.len() > 1 && !version.at_least(SEVERAL_MEMBER_OF) {
        let why = format!("Multiple member_of parameters are not supported with microversions less than 1.{SEVERAL_MEMBER_OF}");
        return Err(coded(DUPLICATE_KEY, why));
    }
    let mut members = Members::default();
    for value in values {
        let forbidden = value.strip_prefix('!');
        if forbidden.is_some() && !version.at_least(FORBIDDEN_AGGREGATES) {
            return Err(bad("Forbidden member_of parameters are not supported in the specified microversion"));
        }
        let list = aggregates(name, forbidden.unwrap_or(value))?;
        match forbidden {
            Some(_) => members.not_of.extend(list),
            None => members.of.push(list),
        }
    }
    Ok(members)
}

fn aggregates(name: &str, text: &str) -> Result<BTreeSet<Uuid>, ApiError> {
    let several = text.strip_prefix("in:");
    if several.is_none() && text.contains(',') {
        let why = format!("Multiple values for '{name}' must be prefixed with the 'in:' or '!in:' keyword using the valid microversion.");
        return Err(bad(why));
    }
    let id = |id: &str| Uuid::parse_str(id).map_err(|_| bad(format!("Expected '{name}' parameter to contain valid UUID(s). Got: {text}")));
    several.unwrap_or(text).split(',').map(id).collect()
}

/// Refuses traits and resource classes that do not exist.
pub(super) async fn exist(service: &EmbeddedPlacement, traits: &[&Traits], classes: BTreeSet<&String>) -> Result<(), ApiError> {
    let has_names = |traits: &&Traits| !traits.required.is_empty() || !traits.forbidden.is_empty();
    if traits.iter().any(has_names) {
        let there: BTreeSet<String> = service.traits().await.map_err(refusal)?.into_iter().collect();
        let names: BTreeSet<&String> = traits.iter().flat_map(|traits| traits.required.iter().flatten().chain(&traits.forbidden)).collect();
        let missing: Vec<&str> = names.into_iter().filter(|name| !there.contains(*name)).map(String::as_str).collect();
        if !missing.is_empty() {
            return Err(coded(BAD_VALUE, format!("No such trait(s): {}.", missing.join(", "))));
        }
    }
    if !classes.is_empty() {
        let there: BTreeSet<String> = service.resource_classes().await.map_err(refusal)?.into_iter().collect();
        if let Some(missing) = classes.into_iter().find(|class| !there.contains(*class)) {
            let why = format!("Invalid resource class in resources parameter: No such resource class {missing}.");
            return Err(coded(BAD_VALUE, why));
        }
    }
    Ok(())
}
