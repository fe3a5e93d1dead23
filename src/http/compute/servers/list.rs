//! `GET /servers` and `GET /servers/detail`: filters, order and pages over all cells. Partial entries of silent cells come first, unless
//! the request has a filter or an order that only their cell can apply (docs/DOWN-CELLS.md).

mod filters;
mod silent;

use std::sync::Arc;

use actix_web::http::header::ContentType;
use actix_web::{HttpRequest, HttpResponse};
use futures::future::try_join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use self::filters::Filters;
use super::view::{self, Extras, Frame, Purpose, Visible};
use super::{ComputeApi, partial};
use crate::cell_registry::{ListError, ListQuery, ServerRecord};
use crate::db::DbError;
use crate::domain::context::RequestContext;
use crate::domain::instance_sort::{Direction, SortKey, SortSpec};
use crate::domain::policy::Target;
use crate::domain::reason;
use crate::env::Env;
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, forbidden, incomplete, ok, unavailable};
use crate::http::compute::query::Query;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;

/// Lists names and links.
pub async fn index(Call { request, api, caller: Caller(caller), version, .. }: Call<ComputeApi>) -> Answer {
    list(&request, &api, &caller, version, false).await
}

/// Lists full servers.
pub async fn detail(Call { request, api, caller: Caller(caller), version, .. }: Call<ComputeApi>) -> Answer {
    list(&request, &api, &caller, version, true).await
}

async fn list(request: &HttpRequest, api: &ComputeApi, caller: &RequestContext, version: ApiVersion, details: bool) -> Answer {
    let word = if details { "detail" } else { "index" };
    api.policy.authorize(&format!("os_compute_api:servers:{word}"), caller, &Target::own(caller))?;
    let query = Query::of(request)?;
    let demand = ListRequest { api, caller, version, query: &query, last_known: partial::takes_last_known(request) };
    let page = query.page(api.options.max_limit)?;
    let filter = match demand.filters().read(word)? {
        Some(filter) => filter,
        // No server can have this status.
        None => return ok(&json!({"servers": []})),
    };
    let marker = match page.marker.as_deref() {
        Some(text) => Some(Uuid::parse_str(text).map_err(|_| no_such_marker(text))?),
        None => None,
    };
    let project = filter.project_id.clone();
    let selection = ListQuery { filter, sort: demand.sort()?, marker, limit: page.limit, details };
    let list = api.registry.list_servers(selection).await.map_err(|error| match (error, page.marker.as_deref()) {
        (ListError::MarkerNotFound(_), Some(text)) => no_such_marker(text),
        (error, _) => error.into(),
    })?;
    let shown = Shown { base: base_url::of(request).into(), version, visible: api.visible(caller, &Target::own(caller)) };
    let partial = match demand.takes_partial() {
        true => demand.partial(&shown, &list, project.as_deref(), page.limit, details).await?,
        false if list.silent.is_empty() || api.options.skip_down_cells => Vec::new(),
        false => return Err(incomplete(&list.silent)),
    };
    let mut entries: Vec<Entry> = partial.into_iter().map(Entry::Partial).collect();
    if details {
        entries.extend(demand.details(shown.visible, &list.servers).await?);
    } else {
        entries.extend(list.servers.iter().cloned().map(Entry::Brief));
    }
    let servers = written(&api.env, shown, entries).await?;
    let collection = if details { "servers/detail" } else { "servers" };
    let links = page.next(request, &query, collection, page.limit, list.marker.map(|marker| marker.to_string()));
    let links = links.map(|links| format!(",\"servers_links\":{links}")).unwrap_or_default();
    let body = format!("{{\"servers\":[{}]{links}}}", servers.join(","));
    Ok(HttpResponse::Ok().content_type(ContentType::json()).body(body))
}

/// Makes the refusal of a marker, as the caller wrote it.
fn no_such_marker(text: &str) -> ApiError {
    bad_request(format!("marker [{text}] not found"))
}

/// The entries that are written at once. A longer list is written in such parts, on threads where nobody else's request waits.
const PART: usize = 100;

/// A server in a list. Its view is made when it is written: the views of a long list together would take several times the memory of its
/// text.
enum Entry {
    Partial(Value),
    Brief(Arc<ServerRecord>),
    Detailed(Arc<ServerRecord>, Box<Extras>),
}

/// The parameters of all views of a list.
#[derive(Clone)]
struct Shown {
    base: Arc<str>,
    version: ApiVersion,
    visible: Visible,
}

impl Shown {
    fn view(&self, entry: Entry) -> Value {
        match entry {
            Entry::Partial(view) => view,
            Entry::Brief(server) => view::brief(&self.base, &server.instance),
            Entry::Detailed(server, extras) => self.detailed(&server, &extras).into(),
        }
    }

    fn detailed(&self, server: &ServerRecord, extras: &Extras) -> view::Fields {
        let frame = Frame { base: &self.base, version: self.version, visible: self.visible, purpose: Purpose::Detail };
        view::detailed(frame, server, extras)
    }

    /// Returns the entries as JSON, with commas between them.
    fn text(&self, entries: Vec<Entry>) -> Result<String, DbError> {
        let mut text = String::new();
        for (at, entry) in entries.into_iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            text.push_str(&match entry {
                Entry::Detailed(server, extras) => serde_json::to_string(&self.detailed(&server, &extras))?,
                other => serde_json::to_string(&self.view(other))?,
            });
        }
        Ok(text)
    }
}

/// Returns the parts of a list's text, in order.
async fn written(env: &Env, shown: Shown, entries: Vec<Entry>) -> Result<Vec<String>, ApiError> {
    if entries.len() <= PART {
        return Ok(vec![shown.text(entries)?]);
    }
    let mut coming = entries.into_iter();
    let parts = std::iter::from_fn(|| Some(coming.by_ref().take(PART).collect::<Vec<_>>()).filter(|part| !part.is_empty()));
    let written = parts.map(|part| {
        let shown = shown.clone();
        env.run_blocking(move || shown.text(part))
    });
    Ok(try_join_all(written).await?)
}

impl From<ListError> for ApiError {
    fn from(error: ListError) -> ApiError {
        match error {
            ListError::MarkerNotFound(_) => bad_request(reason!("{error}")),
            ListError::MarkerSilent(_) => unavailable(reason!("{error}")),
            ListError::Db(error) => error.into(),
        }
    }
}

/// A requested list.
struct ListRequest<'a> {
    api: &'a ComputeApi,
    caller: &'a RequestContext,
    version: ApiVersion,
    query: &'a Query,
    /// True if the caller accepts last known records of servers in silent cells.
    last_known: bool,
}

/// The parameters of page and order.
const PAGING: &[&str] = &["limit", "marker", "sort_key", "sort_dir"];

/// Sort keys without effect. Older microversions ignore them, 2.75 refuses them.
const IGNORED_SORT_KEYS: &[&str] = &[
    "architecture",
    "cell_name",
    "cleaned",
    "default_ephemeral_device",
    "default_swap_device",
    "deleted",
    "deleted_at",
    "disable_terminate",
    "ephemeral_gb",
    "ephemeral_key_uuid",
    "id",
    "key_data",
    "launched_on",
    "locked",
    "memory_mb",
    "os_type",
    "reservation_id",
    "root_gb",
    "shutdown_terminate",
    "user_data",
    "vcpus",
    "vm_mode",
];

impl ListRequest<'_> {
    fn filters(&self) -> Filters<'_> {
        Filters { policy: &self.api.policy, caller: self.caller, version: self.version, query: self.query }
    }

    fn sort(&self) -> Result<SortSpec, ApiError> {
        let keys = self.query.all("sort_key");
        let directions = self.query.all("sort_dir");
        let mut order = Vec::new();
        let mut last = Direction::Desc;
        for (at, key) in keys.iter().map(|key| key.trim()).enumerate() {
            last = match directions.get(at).map(|word| word.trim()) {
                Some("asc") => Direction::Asc,
                Some("desc") => Direction::Desc,
                Some(word) => return Err(bad_request(format!("Unknown sort direction '{word}', must be 'desc' or 'asc'"))),
                None => last,
            };
            let ignored = IGNORED_SORT_KEYS.contains(&key) && !(key == "locked" && self.version.at_least(73));
            if ignored && !self.version.at_least(75) {
                continue;
            }
            if matches!(key, "host" | "node") && !self.caller.is_admin() {
                return Err(forbidden(format!("Only administrators can sort servers by {key}")));
            }
            // Kernel and ramdisk are valid keys that no server here has.
            match SortKey::parse(key).filter(|_| !ignored) {
                // A repeated key has no effect.
                Some(key) if order.iter().any(|(other, _)| *other == key) => {}
                Some(key) => order.push((key, last)),
                None if matches!(key, "kernel_id" | "ramdisk_id") => {}
                None => {
                    return Err(bad_request(format!("Invalid input for query parameters sort_key. Value: {key}. It is not a known key.")));
                }
            }
        }
        if keys.is_empty()
            && let Some(word) = directions.first()
        {
            let direction = if word.trim() == "asc" { Direction::Asc } else { Direction::Desc };
            order.push((SortKey::CreatedAt, direction));
        }
        Ok(SortSpec::new(order))
    }

    /// Returns the entries of full servers. Loads the additional records for all servers together.
    async fn details(&self, visible: Visible, servers: &[Arc<ServerRecord>]) -> Result<Vec<Entry>, ApiError> {
        let uuids: Vec<Uuid> = servers.iter().map(|server| server.instance.uuid).collect();
        let mut specs = match self.version.at_least(96) {
            true => self.api.registry.api().request_specs(uuids).await?,
            false => Default::default(),
        };
        let shows_hosts = self.version.at_least(16) && (visible.host_status || visible.host_status_unknown);
        let hosts = if shows_hosts { self.api.registry.host_statuses(servers).await } else { Default::default() };
        let mut floating_ips = self.api.floating_ips(servers).await;
        let entry = |server: &Arc<ServerRecord>| {
            let uuid = server.instance.uuid;
            let vifs = server.network.0.iter();
            let extras = Box::new(Extras {
                request_spec: specs.remove(&uuid),
                server_groups: Vec::new(),
                host_status: hosts.get(&uuid).copied(),
                floating_ips: vifs.filter_map(|vif| floating_ips.remove_entry(&vif.port_id)).collect(),
            });
            Entry::Detailed(server.clone(), extras)
        };
        Ok(servers.iter().map(entry).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::microversion::COMPUTE;

    #[tokio::test]
    async fn a_list_of_any_length_is_written_in_order() {
        let shown = Shown { base: "http://cloud".into(), version: ApiVersion(COMPUTE.max), visible: Visible::default() };
        for count in [0, 1, PART, PART + 1, 3 * PART] {
            let entries = (0..count).map(|number| Entry::Partial(json!(number))).collect();
            let text = written(&Env::system(), shown.clone(), entries).await.unwrap().join(",");
            let read: Vec<usize> = serde_json::from_str(&format!("[{text}]")).unwrap();
            assert_eq!(read, (0..count).collect::<Vec<_>>());
        }
    }
}
