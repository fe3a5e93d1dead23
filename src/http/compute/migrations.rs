//! `/os-migrations`: moves of servers in all cells. A cross-cell move has a record in each of its cells but is listed once: only the newest
//! record counts and is filtered (NOVA-DIFFERENCES L21).

use std::collections::BTreeMap;

use actix_web::{HttpRequest, web};
use serde_json::{Value, json};
use uuid::Uuid;

use super::answer::{Answer, bad_request, incomplete, links, moment, moment_or_null, ok};
use super::catalog::{Catalog, Gathered};
use super::query::Query;
use super::schema::strict_bool;
use crate::cell_registry::SilentCell;
use crate::domain::migration::{Migration, MigrationFilter, MigrationType};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config.service(web::resource("/os-migrations").route(web::get().to(list)));
}

async fn list(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest) -> Answer {
    api.allow(&caller, "os_compute_api:os-migrations:index")?;
    let query = Query::of(&request)?;
    check_parameters(&query, version)?;
    if query.get("project_id") != Some(&caller.0.project_id) {
        api.allow(&caller, "os_compute_api:os-migrations:index:all_projects")?;
    }
    let shows_hosts = api.may(&caller, "os_compute_api:os-migrations:index:host");
    let (mut migrations, silent) = matches(&api, &query, version).await?;
    if !silent.is_empty() && !api.skip_down_cells {
        return Err(incomplete(&silent));
    }
    let page = query.page(api.max_limit)?;
    if version.at_least(59) {
        migrations = page.cut_heard(migrations, |migration| migration.uuid.to_string(), &silent)?;
    }
    let views: Vec<Value> =
        migrations.iter().map(|migration| linked(&request, migration, version, view(migration, version, shows_hosts))).collect();
    let mut body = json!({"migrations": views});
    let last = migrations.last().map(|migration| migration.uuid.to_string());
    if let Some(next) = page.next(&request, &query, "os-migrations", migrations.len(), last).filter(|_| version.at_least(59)) {
        body["migrations_links"] = next;
    }
    ok(&body)
}

fn check_parameters(query: &Query, version: ApiVersion) -> Result<(), ApiError> {
    let mut names =
        vec!["hidden", "host", "instance_uuid", "source_compute", "status", "migration_type", "limit", "marker", "changes-since"];
    if version.at_least(66) {
        names.push("changes-before");
    }
    if version.at_least(80) {
        names.extend(["user_id", "project_id"]);
    }
    if version.at_least(59) {
        query.only(&names)?;
        query.uuid("instance_uuid")?;
        query.uuid("marker")?;
    }
    Ok(())
}

/// Returns the requested migrations, newest first, and the silent cells.
async fn matches(api: &Catalog, query: &Query, version: ApiVersion) -> Result<(Vec<Migration>, Vec<SilentCell>), ApiError> {
    let since = query.moment("changes-since").map(|at| at.filter(|_| version.at_least(59)));
    let before = query.moment("changes-before").map(|at| at.filter(|_| version.at_least(66)));
    let (since, before) = if version.at_least(59) { (since?, before?) } else { (None, None) };
    if let (Some(since), Some(before)) = (since, before)
        && before < since
    {
        return Err(bad_request("The value of changes-since must be less than or equal to changes-before."));
    }
    let Some(filter) = alike_in_all_cells(query) else { return Ok((Vec::new(), Vec::new())) };
    let hidden = query.get("hidden").map(strict_bool).transpose()?;
    let Gathered { rows, silent } = api.gather_named(|cell| cell.migrations(filter.clone())).await;
    let mut migrations = newest_of_each(rows.into_iter().map(|(_, migration)| migration));
    migrations.retain(|migration| {
        let touches = |host: &str| migration.source_compute == host || migration.dest_compute.as_deref() == Some(host);
        query.get("status").is_none_or(|status| migration.status.as_str() == status)
            && query.get("host").is_none_or(touches)
            && hidden.is_none_or(|hidden| migration.hidden == hidden)
            && since.is_none_or(|since| migration.last_change() >= since)
            && before.is_none_or(|before| migration.last_change() <= before)
            // Hidden records are never shown; a request for them finds none.
            && !migration.hidden
    });
    migrations.sort_by(|a, b| b.created_at.cmp(&a.created_at).then(b.uuid.cmp(&a.uuid)));
    Ok((migrations, silent))
}

/// Returns the filter on fields that both records of a move share, so that cells can apply it. None if no record can match.
fn alike_in_all_cells(query: &Query) -> Option<MigrationFilter> {
    let mut filter = MigrationFilter {
        source_compute: query.get("source_compute").map(str::to_owned),
        user_id: query.get("user_id").map(str::to_owned),
        project_id: query.get("project_id").map(str::to_owned),
        ..MigrationFilter::default()
    };
    if let Some(text) = query.get("instance_uuid") {
        filter.instance_uuid = Some(Uuid::parse_str(text).ok()?);
    }
    if let Some(text) = query.get("migration_type") {
        filter.migration_type = Some(MigrationType::parse(text)?);
    }
    Some(filter)
}

fn newest_of_each(records: impl Iterator<Item = Migration>) -> Vec<Migration> {
    let mut newest: BTreeMap<Uuid, Migration> = BTreeMap::new();
    for record in records {
        match newest.get(&record.uuid) {
            Some(other) if other.last_change() >= record.last_change() => {}
            _ => {
                newest.insert(record.uuid, record);
            }
        }
    }
    newest.into_values().collect()
}

/// Adds the links of a live migration in progress.
fn linked(request: &HttpRequest, migration: &Migration, version: ApiVersion, mut view: Value) -> Value {
    let is_live = migration.migration_type == MigrationType::LiveMigration && migration.status.is_live();
    if is_live && version.at_least(23) {
        let collection = format!("servers/{}/migrations", migration.instance_uuid);
        view["links"] = links(request, &collection, &migration.number().to_string());
    }
    view
}

fn view(migration: &Migration, version: ApiVersion, shows_hosts: bool) -> Value {
    let mut view = common_view(migration, version, shows_hosts);
    view["instance_uuid"] = json!(migration.instance_uuid);
    view["old_instance_type_id"] = json!(migration.old_instance_type_id);
    view["new_instance_type_id"] = json!(migration.new_instance_type_id);
    if version.at_least(23) {
        view["migration_type"] = json!(migration.migration_type.as_str());
    }
    view
}

/// Returns the fields of a migration that the list of all migrations and those of a server have.
pub(super) fn common_view(migration: &Migration, version: ApiVersion, shows_hosts: bool) -> Value {
    let host = |name: Option<&str>| json!(name.filter(|_| shows_hosts));
    let mut view = json!({
        "id": migration.number(),
        "status": migration.status.as_str(),
        "source_compute": host(Some(&migration.source_compute)),
        "source_node": host(Some(&migration.source_node)),
        "dest_compute": host(migration.dest_compute.as_deref()),
        "dest_node": host(migration.dest_node.as_deref()),
        "dest_host": host(migration.dest_host.as_deref()),
        "created_at": moment(migration.created_at),
        "updated_at": moment_or_null(migration.updated_at),
    });
    if version.at_least(59) {
        view["uuid"] = json!(migration.uuid);
    }
    if version.at_least(80) {
        view["user_id"] = json!(migration.user_id);
        view["project_id"] = json!(migration.project_id);
    }
    view
}
