//! A cell database's tables for diesel. The SQL is in `migrations/cell`.

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Json, Moment, Name, Object, Power};

    instances (id) {
        id -> Integer,
        uuid -> Name,
        created_at -> Moment,
        updated_at -> Nullable<Moment>,
        deleted_at -> Nullable<Moment>,
        deleted -> Bool,
        hidden -> Nullable<Bool>,
        project_id -> Text,
        user_id -> Text,
        display_name -> Text,
        display_description -> Nullable<Text>,
        hostname -> Nullable<Text>,
        host -> Nullable<Text>,
        node -> Nullable<Text>,
        availability_zone -> Nullable<Text>,
        vm_state -> Name,
        task_state -> Nullable<Name>,
        power_state -> Power,
        progress -> Integer,
        flavor -> Json,
        flavor_id -> Text,
        image_ref -> Text,
        key_name -> Nullable<Text>,
        locked -> Bool,
        locked_by -> Nullable<Text>,
        launched_at -> Nullable<Moment>,
        terminated_at -> Nullable<Moment>,
        root_device_name -> Nullable<Text>,
        access_ip_v4 -> Nullable<Text>,
        access_ip_v6 -> Nullable<Text>,
        user_data -> Nullable<Text>,
        details -> Object,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::Name;

    instance_metadata (instance_uuid, key) {
        instance_uuid -> Name,
        key -> Text,
        value -> Text,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::Name;

    tags (instance_uuid, tag) {
        instance_uuid -> Name,
        tag -> Text,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Json, Moment, Name};

    instance_info_caches (instance_uuid) {
        instance_uuid -> Name,
        network_info -> Json,
        updated_at -> Moment,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Json, Moment, Name};

    block_device_mappings (id) {
        id -> Integer,
        uuid -> Name,
        instance_uuid -> Name,
        created_at -> Moment,
        updated_at -> Nullable<Moment>,
        boot_index -> Nullable<Integer>,
        device_name -> Nullable<Text>,
        source_type -> Text,
        destination_type -> Text,
        volume_id -> Nullable<Name>,
        attachment_id -> Nullable<Name>,
        connection_info -> Nullable<Json>,
        volume_size -> Nullable<Integer>,
        volume_type -> Nullable<Text>,
        delete_on_termination -> Bool,
        image_id -> Nullable<Name>,
        snapshot_id -> Nullable<Name>,
        tag -> Nullable<Text>,
        no_device -> Bool,
        disk_bus -> Nullable<Text>,
        device_type -> Nullable<Text>,
        guest_format -> Nullable<Text>,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Moment, Name};

    virtual_interfaces (id) {
        id -> Integer,
        port_id -> Name,
        instance_uuid -> Name,
        created_at -> Moment,
        address -> Text,
        network_id -> Name,
        tag -> Nullable<Text>,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Moment, Name};

    instance_faults (id) {
        id -> Integer,
        instance_uuid -> Name,
        created_at -> Moment,
        code -> Integer,
        message -> Text,
        details -> Nullable<Text>,
        host -> Nullable<Text>,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Moment, Name};

    migrations (id) {
        id -> Integer,
        uuid -> Name,
        instance_uuid -> Name,
        created_at -> Moment,
        updated_at -> Nullable<Moment>,
        migration_type -> Name,
        status -> Name,
        source_compute -> Text,
        source_node -> Text,
        dest_compute -> Nullable<Text>,
        dest_node -> Nullable<Text>,
        dest_host -> Nullable<Text>,
        old_flavor_id -> Text,
        new_flavor_id -> Text,
        old_instance_type_id -> Integer,
        new_instance_type_id -> Integer,
        cross_cell_move -> Bool,
        hidden -> Bool,
        user_id -> Text,
        project_id -> Text,
        first_id -> Nullable<Integer>,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Json, Name};

    migration_contexts (instance_uuid) {
        instance_uuid -> Name,
        migration_id -> Integer,
        context -> Json,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Moment, Name};

    instance_actions (id) {
        id -> Integer,
        instance_uuid -> Name,
        request_id -> Text,
        action -> Text,
        user_id -> Text,
        project_id -> Text,
        start_time -> Moment,
        finish_time -> Nullable<Moment>,
        updated_at -> Moment,
        message -> Nullable<Text>,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::Moment;

    instance_action_events (id) {
        id -> Integer,
        action_id -> Integer,
        event -> Text,
        start_time -> Moment,
        finish_time -> Nullable<Moment>,
        result -> Nullable<Text>,
        traceback -> Nullable<Text>,
        host -> Nullable<Text>,
        details -> Nullable<Text>,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Moment, Name};

    services (id) {
        id -> Integer,
        uuid -> Name,
        created_at -> Moment,
        updated_at -> Nullable<Moment>,
        host -> Text,
        binary_name -> Text,
        topic -> Text,
        availability_zone -> Text,
        disabled -> Bool,
        disabled_reason -> Nullable<Text>,
        forced_down -> Bool,
        last_seen_up -> Nullable<Moment>,
        report_count -> Integer,
        version -> Integer,
        agent_life -> Nullable<Name>,
        agent_place -> Nullable<Name>,
        agent_start -> Nullable<BigInt>,
        agent_heard_at -> Nullable<Moment>,
        agent_last_word -> Nullable<Text>,
        forced_down_at -> Nullable<Moment>,
        agent_self_fence_ms -> Nullable<BigInt>,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::{Moment, Name};

    compute_nodes (id) {
        id -> Integer,
        uuid -> Name,
        created_at -> Moment,
        updated_at -> Nullable<Moment>,
        host -> Text,
        hypervisor_hostname -> Text,
        hypervisor_type -> Text,
        hypervisor_version -> Integer,
        host_ip -> Text,
        vcpus -> Integer,
        memory_mb -> Integer,
        local_gb -> Integer,
        vcpus_used -> Integer,
        memory_mb_used -> Integer,
        local_gb_used -> Integer,
        running_vms -> Integer,
        current_workload -> Integer,
        cpu_allocation_ratio -> Double,
        ram_allocation_ratio -> Double,
        disk_allocation_ratio -> Double,
        cpu_info -> Text,
        service_id -> Name,
        mapped -> Bool,
    }
}

diesel::joinable!(instance_action_events -> instance_actions (action_id));
diesel::allow_tables_to_appear_in_same_query!(
    instances,
    instance_metadata,
    tags,
    instance_info_caches,
    block_device_mappings,
    virtual_interfaces,
    instance_faults,
    migrations,
    migration_contexts,
    instance_actions,
    instance_action_events,
    services,
    compute_nodes
);
