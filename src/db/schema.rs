//! The schemas of the databases, with the migrations that make them.

use cellshift_store::{Migrations, migrations};

const API: Migrations = migrations! {
    "migrations/api":
    "2026-11-20-000001_fences",
    "2026-11-20-000002_operations",
    "2026-11-20-000010_mappings" (up differs),
    "2026-11-20-000011_catalogue" (up differs),
    "2026-11-20-000030_quotas" (up differs),
    "2026-11-20-000031_mappings_by_update",
    "2026-11-22-000001_leases",
    "2026-11-22-000020_queued_deletes",
    "2026-11-22-000021_quota_turns",
    "2026-11-23-000001_operations_by_saga",
    "2026-11-23-000071_clear_contexts" (up differs),
    "2026-11-23-000080_debts_tried_at",
    "2026-11-23-000101_cancellations",
    "2026-11-23-000301_request_spec_amounts" (up differs),
    "2026-11-23-000401_saga_table_version",
    "2026-11-23-000501_debts_next_try",
    "2026-11-24-000701_group_places",
    "2026-11-24-000702_group_moves",
    "2026-11-25-000101_drains",
    "2026-11-27-000901_changes" (up and down differ),
    "2026-11-30-000101_enrolments",
};

const CELL: Migrations = migrations! {
    "migrations/cell":
    "2026-11-20-000001_fences",
    "2026-11-20-000010_instances" (up differs),
    "2026-11-20-000011_services" (up differs),
    "2026-11-23-000010_migration_numbers",
    "2026-11-23-000071_user_secrets",
    "2026-11-27-000901_changes" (up and down differ),
    "2026-11-29-000101_instance_details" (up and down differ),
    "2026-11-30-000101_agents",
    "2026-11-30-000201_self_fence",
};

/// The tables that a database holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schema {
    /// The API database: mappings, flavors, operations and the journal.
    Api,
    /// A cell's records.
    Cell,
    /// The records of the embedded identity, image, network, volume and placement services.
    Services,
}

impl From<Schema> for Migrations {
    fn from(schema: Schema) -> Migrations {
        match schema {
            Schema::Api => API,
            Schema::Cell => CELL,
            Schema::Services => cellshift_embedded::MIGRATIONS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Schema;
    use crate::db::fixture::check_migrations;

    #[test]
    fn the_migrations_of_the_api_are_the_released_ones() {
        let released = "20261120000001 20261120000002 20261120000010 20261120000011 20261120000030 20261120000031 20261122000001 \
            20261122000020 20261122000021 20261123000001 20261123000071 20261123000080 20261123000101 20261123000301 \
            20261123000401 20261123000501 20261124000701 20261124000702 20261125000101 20261127000901 20261130000101";
        check_migrations(Schema::Api, concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/api"), released);
    }

    #[test]
    fn the_migrations_of_a_cell_are_the_released_ones() {
        let released = "20261120000001 20261120000010 20261120000011 20261123000010 20261123000071 20261127000901 20261129000101 \
            20261130000101";
        check_migrations(Schema::Cell, concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/cell"), released);
    }
}
