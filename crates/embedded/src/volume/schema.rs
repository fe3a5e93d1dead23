//! The tables of the volume service.

diesel::table! {
    volumes (id) {
        id -> Text,
        name -> Nullable<Text>,
        description -> Nullable<Text>,
        project_id -> Text,
        user_id -> Text,
        status -> Text,
        size_gb -> Integer,
        bootable -> Bool,
        multiattach -> Bool,
        availability_zone -> Text,
        volume_type -> Nullable<Text>,
        image_id -> Nullable<Text>,
        metadata -> Text,
        created_at -> Timestamp,
        updated_at -> Timestamp,
        made_size -> Nullable<BigInt>,
        made_sha256 -> Nullable<Text>,
        image_metadata -> Nullable<Text>,
        snapshot_id -> Nullable<Text>,
        source_volid -> Nullable<Text>,
        readonly -> Nullable<Bool>,
        migration_status -> Nullable<Text>,
    }
}

diesel::table! {
    volume_attachments (id) {
        id -> Text,
        volume_id -> Text,
        server_uuid -> Text,
        host -> Nullable<Text>,
        status -> Text,
        mountpoint -> Nullable<Text>,
        connection_info -> Text,
        created_at -> Timestamp,
        attached_at -> Nullable<Timestamp>,
    }
}

diesel::table! {
    volume_direct_attachments (id) {
        id -> Text,
        volume_id -> Text,
        server_uuid -> Nullable<Text>,
        host -> Nullable<Text>,
        mountpoint -> Text,
        mode -> Text,
        attached_at -> Timestamp,
        status -> Text,
    }
}

diesel::table! {
    volume_snapshots (id) {
        id -> Text,
        volume_id -> Text,
        name -> Nullable<Text>,
        description -> Nullable<Text>,
        project_id -> Text,
        user_id -> Text,
        status -> Text,
        size_gb -> Integer,
        bootable -> Bool,
        image_id -> Nullable<Text>,
        image_metadata -> Nullable<Text>,
        metadata -> Text,
        created_at -> Timestamp,
        updated_at -> Timestamp,
        made_size -> Nullable<BigInt>,
        made_sha256 -> Nullable<Text>,
        progress -> Nullable<Text>,
    }
}

diesel::table! {
    volume_backups (id) {
        id -> Text,
        volume_id -> Text,
        snapshot_id -> Nullable<Text>,
        name -> Nullable<Text>,
        description -> Nullable<Text>,
        container -> Text,
        project_id -> Text,
        user_id -> Text,
        status -> Text,
        fail_reason -> Nullable<Text>,
        size_gb -> Integer,
        bootable -> Bool,
        image_id -> Nullable<Text>,
        image_metadata -> Nullable<Text>,
        metadata -> Text,
        created_at -> Timestamp,
        updated_at -> Timestamp,
        made_size -> Nullable<BigInt>,
        made_sha256 -> Nullable<Text>,
        volume_name -> Nullable<Text>,
        volume_description -> Nullable<Text>,
        volume_metadata -> Nullable<Text>,
    }
}

diesel::table! {
    volume_transfers (id) {
        id -> Text,
        volume_id -> Text,
        name -> Nullable<Text>,
        project_id -> Text,
        key_sha256 -> Text,
        no_snapshots -> Bool,
        created_at -> Timestamp,
    }
}

diesel::table! {
    volume_types (id) {
        id -> Text,
        name -> Text,
        description -> Nullable<Text>,
        is_public -> Bool,
        extra_specs -> Text,
        created_at -> Timestamp,
        qos_specs_id -> Nullable<Text>,
    }
}

diesel::table! {
    volume_type_access (type_id, project_id) {
        type_id -> Text,
        project_id -> Text,
    }
}

diesel::table! {
    project_default_types (project_id) {
        project_id -> Text,
        type_id -> Text,
    }
}

diesel::table! {
    volume_qos_specs (id) {
        id -> Text,
        name -> Text,
        consumer -> Text,
        specs -> Text,
        created_at -> Timestamp,
    }
}

diesel::table! {
    volume_messages (id) {
        id -> Text,
        project_id -> Text,
        request_id -> Text,
        volume_id -> Text,
        created_at -> Timestamp,
    }
}

diesel::table! {
    volume_services (process, host) {
        process -> Text,
        host -> Text,
        disabled -> Bool,
        disabled_reason -> Nullable<Text>,
        frozen -> Bool,
    }
}

diesel::table! {
    volume_quotas (project_id, resource) {
        project_id -> Text,
        resource -> Text,
        hard_limit -> BigInt,
    }
}

diesel::table! {
    volume_quota_classes (class, resource) {
        class -> Text,
        resource -> Text,
        hard_limit -> BigInt,
    }
}
