//! The availability zone, and the list of extensions.

use actix_web::{HttpResponse, web};
use cellshift_web::auth::Caller;
use serde_json::json;

use crate::volume::ZONE;

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/os-availability-zone").route(web::get().to(list)));
    cfg.service(web::resource("/extensions").route(web::get().to(extensions)));
}

async fn list(_: Caller) -> HttpResponse {
    HttpResponse::Ok().json(json!({"availabilityZoneInfo": [{"zoneName": ZONE, "zoneState": {"available": true}}]}))
}

/// The extensions of Cinder that are there: name, alias and the time that Cinder tells.
const EXTENSIONS: [(&str, &str, &str); 23] = [
    ("AdminActions", "os-admin-actions", "2012-08-25T00:00:00+00:00"),
    ("AvailabilityZones", "os-availability-zone", "2013-06-27T00:00:00+00:00"),
    ("Backups", "backups", "2012-12-12T00:00:00+00:00"),
    ("Capabilities", "capabilities", "2015-08-31T00:00:00+00:00"),
    ("ExtendedServices", "os-extended-services", "2014-01-10T00:00:00-00:00"),
    ("ExtendedSnapshotAttributes", "os-extended-snapshot-attributes", "2012-06-19T00:00:00+00:00"),
    ("Hosts", "os-hosts", "2011-06-29T00:00:00+00:00"),
    ("Qos_specs_manage", "qos-specs", "2013-08-02T00:00:00+00:00"),
    ("QuotaClasses", "os-quota-class-sets", "2012-03-12T00:00:00+00:00"),
    ("Quotas", "os-quota-sets", "2011-08-08T00:00:00+00:00"),
    ("Scheduler_stats", "scheduler-stats", "2014-09-07T00:00:00+00:00"),
    ("Services", "os-services", "2012-10-28T00:00:00-00:00"),
    ("SnapshotActions", "os-snapshot-actions", "2013-07-16T00:00:00+00:00"),
    ("TypesExtraSpecs", "os-types-extra-specs", "2011-08-24T00:00:00+00:00"),
    ("TypesManage", "os-types-manage", "2011-08-24T00:00:00+00:00"),
    ("UsedLimits", "os-used-limits", "2013-10-03T00:00:00+00:00"),
    ("VolumeActions", "os-volume-actions", "2012-05-31T00:00:00+00:00"),
    ("VolumeHostAttribute", "os-vol-host-attr", "2011-11-03T00:00:00+00:00"),
    ("VolumeImageMetadata", "os-vol-image-meta", "2012-12-07T00:00:00+00:00"),
    ("VolumeMigStatusAttribute", "os-vol-mig-status-attr", "2013-08-08T00:00:00+00:00"),
    ("VolumeTenantAttribute", "os-vol-tenant-attr", "2011-11-03T00:00:00+00:00"),
    ("VolumeTransfer", "os-volume-transfer", "2013-05-29T00:00:00+00:00"),
    ("VolumeTypeAccess", "os-volume-type-access", "2014-06-26T00:00:00Z"),
];

async fn extensions(_: Caller) -> HttpResponse {
    let extensions = EXTENSIONS
        .map(|(name, alias, updated)| json!({"name": name, "alias": alias, "description": name, "updated": updated, "links": []}));
    HttpResponse::Ok().json(json!({"extensions": extensions}))
}
