//! `/servers/{id}/migrations`, from 2.23: the server's live migrations in progress, their abort and their forced end. A resize is not
//! listed.

use actix_web::http::StatusCode;
use actix_web::web;
use serde_json::{Value, json};

use super::{ComputeApi, access};
use crate::cell_registry::Located;
use crate::domain::cancellation::Cancellation;
use crate::domain::host_protocol::LiveProgress;
use crate::domain::migration::{Migration, MigrationFilter, MigrationStatus, MigrationType};
use crate::domain::server::TaskState;
use crate::env::guard::{Guard, stands};
use crate::http::auth::Caller;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, conflict, empty, no_such_resource, not_found, ok};
use crate::http::compute::body::{ALWAYS, Body};
use crate::http::compute::migrations::common_view;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;
use crate::http::schema::Schema;
use crate::saga::operations::LiveMove;

/// The statuses of a live migration that is in progress for users. One that is only accepted is not listed yet.
const IN_PROGRESS: [MigrationStatus; 4] =
    [MigrationStatus::Queued, MigrationStatus::Preparing, MigrationStatus::Running, MigrationStatus::PostMigrating];

/// Registers this resource's routes under the compute API's scope.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/servers/{id}/migrations").route(web::get().to(index)))
        .service(web::resource("/servers/{id}/migrations/{migration}").route(web::get().to(show)).route(web::delete().to(abort)))
        .service(web::resource("/servers/{id}/migrations/{migration}/action").route(web::post().to(act)));
}

/// The schemas of this resource, by request.
pub(super) static SCHEMAS: &[(&str, &Schema)] = &[("POST /servers/{}/migrations/{}/action", &FORCE_COMPLETE.schema)];

static FORCE_COMPLETE: Body<()> = Body::within("force_complete", ALWAYS);

async fn index(Call { api, caller: Caller(caller), version, .. }: Call<ComputeApi>, id: web::Path<String>) -> Answer {
    require(version, 23)?;
    let located = api.locate_for(&caller, &id, "os_compute_api:servers:migrations:index").await?;
    let shows_hosts = api.policy.check("os_compute_api:servers:migrations:index:host", &caller, &access::target(&located.instance));
    let mut views = Vec::new();
    for migration in api.live_migrations(&located).await?.into_iter().filter(|migration| IN_PROGRESS.contains(&migration.status)) {
        let progress = api.progress_of(&located, &migration).await;
        views.push(view(&migration, progress, version, shows_hosts));
    }
    ok(&json!({"migrations": views}))
}

async fn show(Call { api, caller: Caller(caller), version, .. }: Call<ComputeApi>, path: web::Path<(String, String)>) -> Answer {
    require(version, 23)?;
    let (id, number) = path.into_inner();
    let located = api.locate_for(&caller, &id, "os_compute_api:servers:migrations:show").await?;
    let migration = api.live_migration(&located, &number).await?.filter(|migration| IN_PROGRESS.contains(&migration.status));
    let migration = migration.ok_or_else(|| not_found(format!("In-progress live migration {number} is not found for server {id}.")))?;
    let progress = api.progress_of(&located, &migration).await;
    ok(&json!({"migration": view(&migration, progress, version, true)}))
}

async fn abort(Call { api, caller: Caller(caller), version, .. }: Call<ComputeApi>, path: web::Path<(String, String)>) -> Answer {
    require(version, 24)?;
    let (id, number) = path.into_inner();
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:servers:migrations:delete").await?;
    require_migrating(&located, "abort live migration")?;
    let migration = api.live_migration(&located, &number).await?.ok_or_else(|| missing(&number, &id))?;
    let early = [MigrationStatus::Queued, MigrationStatus::Preparing].contains(&migration.status) && version.at_least(65);
    if stands(Guard::AbortPhase) && migration.status != MigrationStatus::Running && !early {
        return Err(wrong_status(&migration, &id, "aborted"));
    }
    api.registry.record_action(&located, &caller, "live_migration_cancel").await?;
    let wish = Cancellation::new(&caller, "the live migration is aborted", api.env.now());
    match api.operations.cancel(migration.uuid, wish).await.map_err(access::refused)? {
        true => empty(StatusCode::ACCEPTED),
        false => Err(wrong_status(&migration, &id, "aborted")),
    }
}

/// Answers `POST …/action`, whose only action is `force_complete`.
async fn act(
    Call { api, caller: Caller(caller), version, .. }: Call<ComputeApi>,
    path: web::Path<(String, String)>,
    body: Document,
) -> Answer {
    require(version, 22)?;
    FORCE_COMPLETE.read(version, &body).await?;
    let (id, number) = path.into_inner();
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:servers:migrations:force_complete").await?;
    require_migrating(&located, "force_complete")?;
    // Nova answers 400 here, not 404.
    let migration = api
        .live_migration(&located, &number)
        .await?
        .ok_or_else(|| bad_request(format!("Migration {number} for server {id} could not be found.")))?;
    if stands(Guard::HastenedCopy) && migration.status != MigrationStatus::Running {
        return Err(wrong_status(&migration, &id, "forced to complete"));
    }
    let is_hastened = api.operations.force_complete(&live_move(&located, &migration)).await.map_err(access::refused)?;
    if !is_hastened {
        return Err(wrong_status(&migration, &id, "forced to complete"));
    }
    api.registry.record_action(&located, &caller, "live_migration_force_complete").await?;
    empty(StatusCode::ACCEPTED)
}

fn require(version: ApiVersion, since: u16) -> Result<(), ApiError> {
    if version.at_least(since) { Ok(()) } else { Err(no_such_resource()) }
}

fn require_migrating(located: &Located, action: &str) -> Result<(), ApiError> {
    let instance = &located.instance;
    match instance.task_state {
        Some(TaskState::Migrating) => Ok(()),
        Some(task) => Err(access::wrong_state(instance, action, "task_state", task.as_str())),
        None => Err(conflict(format!("Cannot '{action}' instance {} while it has no task_state", instance.uuid))),
    }
}

fn missing(number: &str, server: &str) -> ApiError {
    not_found(format!("Migration {number} for server {server} could not be found."))
}

fn wrong_status(migration: &Migration, server: &str, verb: &str) -> ApiError {
    bad_request(format!("Migration {} of server {server} cannot be {verb} while it is {}.", migration.number(), migration.status))
}

fn live_move(located: &Located, migration: &Migration) -> LiveMove {
    LiveMove { operation: migration.uuid, cell: located.cell.clone().unwrap_or_default(), source: migration.source_compute.clone() }
}

impl ComputeApi {
    /// Returns the server's live migrations, newest first.
    async fn live_migrations(&self, located: &Located) -> Result<Vec<Migration>, ApiError> {
        let Some(cell) = &located.cell else { return Ok(Vec::new()) };
        let filter = MigrationFilter {
            instance_uuid: Some(located.instance.uuid),
            migration_type: Some(MigrationType::LiveMigration),
            ..MigrationFilter::default()
        };
        Ok(self.registry.ask(cell, |db| async move { db.migrations(filter).await }).await?)
    }

    async fn live_migration(&self, located: &Located, number: &str) -> Result<Option<Migration>, ApiError> {
        let migrations = self.live_migrations(located).await?;
        Ok(migrations.into_iter().find(|migration| migration.number().to_string() == number))
    }

    async fn progress_of(&self, located: &Located, migration: &Migration) -> Option<LiveProgress> {
        match migration.status {
            MigrationStatus::Running => self.operations.live_progress(&live_move(located, migration)).await,
            _ => None,
        }
    }
}

fn view(migration: &Migration, progress: Option<LiveProgress>, version: ApiVersion, shows_hosts: bool) -> Value {
    let bytes = |of: fn(&LiveProgress) -> u64| json!(progress.as_ref().map(of));
    let mut view = common_view(migration, version, shows_hosts);
    view["server_uuid"] = json!(migration.instance_uuid);
    view["memory_total_bytes"] = bytes(|progress| progress.memory_total);
    view["memory_processed_bytes"] = bytes(|progress| progress.memory_processed);
    view["memory_remaining_bytes"] = bytes(|progress| progress.memory_remaining);
    view["disk_total_bytes"] = bytes(|progress| progress.disk_total);
    view["disk_processed_bytes"] = bytes(|progress| progress.disk_processed);
    view["disk_remaining_bytes"] = bytes(|progress| progress.disk_remaining);
    view
}
