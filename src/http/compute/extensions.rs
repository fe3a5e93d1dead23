//! `/extensions`: old clients learn from this list which features exist. Microversions have replaced it, so it never changes.

use actix_web::web;
use serde_json::{Value, json};

use super::answer::{Answer, no_such_resource, ok};
use super::query::Query;
use crate::domain::policy::Target;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;
use crate::policy_file::PolicyFile;

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/extensions").route(web::get().to(list)))
        .service(web::resource("/extensions/{alias}").route(web::get().to(show)));
}

async fn list(caller: Caller, version: ApiVersion, policy: web::Data<PolicyFile>, request: actix_web::HttpRequest) -> Answer {
    allow(&policy, &caller)?;
    if version.at_least(102) {
        Query::of(&request)?.only(&[])?;
    }
    let all: Vec<Value> = EXTENSIONS.iter().map(view).collect();
    ok(&json!({"extensions": all}))
}

async fn show(caller: Caller, policy: web::Data<PolicyFile>, alias: web::Path<String>) -> Answer {
    allow(&policy, &caller)?;
    let extension = EXTENSIONS.iter().find(|(name, ..)| *name == alias.as_str()).ok_or_else(no_such_resource)?;
    ok(&json!({"extension": view(extension)}))
}

fn allow(policy: &PolicyFile, caller: &Caller) -> Result<(), ApiError> {
    policy.authorize("os_compute_api:extensions", &caller.0, &Target::own(&caller.0))
}

type Extension = (&'static str, &'static str, &'static str);

fn view((alias, name, description): &Extension) -> Value {
    json!({
        "alias": alias,
        "name": name,
        "description": description,
        "namespace": "http://docs.openstack.org/compute/ext/fake_xml",
        "updated": "2014-12-03T00:00:00Z",
        "links": [],
    })
}

/// Aliases, names and descriptions of the existing extensions. Unlike Nova's list, leaves out extensions that Nova removed.
const EXTENSIONS: &[Extension] = &[
    ("OS-DCF", "DiskConfig", "Whether a server's disk grows with its flavor."),
    ("OS-EXT-AZ", "ExtendedAvailabilityZone", "The zone of a server."),
    ("OS-EXT-IMG-SIZE", "ImageSize", "The size of an image."),
    ("OS-EXT-IPS", "ExtendedIps", "The type of each of a server's addresses."),
    ("OS-EXT-IPS-MAC", "ExtendedIpsMac", "The hardware address of each of a server's addresses."),
    ("OS-EXT-SRV-ATTR", "ExtendedServerAttributes", "The host and the hypervisor of a server."),
    ("OS-EXT-STS", "ExtendedStatus", "The states behind a server's status."),
    ("OS-FLV-DISABLED", "FlavorDisabled", "Whether a flavor may be used."),
    ("OS-FLV-EXT-DATA", "FlavorExtraData", "The ephemeral disk of a flavor."),
    ("OS-SCH-HNT", "SchedulerHints", "Hints to the scheduler when a server is created."),
    ("OS-SRV-USG", "ServerUsage", "When a server was launched and when it ended."),
    ("flavors", "Flavors", "Flavors."),
    ("os-access-ips", "AccessIPs", "Addresses that a server's owner names for it."),
    ("os-admin-actions", "AdminActions", "Resetting a server's state."),
    ("os-admin-password", "AdminPassword", "Changing a server's password."),
    ("os-aggregates", "Aggregates", "Groups of hosts."),
    ("os-assisted-volume-snapshots", "AssistedVolumeSnapshots", "Snapshots of volumes that are files of a guest."),
    ("os-attach-interfaces", "AttachInterfaces", "Attaching network interfaces."),
    ("os-availability-zone", "AvailabilityZone", "Availability zones."),
    ("os-block-device-mapping", "BlockDeviceMapping", "Servers that boot from volumes."),
    ("os-config-drive", "ConfigDrive", "Whether a server has a configuration drive."),
    ("os-console-auth-tokens", "ConsoleAuthTokens", "The consoles to which tokens lead."),
    ("os-console-output", "ConsoleOutput", "What a guest has written to its console."),
    ("os-consoles", "Consoles", "Consoles of servers, by the actions of their types."),
    ("os-create-backup", "CreateBackup", "Images of a server, of which the oldest go."),
    ("os-deferred-delete", "DeferredDelete", "Deleting a server at once."),
    ("os-evacuate", "Evacuate", "Servers of a host that failed get another."),
    ("os-extended-volumes", "ExtendedVolumes", "The volumes of a server."),
    ("os-flavor-access", "FlavorAccess", "Flavors that only some projects see."),
    ("os-flavor-extra-specs", "FlavorExtraSpecs", "Extra specs of flavors."),
    ("os-flavor-manage", "FlavorManage", "Making and removing flavors."),
    ("os-flavor-rxtx", "FlavorRxtx", "The network factor of a flavor."),
    ("os-floating-ip-pools", "FloatingIpPools", "External networks, below microversion 2.36."),
    ("os-floating-ips", "FloatingIps", "Floating IPs, below microversion 2.36."),
    ("os-hosts", "Hosts", "Hosts, below microversion 2.43."),
    ("os-hypervisors", "Hypervisors", "Hypervisors."),
    ("os-instance-actions", "InstanceActions", "What was done to a server."),
    ("os-instance-usage-audit-log", "OSInstanceUsageAuditLog", "Which hosts have reported their servers' usage."),
    ("os-keypairs", "Keypairs", "Key pairs."),
    ("os-lock-server", "LockServer", "Locking a server against changes."),
    ("os-migrate-server", "MigrateServer", "Moving a server to another host."),
    ("os-migrations", "Migrations", "Moves of servers."),
    ("os-multinic", "Multinic", "More addresses of a server's port, below microversion 2.44."),
    ("os-multiple-create", "MultipleCreate", "Creating several servers at once."),
    ("os-networks", "Networks", "Names of networks, below microversion 2.36."),
    ("os-pause-server", "PauseServer", "Guests are paused and go on."),
    ("os-personality", "Personality", "Files for a server to have at its first boot."),
    ("os-quota-class-sets", "QuotaClasses", "Quotas for everybody who has none of their own."),
    ("os-quota-sets", "Quotas", "Quotas of projects."),
    ("os-remote-consoles", "Consoles", "Remote consoles of servers."),
    ("os-rescue", "Rescue", "Booting a server from another image beside its disks."),
    ("os-security-groups", "SecurityGroups", "The security groups of a server."),
    ("os-server-diagnostics", "ServerDiagnostics", "What a running server uses of its host."),
    ("os-server-external-events", "ServerExternalEvents", "What other services tell of servers."),
    ("os-server-groups", "ServerGroups", "Servers to keep together or apart."),
    ("os-server-password", "ServerPassword", "The password that a guest has published."),
    ("os-server-sort-keys", "ServerSortKeys", "Sorting the list of servers."),
    ("os-server-start-stop", "ServerStartStop", "Starting and stopping a server."),
    ("os-services", "Services", "Services."),
    ("os-shelve", "Shelve", "Servers are shelved, leave their hosts and come back."),
    ("os-simple-tenant-usage", "SimpleTenantUsage", "What projects used over time."),
    ("os-suspend-server", "SuspendServer", "Guests are suspended and resumed."),
    ("os-tenant-networks", "TenantNetworks", "Names of networks, below microversion 2.36."),
    ("os-used-limits", "UsedLimits", "What is used of the limits."),
    ("os-user-data", "UserData", "Data for a server to read at its first boot."),
    ("os-volumes", "Volumes", "Attaching volumes."),
    ("servers", "Servers", "Servers."),
    ("versions", "Versions", "Versions of the API."),
];
