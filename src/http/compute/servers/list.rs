//! `GET /servers` and `GET /servers/detail`: filters, order and pages over all cells. Partial entries of silent cells come first, unless
//! the request has a filter or an order that only their cell can apply (docs/DOWN-CELLS.md).

mod silent;

use std::collections::BTreeSet;

use actix_web::{HttpRequest, web};
use regex::RegexBuilder;
use serde_json::{Value, json};
use uuid::Uuid;

use super::schemas::MAX_TAGS;
use super::view::{self, Extras, Frame, Purpose};
use super::{ComputeApi, partial};
use crate::actors::cell_registry::{ListError, ListQuery, ServerRecord};
use crate::db::cell::instance_filter::{Deleted, InstanceFilter, states_of_status};
use crate::db::cell::instance_sort::{Direction, SortKey, SortSpec};
use crate::domain::context::RequestContext;
use crate::domain::policy::Target;
use crate::domain::server::{PowerState, TaskState, VmState};
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::compute::answer::{Answer, bad_request, forbidden, incomplete, ok, unavailable};
use crate::http::compute::query::{Query, parse_moment};
use crate::http::compute::schema::{is_true, strict_bool};
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;

/// Lists names and links.
pub async fn index(request: HttpRequest, api: web::Data<ComputeApi>, Caller(caller): Caller, version: ApiVersion) -> Answer {
    list(&request, &api, &caller, version, false).await
}

/// Lists full servers.
pub async fn detail(request: HttpRequest, api: web::Data<ComputeApi>, Caller(caller): Caller, version: ApiVersion) -> Answer {
    list(&request, &api, &caller, version, true).await
}

async fn list(request: &HttpRequest, api: &ComputeApi, caller: &RequestContext, version: ApiVersion, details: bool) -> Answer {
    let word = if details { "detail" } else { "index" };
    api.policy.authorize(&format!("os_compute_api:servers:{word}"), caller, &Target::own(caller))?;
    let query = Query::of(request)?;
    let asked = ListRequest { api, caller, version, query: &query, last_known: partial::takes_last_known(request) };
    let page = query.page(api.options.max_limit)?;
    let filter = match asked.filter(word)? {
        Some(filter) => filter,
        // No server can have this status.
        None => return ok(&json!({"servers": []})),
    };
    let marker = match page.marker.as_deref() {
        Some(text) => Some(Uuid::parse_str(text).map_err(|_| bad_request(format!("marker [{text}] not found")))?),
        None => None,
    };
    let project = filter.project_id.clone();
    let wanted = ListQuery { filter, sort: asked.sort()?, marker, limit: page.limit, details };
    let list = api.registry.list_servers(wanted).await?;
    let base = base_url::of(request);
    let mut views = match asked.takes_partial() {
        true => asked.partial(&base, &list, project.as_deref(), page.limit, details).await?,
        false if list.silent.is_empty() || api.options.skip_down_cells => Vec::new(),
        false => return Err(incomplete(&list.silent)),
    };
    if details {
        views.extend(asked.details(&base, &list.servers).await?);
    } else {
        views.extend(list.servers.iter().map(|server| view::brief(&base, &server.instance)));
    }
    let collection = if details { "servers/detail" } else { "servers" };
    // Moves the views instead of copying them, because they dominate the cost of a long list.
    let mut body = serde_json::Map::from_iter([("servers".to_owned(), Value::Array(views))]);
    if let Some(next) = page.next(request, &query, collection, page.limit, list.marker.map(|marker| marker.to_string())) {
        body.insert("servers_links".to_owned(), next);
    }
    ok(&body)
}

impl From<ListError> for ApiError {
    fn from(error: ListError) -> ApiError {
        match error {
            ListError::MarkerNotFound(_) => bad_request(error.to_string()),
            ListError::MarkerSilent(_) => unavailable(error.to_string()),
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

/// The maximum size of a compiled pattern in bytes, because a short pattern can compile to a large program.
const LARGEST_PATTERN: usize = 1 << 20;

/// Filters for all callers, with their first microversion.
const OPEN: &[(&str, u16)] = &[
    ("reservation_id", 1),
    ("name", 1),
    ("status", 1),
    ("image", 1),
    ("flavor", 1),
    ("ip", 1),
    ("changes-since", 1),
    ("all_tenants", 1),
    ("ip6", 5),
    ("tags", 26),
    ("tags-any", 26),
    ("not-tags", 26),
    ("not-tags-any", 26),
    ("changes-before", 66),
    ("locked", 73),
    ("availability_zone", 83),
    ("config_drive", 83),
    ("key_name", 83),
    ("created_at", 83),
    ("launched_at", 83),
    ("terminated_at", 83),
    ("power_state", 83),
    ("task_state", 83),
    ("vm_state", 83),
    ("progress", 83),
    ("user_id", 83),
    ("hostname", 90),
];

/// Filters for operators (by policy). From 2.75 on a query may contain only these, the open filters and the paging parameters.
const OPERATORS: &[&str] = &[
    "project_id",
    "tenant_id",
    "launch_index",
    "image_ref",
    "kernel_id",
    "ramdisk_id",
    "hostname",
    "key_name",
    "power_state",
    "vm_state",
    "task_state",
    "host",
    "node",
    "launched_at",
    "terminated_at",
    "availability_zone",
    "display_name",
    "description",
    "display_description",
    "locked_by",
    "uuid",
    "root_device_name",
    "config_drive",
    "access_ip_v4",
    "access_ip_v6",
    "auto_disk_config",
    "progress",
    "soft_deleted",
    "deleted",
    "created_at",
    "user_id",
];

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

/// Names of records beside servers, which no filter can use.
const JOINED: &[&str] =
    &["block_device_mapping", "services", "metadata", "system_metadata", "info_cache", "security_groups", "pci_devices"];

impl ListRequest<'_> {
    /// Builds the filter; none if no server can match.
    fn filter(&self, word: &str) -> Result<Option<InstanceFilter>, ApiError> {
        self.check_names()?;
        let mut filter = InstanceFilter::default();
        self.scope(&mut filter, word)?;
        if !self.status(&mut filter)? {
            return Ok(None);
        }
        self.times(&mut filter)?;
        self.texts(&mut filter)?;
        self.values(&mut filter)?;
        Ok(Some(filter))
    }

    fn check_names(&self) -> Result<(), ApiError> {
        if let Some(name) = JOINED.iter().find(|name| self.query.get(name).is_some()) {
            return Err(bad_request(format!("Invalid filter field: {name}.")));
        }
        if !self.version.at_least(75) {
            return Ok(());
        }
        let mut known: Vec<&str> = PAGING.to_vec();
        known.extend(OPEN.iter().map(|(name, _)| *name));
        known.extend(OPERATORS);
        self.query.only(&known)
    }

    /// True if all callers may use the filter in this microversion.
    fn may_filter(&self, name: &str) -> bool {
        OPEN.iter().any(|(known, since)| *known == name && self.version.at_least(*since))
    }

    fn may_use_all_filters(&self) -> bool {
        self.api.policy.check("os_compute_api:servers:allow_all_filters", self.caller, &Target::own(self.caller))
    }

    /// Returns a filter's value, if the caller may use the filter and this microversion has it.
    fn get(&self, name: &str) -> Option<&str> {
        let allowed = self.may_filter(name) || (OPERATORS.contains(&name) && self.may_use_all_filters());
        self.query.get(name).filter(|_| allowed)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    /// Limits the list to the caller's project, unless an operator requests all projects or another one.
    fn scope(&self, filter: &mut InstanceFilter, word: &str) -> Result<(), ApiError> {
        let all = match self.query.get("all_tenants") {
            Some("") => true,
            Some(text) => strict_bool(text)?,
            None => false,
        };
        filter.user_id = self.text("user_id");
        if all {
            let rule = format!("os_compute_api:servers:{word}:get_all_tenants");
            self.api.policy.authorize(&rule, self.caller, &Target::own(self.caller))?;
            filter.project_id = self.text("project_id").or_else(|| self.text("tenant_id"));
        } else {
            filter.project_id = Some(self.caller.project_id.clone());
        }
        Ok(())
    }

    /// Sets the states to filter by. False if no server can have the requested status.
    fn status(&self, filter: &mut InstanceFilter) -> Result<bool, ApiError> {
        let changes = self.get("changes-since").is_some() || self.get("changes-before").is_some();
        filter.deleted = match self.get("deleted") {
            Some(text) if is_true(text) => Deleted::Only,
            Some(_) => Deleted::Exclude,
            None if changes => Deleted::Include,
            None => Deleted::Exclude,
        };
        let statuses: BTreeSet<String> = self.query.all("status").iter().map(|status| status.to_ascii_uppercase()).collect();
        if statuses.is_empty() {
            return Ok(true);
        }
        let names: Vec<&str> = statuses.iter().map(String::as_str).collect();
        let states = states_of_status(&names);
        if states.is_empty() {
            return if self.version.at_least(38) { Err(bad_request("Invalid status value")) } else { Ok(false) };
        }
        if names == ["DELETED"] {
            if !self.caller.is_admin() {
                return Err(forbidden("Only administrators may list deleted instances"));
            }
            filter.deleted = Deleted::Only;
        }
        filter.states = Some(states);
        Ok(true)
    }

    fn times(&self, filter: &mut InstanceFilter) -> Result<(), ApiError> {
        let moment = |name: &str| if self.get(name).is_some() { self.query.moment(name) } else { Ok(None) };
        filter.changes_since = moment("changes-since")?;
        filter.changes_before = moment("changes-before")?;
        if let (Some(since), Some(before)) = (filter.changes_since, filter.changes_before)
            && since > before
        {
            return Err(bad_request("The value of changes-since must be less than or equal to changes-before."));
        }
        // Other times are compared for equality; a malformed time equals none.
        let exact = |name: &str| self.get(name).map(|text| parse_moment(text).unwrap_or(chrono::DateTime::<chrono::Utc>::MIN_UTC));
        filter.created_at = exact("created_at");
        filter.launched_at = exact("launched_at");
        filter.terminated_at = exact("terminated_at");
        Ok(())
    }

    fn texts(&self, filter: &mut InstanceFilter) -> Result<(), ApiError> {
        let pattern = |name: &str| match self.get(name) {
            Some(text) => RegexBuilder::new(text)
                .size_limit(LARGEST_PATTERN)
                .build()
                .map(Some)
                .map_err(|_| bad_request(format!("Invalid filter field: {name}."))),
            None => Ok(None),
        };
        let either = |one: &str, other: &str| Ok::<_, ApiError>(pattern(one)?.or(pattern(other)?));
        filter.name = either("name", "display_name")?;
        filter.description = either("description", "display_description")?;
        filter.hostname = pattern("hostname")?;
        filter.ip = pattern("ip")?;
        filter.ip6 = pattern("ip6")?;
        filter.tags = self.tags("tags")?;
        filter.tags_any = self.tags("tags-any")?;
        filter.not_tags = self.tags("not-tags")?;
        filter.not_tags_any = self.tags("not-tags-any")?;
        Ok(())
    }

    /// Parses tags. Each becomes a condition in SQL, so their number is limited to a server's maximum.
    fn tags(&self, name: &str) -> Result<Vec<String>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(Vec::new()) };
        let tags: BTreeSet<&str> = text.split(',').collect();
        match tags.len() <= MAX_TAGS {
            true => Ok(tags.into_iter().map(str::to_owned).collect()),
            false => Err(bad_request(format!("Invalid filter field: {name}. It names {} tags, and {MAX_TAGS} are allowed.", tags.len()))),
        }
    }

    fn values(&self, filter: &mut InstanceFilter) -> Result<(), ApiError> {
        let number = |name: &str| match self.get(name) {
            Some(text) => text.parse::<i32>().map(Some).map_err(|_| bad_request(format!("Invalid filter field: {name}."))),
            None => Ok(None),
        };
        let flag = |name: &str| self.get(name).map(strict_bool).transpose();
        filter.reservation_id = self.text("reservation_id");
        filter.uuids = self.get("uuid").map(|text| Uuid::parse_str(text).into_iter().collect());
        filter.host = self.text("host");
        filter.node = self.text("node");
        filter.availability_zone = self.text("availability_zone");
        filter.flavor_id = self.text("flavor");
        filter.image_ref = self.text("image").or_else(|| self.text("image_ref"));
        filter.key_name = self.text("key_name");
        filter.locked = flag("locked")?;
        filter.locked_by = self.text("locked_by");
        filter.config_drive = flag("config_drive")?;
        filter.auto_disk_config = flag("auto_disk_config")?;
        filter.launch_index = number("launch_index")?;
        filter.progress = number("progress")?;
        filter.root_device_name = self.text("root_device_name");
        filter.access_ip_v4 = self.text("access_ip_v4");
        filter.access_ip_v6 = self.text("access_ip_v6");
        filter.power_state = number("power_state")?.map(PowerState::from_code);
        filter.vm_states = self.get("vm_state").map(|text| VmState::parse(text).into_iter().collect());
        filter.task_states = self.get("task_state").map(|text| match text {
            "" | "None" | "null" => vec![None],
            named => TaskState::parse(named).map(Some).into_iter().collect(),
        });
        Ok(())
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
                Some(key) if order.iter().any(|(known, _)| *known == key) => {}
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

    /// Returns full views. Loads the additional records for all servers together.
    async fn details(&self, base: &str, servers: &[ServerRecord]) -> Result<Vec<Value>, ApiError> {
        let visible = self.api.visible(self.caller, &Target::own(self.caller));
        let uuids: Vec<Uuid> = servers.iter().map(|server| server.instance.uuid).collect();
        let mut specs = match self.version.at_least(96) {
            true => self.api.registry.api().request_specs(uuids).await?,
            false => Default::default(),
        };
        let shows_hosts = self.version.at_least(16) && (visible.host_status || visible.host_status_unknown);
        let hosts = if shows_hosts { self.api.registry.host_statuses(servers).await } else { Default::default() };
        let frame = Frame { base, version: self.version, visible, purpose: Purpose::Detail };
        let mut one = |server: &ServerRecord| {
            let uuid = server.instance.uuid;
            let extras = Extras { request_spec: specs.remove(&uuid), server_groups: Vec::new(), host_status: hosts.get(&uuid).copied() };
            view::detailed(frame, server, &extras)
        };
        Ok(servers.iter().map(&mut one).collect())
    }
}
