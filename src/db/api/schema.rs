//! The API database's tables for diesel. The SQL is in `migrations/api`.

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Moment, Name};

    cell_mappings (id) {
        id -> Integer,
        uuid -> Name,
        created_at -> Moment,
        updated_at -> Nullable<Moment>,
        name -> Text,
        database_url -> Text,
        disabled -> Bool,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Moment, Name};

    host_mappings (id) {
        id -> Integer,
        created_at -> Moment,
        updated_at -> Nullable<Moment>,
        host -> Text,
        cell_uuid -> Name,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Json, Moment, Name};

    instance_mappings (id) {
        id -> Integer,
        created_at -> Moment,
        updated_at -> Nullable<Moment>,
        instance_uuid -> Name,
        cell_uuid -> Nullable<Name>,
        project_id -> Text,
        user_id -> Nullable<Text>,
        queued_for_delete -> Nullable<Bool>,
        delete_request -> Nullable<Json>,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Json, Moment, Name};

    request_specs (instance_uuid) {
        instance_uuid -> Name,
        created_at -> Moment,
        updated_at -> Nullable<Moment>,
        spec -> Json,
        vcpus -> Integer,
        memory_mb -> Integer,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Json, Moment, Name};

    build_requests (instance_uuid) {
        instance_uuid -> Name,
        created_at -> Moment,
        project_id -> Text,
        instance -> Json,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Json, Moment};

    flavors (id) {
        id -> Integer,
        created_at -> Moment,
        updated_at -> Nullable<Moment>,
        flavorid -> Text,
        name -> Text,
        vcpus -> Integer,
        memory_mb -> Integer,
        root_gb -> Integer,
        ephemeral_gb -> Integer,
        swap_mb -> Integer,
        rxtx_factor -> Double,
        extra_specs -> Json,
        is_public -> Bool,
        disabled -> Bool,
        description -> Nullable<Text>,
    }
}

diesel::table! {
    use diesel::sql_types::*;

    flavor_projects (flavor_id, project_id) {
        flavor_id -> Integer,
        project_id -> Text,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::Moment;

    key_pairs (id) {
        id -> Integer,
        created_at -> Moment,
        user_id -> Text,
        name -> Text,
        fingerprint -> Text,
        public_key -> Text,
        key_type -> Text,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Json, Moment, Name};

    server_groups (id) {
        id -> Integer,
        uuid -> Name,
        created_at -> Moment,
        updated_at -> Nullable<Moment>,
        project_id -> Text,
        user_id -> Text,
        name -> Text,
        policy -> Name,
        rules -> Json,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::Name;

    server_group_members (id) {
        id -> Integer,
        group_uuid -> Name,
        instance_uuid -> Name,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Moment, Name};

    aggregates (id) {
        id -> Integer,
        uuid -> Name,
        created_at -> Moment,
        updated_at -> Nullable<Moment>,
        name -> Text,
    }
}

diesel::table! {
    use diesel::sql_types::*;

    aggregate_hosts (aggregate_id, host) {
        aggregate_id -> Integer,
        host -> Text,
    }
}

diesel::table! {
    use diesel::sql_types::*;

    aggregate_metadata (aggregate_id, key) {
        aggregate_id -> Integer,
        key -> Text,
        value -> Text,
    }
}

diesel::joinable!(flavor_projects -> flavors (flavor_id));
diesel::allow_tables_to_appear_in_same_query!(
    cell_mappings,
    host_mappings,
    instance_mappings,
    request_specs,
    build_requests,
    flavors,
    flavor_projects,
    key_pairs,
    server_groups,
    server_group_members,
    aggregates,
    aggregate_hosts,
    aggregate_metadata
);
