//! The judge of answers: each answer of a judged API that a test receives must fit the strict schema of its route at the microversion that the
//! answer names, and each refusal the form of refusals.
//!
//! Each resource or API has a table. A schema's changes name the microversions at which the answer changed, and the comment beside them
//! says how; the first of them is the route's first microversion. An answer without a body is judged as null.

mod compute;
mod identity;
mod image;
mod network;
mod parts;
mod placement;
mod refusals;
mod tests;
mod volume;

use std::collections::HashMap;
use std::sync::LazyLock;

use cellshift::domain::microversion::{COMPUTE, Microversion, PLACEMENT, VOLUME, VersionedApi};
use cellshift::http::schema::Schema;
use serde_json::Value;

/// A method, the pattern of a route, and the schema of its answers: the minor versions at which it changes, and what builds it at one of
/// them. The pattern of an action ends with `#` and the action's name.
pub type Route = (&'static str, &'static str, &'static [u16], fn(u16) -> Value);

/// An API whose answers are judged.
pub struct Api {
    /// The first part of its paths.
    root: &'static str,
    /// The part of its paths in which answers name their microversion.
    versioned: &'static str,
    /// None for an API without microversions.
    pub microversions: Option<VersionedApi>,
    /// Tables of routes, each with the root of its patterns.
    tables: &'static [(&'static str, &'static [Route])],
    /// Returns the objection to a refusal at a minor version, which is none if the request was refused before its version was known.
    refusal: fn(&ApiAnswer<'_>, Option<u16>) -> Option<String>,
}

/// All judged APIs.
pub static APIS: [Api; 6] = [
    Api {
        root: "/compute",
        versioned: "/compute/v2.1",
        microversions: Some(COMPUTE),
        tables: &compute::TABLES,
        refusal: refusals::of_compute,
    },
    Api {
        root: "/placement",
        versioned: "/placement",
        microversions: Some(PLACEMENT),
        tables: &placement::TABLES,
        refusal: refusals::of_placement,
    },
    Api {
        root: "/volume",
        versioned: "/volume/v3",
        microversions: Some(VOLUME),
        tables: &volume::TABLES,
        // Cinder's have the form of Nova's.
        refusal: refusals::of_compute,
    },
    plain("/identity", &identity::TABLES, refusals::of_identity),
    plain("/image", &image::TABLES, refusals::of_image),
    plain("/network", &network::TABLES, refusals::of_network),
];

/// Returns an API without microversions.
const fn plain(
    root: &'static str,
    tables: &'static [(&'static str, &'static [Route])],
    refusal: fn(&ApiAnswer<'_>, Option<u16>) -> Option<String>,
) -> Api {
    Api { root, versioned: root, microversions: None, tables, refusal }
}

/// True for the path and everything below it.
fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Api {
    /// Returns the judged API of a path.
    pub fn of(path: &str) -> Option<&'static Api> {
        APIS.iter().find(|api| is_below(path, api.root))
    }

    fn routes(&self) -> impl Iterator<Item = (&'static str, &'static Route)> + use<> {
        self.tables.iter().flat_map(|(root, table)| table.iter().map(move |route| (*root, route)))
    }

    /// Returns the minor version that an answer names. Paths before the versions have the first one.
    fn minor_of(&self, path: &str, answer: &ApiAnswer<'_>) -> Result<u16, String> {
        let Some(versions) = &self.microversions else { return Ok(0) };
        if !is_below(path, self.versioned) {
            return Ok(versions.min.minor);
        }
        let version = answer.version.and_then(|version| version.strip_prefix(versions.service)?.strip_prefix(' '));
        if versions.legacy_header.is_some() && version != answer.old_version {
            return Err(format!("the headers name the microversions {:?} and {:?}", answer.version, answer.old_version));
        }
        let named = version.and_then(Microversion::parse).filter(|named| named.major == versions.min.major);
        named.map(|named| named.minor).ok_or_else(|| format!("the headers name no microversion: {:?}", answer.version))
    }
}

/// A request, as far as its answer depends on it.
#[derive(Clone, Copy, Debug)]
pub struct ApiRequest<'a> {
    pub method: &'a str,
    /// The path from the root of the service, with the query.
    pub path: &'a str,
    pub body: Option<&'a [u8]>,
}

/// An answer.
#[derive(Clone, Copy, Debug)]
pub struct ApiAnswer<'a> {
    pub status: u16,
    /// The value of `OpenStack-API-Version`.
    pub version: Option<&'a str>,
    /// The value of `X-OpenStack-Nova-API-Version`.
    pub old_version: Option<&'a str>,
    /// The value of `Retry-After`.
    pub retry_after: Option<&'a str>,
    pub text: &'a str,
}

impl<'a> ApiAnswer<'a> {
    /// Makes an answer of its status, its headers and its body.
    pub fn new(status: u16, header: impl Fn(&str) -> Option<&'a str>, text: &'a str) -> ApiAnswer<'a> {
        let version = header("openstack-api-version");
        let old_version = header("x-openstack-nova-api-version");
        ApiAnswer { status, version, old_version, retry_after: header("retry-after"), text }
    }
}

/// Sends a request and judges the answer, of which it returns the status, the headers and the body.
pub async fn send(request: reqwest::RequestBuilder) -> reqwest::Result<(u16, reqwest::header::HeaderMap, String)> {
    let (http, request) = request.build_split();
    let request = request?;
    let (method, url) = (request.method().clone(), request.url().clone());
    // Other bodies are not read here, and may be large.
    let body = request.body().filter(|_| url.path().ends_with("/action")).and_then(reqwest::Body::as_bytes).map(<[u8]>::to_vec);
    let answer = http.execute(request).await?;
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let text = answer.text().await?;
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let path = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
    judge(ApiRequest { method: method.as_str(), path: &path, body: body.as_deref() }, ApiAnswer::new(status, header, &text));
    Ok((status, headers, text))
}

/// Panics unless the answer is one that the route gives at its microversion. Answers of other services are not judged.
#[track_caller]
pub fn judge(request: ApiRequest<'_>, answer: ApiAnswer<'_>) {
    if let Some(why) = objection(request, answer) {
        panic!("{why}");
    }
}

/// Returns the objection to an answer; none if it is right, or is another service's.
pub fn objection(request: ApiRequest<'_>, answer: ApiAnswer<'_>) -> Option<String> {
    let (path, query) = request.path.split_once('?').unwrap_or((request.path, ""));
    let path = path.trim_end_matches('/');
    // Answers to HEAD have no body, and those to OPTIONS are the framework's.
    let api = Api::of(path).filter(|_| !["HEAD", "OPTIONS"].contains(&request.method))?;
    if answer.status < 400 && (is_a_part(api, query) || is_content(api, request.method, path)) {
        return None;
    }
    let why = why(api, request, path, answer)?;
    let version = answer.version.unwrap_or("without a microversion");
    let name = route_name(path, action_of(request));
    Some(format!("{} {name} ({version}) answers {}: {why}\n{:.2000}", request.method, answer.status, answer.text))
}

/// True if a list of the network API is asked for some of the fields.
fn is_a_part(api: &Api, query: &str) -> bool {
    api.root == "/network" && query.split('&').any(|part| part.starts_with("fields="))
}

/// True for the bytes of an image.
fn is_content(api: &Api, method: &str, path: &str) -> bool {
    api.root == "/image" && method == "GET" && path.ends_with("/file")
}

fn why(api: &Api, request: ApiRequest<'_>, path: &str, answer: ApiAnswer<'_>) -> Option<String> {
    if answer.status >= 400 {
        return (api.refusal)(&answer, api.minor_of(path, &answer).ok());
    }
    let body = match body_of(answer.text) {
        Ok(body) => body,
        Err(why) => return Some(why),
    };
    let minor = match api.minor_of(path, &answer) {
        Ok(minor) => minor,
        Err(why) => return Some(why),
    };
    let Some((since, schema)) = find(request.method, path, action_of(request).as_deref()) else {
        return Some("the route has no schema in tests/it/bodies".to_owned());
    };
    if minor < since {
        return Some(format!("the route is there from the minor version {since} on"));
    }
    refusals::misfit(schema, minor, &body)
}

/// Returns the body as JSON; null for none.
fn body_of(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        _ if text.is_empty() => Ok(Value::Null),
        Ok(Value::Null) => Err("the body is null, and should not be there".to_owned()),
        Ok(body) => Ok(body),
        Err(error) => Err(format!("the body is not JSON: {error}")),
    }
}

/// Returns the name of the action that a request's body asks for; none where the path alone says what is asked for.
fn action_of(request: ApiRequest<'_>) -> Option<String> {
    let path = request.path.split('?').next().unwrap_or_default();
    if request.method != "POST" || !path.ends_with("/action") {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body?).ok()?;
    body.as_object()?.keys().next().cloned()
}

fn route_name(path: &str, action: Option<String>) -> String {
    action.map_or_else(|| path.to_owned(), |action| format!("{path}#{action}"))
}

/// A route's pattern in parts, and its schema.
struct Pattern {
    segments: Vec<&'static str>,
    action: Option<&'static str>,
    /// The route's first minor version.
    since: u16,
    schema: Schema,
}

impl Pattern {
    fn is(&self, segments: &[&str], action: Option<&str>) -> bool {
        let fits = |(part, segment): (&&str, &&str)| part.strip_prefix("{}").map_or(part == segment, |end| segment.ends_with(end));
        self.action == action && self.segments.iter().zip(segments).all(fits)
    }

    /// Counts the segments that stand for anything, perhaps with an end of their own: a route with fewer of them comes first, as in the router.
    fn holes(&self) -> usize {
        self.segments.iter().filter(|segment| segment.starts_with("{}")).count()
    }
}

/// All routes by method and number of segments.
static PATTERNS: LazyLock<HashMap<&str, HashMap<usize, Vec<Pattern>>>> = LazyLock::new(|| {
    let mut patterns: HashMap<&str, HashMap<usize, Vec<Pattern>>> = HashMap::new();
    for (root, (method, pattern, changes, build)) in routes() {
        let (pattern, action) = pattern.split_once('#').map_or((*pattern, None), |(pattern, action)| (pattern, Some(action)));
        let segments: Vec<&str> = root.split('/').chain(pattern.split('/').skip(1)).skip(1).collect();
        let alike = patterns.entry(*method).or_default().entry(segments.len()).or_default();
        alike.push(Pattern { segments, action, since: changes[0], schema: Schema::new(changes, *build) });
    }
    patterns.values_mut().flat_map(HashMap::values_mut).for_each(|alike| alike.sort_by_key(Pattern::holes));
    patterns
});

/// Returns all routes, each with the root of its table.
fn routes() -> impl Iterator<Item = (&'static str, &'static Route)> {
    APIS.iter().flat_map(Api::routes)
}

/// Returns the minor versions at which the answer of a route gets another form, with the first one; none if the route has no schema.
pub fn changes(method: &str, path: &str, action: Option<&str>) -> Option<Vec<u16>> {
    let (_, _, changes, build) = route(method, path, action)?;
    Some(changes.iter().filter(|change| build(**change) != parts::never(**change)).copied().collect())
}

/// Returns the first minor version of a route, and its last if later ones have it no more; none if the route has no schema.
pub fn range(method: &str, path: &str, action: Option<&str>) -> Option<(u16, Option<u16>)> {
    let (_, _, changes, build) = route(method, path, action)?;
    let gone = changes[1..].iter().find(|change| build(**change) == parts::never(**change));
    Some((changes[0], gone.map(|gone| gone - 1)))
}

fn route(method: &str, path: &str, action: Option<&str>) -> Option<&'static Route> {
    let name = route_name(path, action.map(str::to_owned));
    routes().find(|(root, (verb, pattern, ..))| *verb == method && format!("{root}{pattern}") == name).map(|(_, route)| route)
}

fn find(method: &str, path: &str, action: Option<&str>) -> Option<(u16, &'static Schema)> {
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let alike = PATTERNS.get(method)?.get(&segments.len())?;
    alike.iter().find(|pattern| pattern.is(&segments, action)).map(|pattern| (pattern.since, &pattern.schema))
}
