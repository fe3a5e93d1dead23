//! `/os-instance_usage_audit_log`: which hosts have reported their servers' usage of the last month. Nova's hosts do so only when
//! `instance_usage_audit` asks for it. Here no host does, so each host is one that has not run.

use actix_web::{HttpRequest, web};
use chrono::{Datelike, NaiveDate, NaiveDateTime};
use serde_json::{Value, json};

use super::answer::{Answer, bad_request, ok};
use super::catalog::Catalog;
use super::query::Query;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/os-instance_usage_audit_log").route(web::get().to(list)))
        .service(web::resource("/os-instance_usage_audit_log/{before}").route(web::get().to(show)));
}

async fn list(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest) -> Answer {
    api.allow(&caller, "os_compute_api:os-instance-usage-audit-log:list")?;
    check_query(&request, version)?;
    let log = log_before(&api, api.env.now().naive_utc()).await?;
    ok(&json!({"instance_usage_audit_logs": log}))
}

async fn show(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest, before: web::Path<String>) -> Answer {
    api.allow(&caller, "os_compute_api:os-instance-usage-audit-log:show")?;
    check_query(&request, version)?;
    let moment = NaiveDateTime::parse_from_str(&before, "%Y-%m-%d %H:%M:%S%.f");
    let moment = moment.map_err(|_| bad_request(format!("Invalid timestamp for date {before:.40}")))?;
    ok(&json!({"instance_usage_audit_log": log_before(&api, moment).await?}))
}

fn check_query(request: &HttpRequest, version: ApiVersion) -> Result<(), ApiError> {
    if version.at_least(102) { Query::of(request)?.only(&[]) } else { Ok(()) }
}

async fn log_before(api: &Catalog, moment: NaiveDateTime) -> Result<Value, ApiError> {
    let (begin, end) = last_month(moment).ok_or_else(|| bad_request(format!("Invalid timestamp for date {moment}")))?;
    let mut hosts = Vec::new();
    for cell in &api.cells {
        hosts.extend(api.api.hosts_of_cell(cell.uuid).await?.into_iter().map(|mapping| mapping.host));
    }
    let words = if hosts.is_empty() { "ALL".to_owned() } else { format!("0 of {}", hosts.len()) };
    Ok(json!({
        "period_beginning": format!("{begin} 00:00:00"),
        "period_ending": format!("{end} 00:00:00"),
        "num_hosts": hosts.len(),
        "num_hosts_done": 0,
        "num_hosts_running": 0,
        "num_hosts_not_run": hosts.len(),
        "hosts_not_run": hosts,
        "total_instances": 0,
        "total_errors": 0,
        "overall_status": format!("{words} hosts done. 0 errors."),
        "log": {},
    }))
}

/// Returns the first days of the last month that was over before this moment, and of the next month.
fn last_month(moment: NaiveDateTime) -> Option<(NaiveDate, NaiveDate)> {
    let first = moment.date().with_day(1)?;
    // A month is over once its end has passed: at midnight it is not yet.
    let is_end = moment == first.and_hms_opt(0, 0, 0)?;
    let month_before = |day: NaiveDate| day.pred_opt()?.with_day(1);
    let end = if is_end { month_before(first)? } else { first };
    Some((month_before(end)?, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_that_is_over_is_found() {
        for (moment, begin, end) in [
            ("2026-11-25 22:00:00", "2026-10-01", "2026-11-01"),
            ("2026-01-01 00:00:00", "2025-11-01", "2025-12-01"),
            ("2026-01-01 00:00:00.5", "2025-12-01", "2026-01-01"),
            ("2024-03-31 09:00:00", "2024-02-01", "2024-03-01"),
        ] {
            let parsed = NaiveDateTime::parse_from_str(moment, "%Y-%m-%d %H:%M:%S%.f").unwrap();
            let (from, to) = last_month(parsed).unwrap();
            assert_eq!((from.to_string().as_str(), to.to_string().as_str()), (begin, end), "{moment}");
        }
    }
}
