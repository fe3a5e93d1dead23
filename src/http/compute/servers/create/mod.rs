//! `POST /servers`: finds all errors of a request before anything is made, then begins the operations and answers 202.

mod block_devices;
pub mod body;
mod device;
mod hints;
pub mod image;
pub mod image_devices;
pub mod networks;
pub mod request;

use std::collections::BTreeMap;

use actix_web::HttpResponse;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use self::block_devices::Disks;
use self::body::CREATE;
use self::networks::Interfaces;
use self::request::{Networks, NewServerRequest};
use super::{ComputeApi, access, devices, links, quota, security_groups, view};
use crate::db::DbError;
use crate::domain::config_drive::ConfigDrive;
use crate::domain::context::RequestContext;
use crate::domain::flavor::Flavor;
use crate::domain::guest_secrets::GuestSecrets;
use crate::domain::instance::Instance;
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::key_pair::KeyPair;
use crate::domain::policy::Target;
use crate::domain::quota_grant::CheckedRoom;
use crate::domain::request_spec::{RequestSpec, image_demands};
use crate::domain::secret::{Sealed, Secret};
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, forbidden};
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;
use crate::http::schema::excerpt;
use crate::saga::context::{Context, CreateRequest, Request};
use crate::services::image::Image;

/// Answers `POST /servers`.
pub async fn create(Call { request: http, api, catalog, caller: Caller(caller), version }: Call<ComputeApi>, body: Document) -> Answer {
    let request = NewServerRequest::new(CREATE.read(version, &body).await?, version)?;
    authorize(&api, &caller, &request)?;
    quota::check_contents(&catalog, &caller, &request).await?;
    let mut plan = plan(&api, &caller, version, request).await?;
    let room;
    (plan.request.max_count, room) = quota::servers_with_room(&catalog, &caller, &plan.request, &plan.flavor).await?;
    if let Some(group) = plan.group {
        quota::check_group(&catalog, &caller, group, plan.request.max_count).await?;
    }
    let sealed = sealed(&api, &body, &plan).await;
    quota::check_first_boot(&plan.request.metadata, &sealed)?;
    plan.sealed = Some(sealed);
    let made = begin_all(&api, &caller, &plan, &room).await?;
    if plan.request.return_reservation_id {
        return Ok(HttpResponse::Accepted().json(json!({"reservation_id": plan.reservation_id})));
    }
    Ok(accepted(&api, &base_url::of(&http), &plan, made))
}

/// The checked request, with all looked-up records.
struct Plan {
    request: NewServerRequest,
    flavor: Flavor,
    /// The image of the root disk, on the host or on a volume.
    image: Option<Image>,
    disks: Disks,
    interfaces: Interfaces,
    key: Option<KeyPair>,
    group: Option<Uuid>,
    host: Option<String>,
    admin_pass: Secret<String>,
    /// The sealed secrets, equal for all servers.
    sealed: Option<Sealed>,
    reservation_id: String,
}

impl Plan {
    /// Returns the demands on hosts of the image on the root disk or the root volume.
    fn image_properties(&self) -> BTreeMap<String, String> {
        match &self.image {
            Some(image) => image_demands(&image.properties),
            None => image_demands(&self.disks.boot_volume_image),
        }
    }
}

fn authorize(api: &ComputeApi, caller: &RequestContext, request: &NewServerRequest) -> Result<(), ApiError> {
    let target = Target::own(caller);
    let needs = [
        (true, "os_compute_api:servers:create"),
        (request.trusted_certs.is_some(), "os_compute_api:servers:create:trusted_certs"),
        (request.zone.host.is_some() || request.zone.node.is_some(), "os_compute_api:servers:create:forced_host"),
        (request.requested_host.is_some() || request.requested_hypervisor.is_some(), "compute:servers:create:requested_destination"),
        (request.names_devices(), "os_compute_api:servers:create:attach_volume"),
        (matches!(request.networks, Networks::List(_)), "os_compute_api:servers:create:attach_network"),
    ];
    needs.iter().filter(|(needed, _)| *needed).try_for_each(|(_, rule)| api.policy.authorize(rule, caller, &target))
}

async fn plan(api: &ComputeApi, caller: &RequestContext, version: ApiVersion, mut request: NewServerRequest) -> Result<Plan, ApiError> {
    let flavor = api.flavor_for(caller, &request.flavor).await?;
    // Checks a named image even if the root is a volume.
    let named = match request.image.as_str() {
        "" => None,
        id => Some(image::usable(&*api.images, caller, id, image::UNKNOWN).await?),
    };
    let disks = block_devices::look_up(api, caller, &request, named.as_ref(), &flavor).await?;
    let image = if disks.volume_backed { disks.boot_image().cloned() } else { named };
    if let Some(image) = &image {
        image::check_fits(image, &flavor, disks.volume_backed)?;
    }
    if !disks.volume_backed
        && flavor.root_gb == 0
        && !api.policy.check("os_compute_api:servers:create:zero_disk_flavor", caller, &Target::own(caller))
    {
        return Err(forbidden("Only volume-backed servers are allowed for flavors with zero disk."));
    }
    let mut interfaces = networks::look_up(api, caller, version, &request.networks, request.max_count).await?;
    if let Some(groups) = &mut request.security_groups {
        (interfaces.security_groups, *groups) = named_groups(api, caller, groups).await?;
        interfaces.check_groups(api).await?;
    }
    let key = key_pair(api, caller, &request).await?;
    let group = server_group(api, caller, &request).await?;
    hints::check(api, caller, &request.scheduler_hints).await?;
    let host = destination(api, &request).await?;
    check_zone(api, &request).await?;
    if request.hostname.is_some() && request.max_count > 1 {
        return Err(bad_request("Unable to allocate a single hostname to multiple instances."));
    }
    let admin_pass = request.admin_pass.clone().unwrap_or_else(|| Secret::new(password(api.env.uuid())));
    let reservation_id = format!("r-{}", &api.env.uuid().simple().to_string()[..8]);
    Ok(Plan { request, flavor, image, disks, interfaces, key, group, host, admin_pass, sealed: None, reservation_id })
}

/// Returns the ids and names of groups that a request names or gives by their ids; no ids for the default group. The project's first port
/// makes the default group, because this request may still be refused.
async fn named_groups(api: &ComputeApi, caller: &RequestContext, names: &[String]) -> Result<(Vec<Uuid>, Vec<String>), ApiError> {
    if names.iter().all(|name| name == "default") {
        return Ok((Vec::new(), vec!["default".to_owned()]));
    }
    let all = security_groups::ProjectGroups::of(&*api.network, &caller.project_id).await?;
    let mut groups: Vec<(Uuid, String)> = Vec::new();
    for name in names {
        match all.named(name)? {
            Some(group) if groups.contains(group) => {}
            Some(group) => groups.push(group.clone()),
            None => return Err(bad_request(format!("Unable to find security_group with name or id '{}'", excerpt(name)))),
        }
    }
    Ok(groups.into_iter().unzip())
}

async fn key_pair(api: &ComputeApi, caller: &RequestContext, request: &NewServerRequest) -> Result<Option<KeyPair>, ApiError> {
    let Some(name) = &request.key_name else { return Ok(None) };
    match api.registry.api().key_pair(&caller.user_id, name).await {
        Ok(key) => Ok(Some(key)),
        Err(DbError::NotFound(_)) => Err(bad_request("Invalid key_name provided.")),
        Err(error) => Err(error.into()),
    }
}

async fn server_group(api: &ComputeApi, caller: &RequestContext, request: &NewServerRequest) -> Result<Option<Uuid>, ApiError> {
    let hint = match request.scheduler_hints.get("group") {
        Some(Value::Array(several)) => several.first().and_then(Value::as_str),
        Some(one) => one.as_str(),
        None => None,
    };
    let Some(hint) = hint else { return Ok(None) };
    let unknown = || bad_request(format!("Instance group {hint} could not be found."));
    let id = Uuid::parse_str(hint).map_err(|_| unknown())?;
    match api.registry.api().server_group(id).await {
        Ok(group) if group.project_id == caller.project_id || caller.is_admin() => Ok(Some(id)),
        Ok(_) | Err(DbError::NotFound(_)) => Err(unknown()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the host that an administrator demands.
async fn destination(api: &ComputeApi, request: &NewServerRequest) -> Result<Option<String>, ApiError> {
    let requested = request.requested_host.as_ref().or(request.requested_hypervisor.as_ref());
    let forced = request.zone.host.as_ref().or(request.zone.node.as_ref());
    let host = match (requested, forced) {
        (Some(_), Some(_)) => {
            return Err(bad_request(
                "One mechanism with host and/or hypervisor_hostname and another mechanism with zone:host:node are mutually exclusive.",
            ));
        }
        (requested, forced) => requested.or(forced),
    };
    let Some(host) = host else { return Ok(None) };
    match api.registry.host_of(host).await? {
        Some(mapping) => Ok(Some(mapping.host)),
        None => Err(bad_request(format!("Compute host {host} could not be found."))),
    }
}

/// Checks that the zone exists. A forced host overrides the request's zone.
async fn check_zone(api: &ComputeApi, request: &NewServerRequest) -> Result<(), ApiError> {
    let Some(zone) = request.zone.name.as_deref().filter(|_| request.zone.host.is_none() && request.zone.node.is_none()) else {
        return Ok(());
    };
    let exists = zone == api.options.default_availability_zone || api.registry.api().memberships().await?.has_zone(zone);
    if exists { Ok(()) } else { Err(bad_request("The requested availability zone is not available")) }
}

/// Begins one operation per server. If a later one is refused, keeps the begun ones if there are at least `min_count`, and otherwise
/// deletes them.
async fn begin_all(api: &ComputeApi, caller: &RequestContext, plan: &Plan, room: &CheckedRoom) -> Result<Vec<Instance>, ApiError> {
    let mut made = Vec::new();
    for at in 0..plan.request.max_count {
        let request = create_request(api, caller, plan, room.clone(), at);
        let instance = request.instance.instance.clone();
        match api.operations.begin(context(api, caller, plan, request)).await {
            Ok(_) => made.push(instance),
            Err(_) if at >= plan.request.min_count => break,
            Err(refusal) => {
                give_back(api, caller, &made).await;
                return Err(access::refused(refusal));
            }
        }
    }
    Ok(made)
}

/// Queues deletes of these servers, so that they are deleted once they are made.
async fn give_back(api: &ComputeApi, caller: &RequestContext, made: &[Instance]) {
    for instance in made {
        if let Err(error) = api.registry.api().queue_delete(instance.uuid, caller.clone()).await {
            log::error!(server:% = instance.uuid; "a server that is one too few of those asked for cannot be given back: {error}");
        }
    }
}

/// Seals the guests' secrets once for all servers of the request, because they may be as large as the body.
async fn sealed(api: &ComputeApi, body: &Document, plan: &Plan) -> Sealed {
    let (env, request) = (api.env.clone(), &plan.request);
    let secrets = GuestSecrets {
        admin_pass: Some(plan.admin_pass.clone()),
        user_data: request.user_data.clone(),
        files: request.personality.clone(),
    };
    body.judge(move |_| secrets.sealed(|bytes| env.seal(bytes))).await
}

fn create_request(api: &ComputeApi, caller: &RequestContext, plan: &Plan, room: CheckedRoom, at: i64) -> CreateRequest {
    let server = api.env.uuid();
    let instance = instance(caller, plan, server, at, api.env.now());
    let config_drive = ConfigDrive {
        uuid: server,
        name: &instance.display_name,
        hostname: instance.hostname.as_deref(),
        launch_index: instance.launch_index,
        availability_zone: instance.availability_zone.as_deref(),
        metadata: &plan.request.metadata,
        key: plan.key.as_ref().map(|key| (key.name.as_str(), key.public_key.as_str())),
    }
    .to_json();
    let request = &plan.request;
    let mut bundle = InstanceBundle::new(instance);
    bundle.metadata = request.metadata.clone();
    bundle.tags = request.tags.clone();
    CreateRequest {
        request_spec: Box::new(request_spec(caller, plan, server)),
        networks: plan.interfaces.for_server(&api.env),
        volumes: plan.disks.for_server(&api.env),
        host: plan.host.clone(),
        config_drive,
        sealed: plan.sealed.clone(),
        instance: Box::new(bundle),
        room,
    }
}

fn context(api: &ComputeApi, caller: &RequestContext, plan: &Plan, request: CreateRequest) -> Context {
    let (server, display_name) = (request.instance.instance.uuid, request.instance.instance.display_name.clone());
    let mut context = Context::new(api.env.uuid(), caller.clone(), server, Request::Create(Box::new(request)));
    context.display_name = display_name;
    context.volume_backed = plan.disks.volume_backed;
    context
}

fn instance(caller: &RequestContext, plan: &Plan, uuid: Uuid, at: i64, now: DateTime<Utc>) -> Instance {
    let request = &plan.request;
    let several = request.max_count > 1;
    let name = if several { format!("{}-{}", request.name, at + 1) } else { request.name.clone() };
    let hostname = request.hostname.clone().unwrap_or_else(|| hostname_of(&name, uuid));
    let mut instance = Instance::new(uuid, &caller.project_id, &caller.user_id, &name, plan.flavor.clone(), now);
    instance.display_description = request.description.clone().map(|text| if several && text == request.name { name } else { text });
    instance.hostname = Some(hostname);
    instance.availability_zone = request.zone.name.clone();
    instance.image_ref = if plan.disks.volume_backed { String::new() } else { request.image.clone() };
    instance.key_name = plan.key.as_ref().map(|key| key.name.clone());
    instance.key_data = plan.key.as_ref().map(|key| key.public_key.clone());
    instance.keypair = plan.key.as_ref().map(|key| json!(key));
    instance.config_drive = request.config_drive;
    instance.launch_index = i32::try_from(at).unwrap_or(i32::MAX);
    instance.reservation_id = Some(plan.reservation_id.clone());
    instance.root_device_name = Some(devices::ROOT.to_owned());
    instance.access_ip_v4 = request.access_ip_v4.clone();
    instance.access_ip_v6 = request.access_ip_v6.clone();
    instance.system_metadata = plan.image.as_ref().map(system_metadata).unwrap_or_default();
    instance.security_groups = request.security_groups.clone().unwrap_or_else(|| vec!["default".to_owned()]);
    instance.trusted_certs = request.trusted_certs.clone();
    instance.auto_disk_config = request.auto_disk_config;
    instance
}

/// Returns the copy of an image's properties and demands for the server's record.
pub fn system_metadata(image: &Image) -> std::collections::BTreeMap<String, String> {
    let mut kept: std::collections::BTreeMap<String, String> =
        image.properties.iter().map(|(key, value)| (format!("image_{key}"), value.clone())).collect();
    kept.insert("image_base_image_ref".to_owned(), image.id.to_string());
    kept.insert("image_min_disk".to_owned(), image.min_disk.to_string());
    kept.insert("image_min_ram".to_owned(), image.min_ram.to_string());
    kept
}

fn request_spec(caller: &RequestContext, plan: &Plan, server: Uuid) -> RequestSpec {
    let request = &plan.request;
    RequestSpec {
        image_id: plan.image.as_ref().map(|image| image.id).filter(|_| !plan.disks.volume_backed),
        image_properties: plan.image_properties(),
        is_bfv: plan.disks.volume_backed,
        // A forced host overrides the zone, so the server is not pinned to the request's zone.
        availability_zone: request.zone.name.clone().filter(|_| request.zone.host.is_none() && request.zone.node.is_none()),
        instance_group: plan.group,
        scheduler_hints: request.scheduler_hints.clone(),
        num_instances: i32::try_from(request.max_count).unwrap_or(i32::MAX),
        has_resource_request: plan.interfaces.has_resource_request,
        ..RequestSpec::new(server, &caller.project_id, &caller.user_id, plan.flavor.clone())
    }
}

/// Returns the answer for the first of the servers.
fn accepted(api: &ComputeApi, base: &str, plan: &Plan, made: Vec<Instance>) -> HttpResponse {
    let Some(first) = made.first() else {
        return HttpResponse::Accepted().finish();
    };
    let id = first.uuid.to_string();
    let groups = plan.request.group_entries.as_ref().map_or_else(|| json!([{"name": "default"}]), |entries| json!(entries));
    let mut view = json!({"server": {
        "id": id,
        "links": links::of(base, "servers", &id),
        "OS-DCF:diskConfig": view::disk_config(first),
        "security_groups": groups,
    }});
    if api.options.enable_instance_password {
        view["server"]["adminPass"] = json!(plan.admin_pass.expose());
    }
    HttpResponse::Accepted().insert_header(("Location", format!("{base}/compute/v2.1/servers/{id}"))).json(view)
}

/// Returns a password of twelve characters, without characters that look alike.
pub fn password(random: Uuid) -> String {
    const LETTERS: &[u8] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghjkmnopqrstuvwxyz";
    // Bytes 6 and 8 of an id are not fully random.
    let bytes = random.as_bytes().iter().enumerate().filter(|(at, _)| *at != 6 && *at != 8).map(|(_, byte)| usize::from(*byte));
    bytes.take(12).map(|byte| char::from(LETTERS[byte % LETTERS.len()])).collect()
}

/// Makes a host name from a server's name, or from its id if the name has no letter or digit.
pub fn hostname_of(name: &str, server: Uuid) -> String {
    let spaced: String = name.chars().map(|c| if c == ' ' || c == '_' { '-' } else { c.to_ascii_lowercase() }).collect();
    let kept: String = spaced.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-' || *c == '.').collect();
    let trimmed = kept.trim_matches(|c| c == '-' || c == '.').replace('.', "-");
    let short: String = trimmed.chars().take(63).collect();
    let short = short.trim_end_matches('-');
    if short.is_empty() { format!("server-{server}") } else { short.to_owned() }
}

impl ComputeApi {
    /// Returns a flavor that the caller may use. 400 if there is none or it is disabled.
    pub async fn flavor_for(&self, caller: &RequestContext, id: &str) -> Result<Flavor, ApiError> {
        let unknown = || bad_request(format!("Flavor {} could not be found.", excerpt(id)));
        let record = match self.registry.api().flavor(id).await {
            Ok(record) => record,
            Err(DbError::NotFound(_)) => return Err(unknown()),
            Err(error) => return Err(error.into()),
        };
        let usable = record.flavor.is_public || caller.is_admin() || self.registry.api().may_use_flavor(id, &caller.project_id).await?;
        if !usable || record.flavor.disabled {
            return Err(unknown());
        }
        Ok(record.flavor)
    }
}
