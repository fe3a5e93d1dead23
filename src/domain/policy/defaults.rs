//! The built-in rules, by the names that the field knows; a deployment's policy file changes them by name.

/// A built-in rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DefaultRule {
    /// Its name.
    pub name: &'static str,
    /// Its text, in the policy language.
    pub check: &'static str,
}

/// Every built-in rule, grouped by subject.
pub fn defaults() -> impl Iterator<Item = DefaultRule> {
    GROUPS.iter().flat_map(|(_, rules)| rules.iter().map(|(name, check)| DefaultRule { name, check }))
}

const ADMIN: &str = "rule:context_is_admin";
const MANAGER: &str = "rule:project_manager_or_admin";
const MEMBER: &str = "rule:project_member_or_admin";
const READER: &str = "rule:project_reader_or_admin";

type Group = (&'static str, &'static [(&'static str, &'static str)]);

/// Subject, and its rules.
const GROUPS: &[Group] = &[
    (
        "Building blocks that other rules refer to.",
        &[
            ("context_is_admin", "role:admin"),
            ("admin_api", "rule:context_is_admin"),
            ("admin_or_owner", "rule:context_is_admin or project_id:%(project_id)s"),
            ("project_manager_api", "role:manager and project_id:%(project_id)s"),
            ("project_member_api", "role:member and project_id:%(project_id)s"),
            ("project_reader_api", "role:reader and project_id:%(project_id)s"),
            ("project_manager_or_admin", "rule:project_manager_api or rule:context_is_admin"),
            ("project_member_or_admin", "rule:project_member_api or rule:context_is_admin"),
            ("project_reader_or_admin", "rule:project_reader_api or rule:context_is_admin"),
            ("service_api", "role:service"),
            ("service_or_admin", "rule:service_api or rule:context_is_admin"),
        ],
    ),
    (
        "Servers: reading.",
        &[
            ("os_compute_api:servers:index", READER),
            ("os_compute_api:servers:detail", READER),
            ("os_compute_api:servers:show", READER),
        ],
    ),
    (
        "Servers: what only operators see or choose.",
        &[
            ("os_compute_api:servers:index:get_all_tenants", ADMIN),
            ("os_compute_api:servers:detail:get_all_tenants", ADMIN),
            ("os_compute_api:servers:allow_all_filters", ADMIN),
            ("os_compute_api:servers:show:host_status", ADMIN),
            ("os_compute_api:servers:create:forced_host", ADMIN),
            ("os_compute_api:servers:create:zero_disk_flavor", ADMIN),
            ("os_compute_api:os-extended-server-attributes", ADMIN),
        ],
    ),
    (
        "Servers: the host's status when it is UNKNOWN only.",
        &[
            ("os_compute_api:servers:show:host_status:unknown-only", ADMIN),
        ],
    ),
    (
        "Servers: changing.",
        &[
            ("os_compute_api:servers:create", MEMBER),
            ("os_compute_api:servers:create:attach_network", MEMBER),
            ("os_compute_api:servers:create:attach_volume", MEMBER),
            ("os_compute_api:servers:create:trusted_certs", MEMBER),
            ("os_compute_api:servers:update", MEMBER),
            ("os_compute_api:servers:delete", MEMBER),
            ("os_compute_api:servers:rebuild", MEMBER),
            ("os_compute_api:servers:rebuild:trusted_certs", MEMBER),
            ("os_compute_api:servers:reboot", MEMBER),
            ("os_compute_api:servers:resize", MEMBER),
            ("os_compute_api:servers:confirm_resize", MEMBER),
            ("os_compute_api:servers:revert_resize", MEMBER),
            ("os_compute_api:servers:start", MEMBER),
            ("os_compute_api:servers:stop", MEMBER),
            ("os_compute_api:servers:create_image", MEMBER),
            ("os_compute_api:servers:create_image:allow_volume_backed", MEMBER),
            ("os_compute_api:servers:trigger_crash_dump", MEMBER),
        ],
    ),
    (
        "A resize or cold migration may leave its cell. Nobody's until the policy file gives it to somebody (spec cross-cell-resize §3).",
        &[
            ("compute:servers:resize:cross_cell", "!"),
        ],
    ),
    (
        "Servers: networks that are nobody's to attach.",
        &[
            ("network:attach_external_network", ADMIN),
            ("compute:servers:create:requested_destination", ADMIN),
        ],
    ),
    (
        "Server actions of the project's members.",
        &[
            ("os_compute_api:os-admin-password", MEMBER),
            ("os_compute_api:os-attach-interfaces:create", MEMBER),
            ("os_compute_api:os-attach-interfaces:delete", MEMBER),
            ("os_compute_api:os-console-output", MEMBER),
            ("os_compute_api:os-create-backup", MEMBER),
            ("os_compute_api:os-deferred-delete:restore", MEMBER),
            ("os_compute_api:os-deferred-delete:force", MEMBER),
            ("os_compute_api:os-floating-ips:add", MEMBER),
            ("os_compute_api:os-floating-ips:remove", MEMBER),
            ("os_compute_api:os-lock-server:lock", MEMBER),
            ("os_compute_api:os-lock-server:unlock", MEMBER),
            ("os_compute_api:os-multinic:add", MEMBER),
            ("os_compute_api:os-multinic:remove", MEMBER),
            ("os_compute_api:os-pause-server:pause", MEMBER),
            ("os_compute_api:os-pause-server:unpause", MEMBER),
            ("os_compute_api:os-remote-consoles", MEMBER),
            ("os_compute_api:os-rescue", MEMBER),
            ("os_compute_api:os-unrescue", MEMBER),
            ("os_compute_api:os-security-groups:add", MEMBER),
            ("os_compute_api:os-security-groups:remove", MEMBER),
            ("os_compute_api:os-server-password:clear", MEMBER),
            ("os_compute_api:os-server-tags:update", MEMBER),
            ("os_compute_api:os-server-tags:update_all", MEMBER),
            ("os_compute_api:os-server-tags:delete", MEMBER),
            ("os_compute_api:os-server-tags:delete_all", MEMBER),
            ("os_compute_api:os-shelve:shelve", MEMBER),
            ("os_compute_api:os-shelve:unshelve", MEMBER),
            ("os_compute_api:os-suspend-server:suspend", MEMBER),
            ("os_compute_api:os-suspend-server:resume", MEMBER),
            ("os_compute_api:os-volumes-attachments:create", MEMBER),
            ("os_compute_api:os-volumes-attachments:update", MEMBER),
            ("os_compute_api:os-volumes-attachments:delete", MEMBER),
            ("os_compute_api:server-metadata:create", MEMBER),
            ("os_compute_api:server-metadata:update", MEMBER),
            ("os_compute_api:server-metadata:update_all", MEMBER),
            ("os_compute_api:server-metadata:delete", MEMBER),
        ],
    ),
    (
        "Server actions of the project's managers.",
        &[
            ("os_compute_api:os-migrate-server:migrate", MANAGER),
            ("os_compute_api:os-migrate-server:migrate_live", MANAGER),
            ("os_compute_api:os-migrations:index", MANAGER),
        ],
    ),
    (
        "Server actions of operators.",
        &[
            ("os_compute_api:os-admin-actions:reset_state", ADMIN),
            ("os_compute_api:os-admin-actions:inject_network_info", ADMIN),
            ("os_compute_api:os-evacuate", ADMIN),
            ("os_compute_api:os-lock-server:unlock:unlock_override", ADMIN),
            ("os_compute_api:os-migrate-server:migrate:host", ADMIN),
            ("os_compute_api:os-migrate-server:migrate_live:host", ADMIN),
            ("os_compute_api:os-migrations:index:all_projects", ADMIN),
            ("os_compute_api:os-migrations:index:host", ADMIN),
            ("os_compute_api:os-server-diagnostics", ADMIN),
            ("os_compute_api:os-shelve:shelve_offload", ADMIN),
            ("os_compute_api:os-shelve:unshelve_to_host", ADMIN),
            ("os_compute_api:os-volumes-attachments:swap", ADMIN),
            ("os_compute_api:servers:migrations:show", ADMIN),
            ("os_compute_api:servers:migrations:force_complete", ADMIN),
            ("os_compute_api:servers:migrations:delete", ADMIN),
            ("os_compute_api:servers:migrations:index:host", ADMIN),
            ("os_compute_api:os-instance-actions:events", ADMIN),
            ("os_compute_api:os-instance-actions:events:details", ADMIN),
        ],
    ),
    (
        "Live migrations of a server, to its project's managers.",
        &[
            ("os_compute_api:servers:migrations:index", MANAGER),
        ],
    ),
    (
        "Parts of a server, to its project's readers.",
        &[
            ("os_compute_api:ips:index", READER),
            ("os_compute_api:ips:show", READER),
            ("os_compute_api:os-attach-interfaces:list", READER),
            ("os_compute_api:os-attach-interfaces:show", READER),
            ("os_compute_api:os-instance-actions:list", READER),
            ("os_compute_api:os-instance-actions:show", READER),
            ("os_compute_api:os-security-groups:list", READER),
            ("os_compute_api:os-server-password:show", READER),
            ("os_compute_api:os-server-tags:index", READER),
            ("os_compute_api:os-server-tags:show", READER),
            ("os_compute_api:os-volumes-attachments:index", READER),
            ("os_compute_api:os-volumes-attachments:show", READER),
            ("os_compute_api:server-metadata:index", READER),
            ("os_compute_api:server-metadata:show", READER),
            ("os_compute_api:os-simple-tenant-usage:show", READER),
        ],
    ),
    (
        "What everybody with a token reads.",
        &[
            ("os_compute_api:extensions", "@"),
            ("os_compute_api:os-availability-zone:list", "@"),
            ("os_compute_api:limits", "@"),
            ("os_compute_api:os-quota-sets:defaults", "@"),
        ],
    ),
    (
        "Flavors.",
        &[
            ("os_compute_api:os-flavor-manage:create", ADMIN),
            ("os_compute_api:os-flavor-manage:update", ADMIN),
            ("os_compute_api:os-flavor-manage:delete", ADMIN),
            ("os_compute_api:os-flavor-access:add_tenant_access", ADMIN),
            ("os_compute_api:os-flavor-access:remove_tenant_access", ADMIN),
            ("os_compute_api:os-flavor-access", ADMIN),
            ("os_compute_api:os-flavor-extra-specs:create", ADMIN),
            ("os_compute_api:os-flavor-extra-specs:update", ADMIN),
            ("os_compute_api:os-flavor-extra-specs:delete", ADMIN),
        ],
    ),
    (
        "Flavors: reading extra specs.",
        &[
            ("os_compute_api:os-flavor-extra-specs:index", READER),
            ("os_compute_api:os-flavor-extra-specs:show", READER),
        ],
    ),
    (
        "Key pairs: one's own, or any for operators.",
        &[
            ("os_compute_api:os-keypairs:index", "rule:context_is_admin or user_id:%(user_id)s"),
            ("os_compute_api:os-keypairs:show", "rule:context_is_admin or user_id:%(user_id)s"),
            ("os_compute_api:os-keypairs:create", "rule:context_is_admin or user_id:%(user_id)s"),
            ("os_compute_api:os-keypairs:delete", "rule:context_is_admin or user_id:%(user_id)s"),
        ],
    ),
    (
        "Server groups.",
        &[
            ("os_compute_api:os-server-groups:index", READER),
            ("os_compute_api:os-server-groups:show", READER),
        ],
    ),
    (
        "Server groups: changing.",
        &[
            ("os_compute_api:os-server-groups:create", MEMBER),
            ("os_compute_api:os-server-groups:delete", MEMBER),
        ],
    ),
    (
        "Server groups: everybody's.",
        &[
            ("os_compute_api:os-server-groups:index:all_projects", ADMIN),
        ],
    ),
    (
        "Quota and usage.",
        &[
            ("os_compute_api:os-quota-sets:update", ADMIN),
            ("os_compute_api:os-quota-sets:delete", ADMIN),
            ("os_compute_api:os-quota-class-sets:show", ADMIN),
            ("os_compute_api:os-quota-class-sets:update", ADMIN),
            ("os_compute_api:os-simple-tenant-usage:list", ADMIN),
            ("os_compute_api:limits:other_project", ADMIN),
            ("os_compute_api:os-instance-usage-audit-log:list", ADMIN),
            ("os_compute_api:os-instance-usage-audit-log:show", ADMIN),
        ],
    ),
    (
        "Quota: one's own.",
        &[
            ("os_compute_api:os-quota-sets:show", READER),
            ("os_compute_api:os-quota-sets:detail", READER),
        ],
    ),
    (
        "The deployment: zones, aggregates, hosts, services.",
        &[
            ("os_compute_api:os-availability-zone:detail", ADMIN),
            ("os_compute_api:os-aggregates:index", ADMIN),
            ("os_compute_api:os-aggregates:create", ADMIN),
            ("os_compute_api:os-aggregates:show", ADMIN),
            ("os_compute_api:os-aggregates:update", ADMIN),
            ("os_compute_api:os-aggregates:delete", ADMIN),
            ("os_compute_api:os-aggregates:add_host", ADMIN),
            ("os_compute_api:os-aggregates:remove_host", ADMIN),
            ("os_compute_api:os-aggregates:set_metadata", ADMIN),
            ("compute:aggregates:images", ADMIN),
            ("os_compute_api:os-hosts:list", ADMIN),
            ("os_compute_api:os-hosts:show", ADMIN),
            ("os_compute_api:os-hosts:update", ADMIN),
            ("os_compute_api:os-hosts:start", ADMIN),
            ("os_compute_api:os-hosts:shutdown", ADMIN),
            ("os_compute_api:os-hosts:reboot", ADMIN),
            ("os_compute_api:os-hypervisors:list", ADMIN),
            ("os_compute_api:os-hypervisors:list-detail", ADMIN),
            ("os_compute_api:os-hypervisors:show", ADMIN),
            ("os_compute_api:os-hypervisors:statistics", ADMIN),
            ("os_compute_api:os-hypervisors:search", ADMIN),
            ("os_compute_api:os-hypervisors:servers", ADMIN),
            ("os_compute_api:os-hypervisors:uptime", ADMIN),
            ("os_compute_api:os-services:list", ADMIN),
            ("os_compute_api:os-services:update", ADMIN),
            ("os_compute_api:os-services:delete", ADMIN),
        ],
    ),
    (
        "What other services tell and ask.",
        &[
            ("os_compute_api:os-server-external-events:create", "rule:service_or_admin"),
            ("os_compute_api:os-assisted-volume-snapshots:create", "rule:service_or_admin"),
            ("os_compute_api:os-assisted-volume-snapshots:delete", "rule:service_or_admin"),
        ],
    ),
    (
        "Proxies to the network and volume services, below microversion 2.36.",
        &[
            ("os_compute_api:os-floating-ip-pools", READER),
            ("os_compute_api:os-floating-ips:list", READER),
            ("os_compute_api:os-floating-ips:show", READER),
            ("os_compute_api:os-networks:list", READER),
            ("os_compute_api:os-networks:show", READER),
            ("os_compute_api:os-security-groups:get", READER),
            ("os_compute_api:os-security-groups:show", READER),
            ("os_compute_api:os-tenant-networks:list", READER),
            ("os_compute_api:os-tenant-networks:show", READER),
            ("os_compute_api:os-volumes:list", READER),
            ("os_compute_api:os-volumes:detail", READER),
            ("os_compute_api:os-volumes:show", READER),
            ("os_compute_api:os-volumes:snapshots:list", READER),
            ("os_compute_api:os-volumes:snapshots:detail", READER),
            ("os_compute_api:os-volumes:snapshots:show", READER),
            ("os_compute_api:os-floating-ips:create", MEMBER),
            ("os_compute_api:os-floating-ips:delete", MEMBER),
            ("os_compute_api:os-security-groups:create", MEMBER),
            ("os_compute_api:os-security-groups:update", MEMBER),
            ("os_compute_api:os-security-groups:delete", MEMBER),
            ("os_compute_api:os-security-groups:rule:create", MEMBER),
            ("os_compute_api:os-security-groups:rule:delete", MEMBER),
            ("os_compute_api:os-volumes:create", MEMBER),
            ("os_compute_api:os-volumes:delete", MEMBER),
            ("os_compute_api:os-volumes:snapshots:create", MEMBER),
            ("os_compute_api:os-volumes:snapshots:delete", MEMBER),
        ],
    ),
    (
        "The operators' API (spec ops-api.md).",
        &[
            ("ops:cells", "rule:admin_api"),
            ("ops:audit", "rule:admin_api"),
            ("ops:migrations", "rule:admin_api"),
            ("ops:notifications", "rule:admin_api"),
            ("ops:chaos", "rule:admin_api"),
        ],
    ),
];
