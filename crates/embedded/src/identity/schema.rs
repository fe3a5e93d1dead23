//! The tables of the embedded identity service.

diesel::table! {
    domains (id) {
        id -> Text,
        name -> Text,
        description -> Text,
        enabled -> Bool,
        created_at -> Timestamp,
    }
}

diesel::table! {
    projects (id) {
        id -> Text,
        name -> Text,
        description -> Text,
        enabled -> Bool,
        created_at -> Timestamp,
        domain_id -> Text,
        tags -> cellshift_store::columns::Json,
    }
}

diesel::table! {
    users (id) {
        id -> Text,
        name -> Text,
        description -> Text,
        email -> Nullable<Text>,
        enabled -> Bool,
        default_project_id -> Nullable<Text>,
        password_hash -> Text,
        password_changed_at -> Timestamp,
        created_at -> Timestamp,
        failed_logins -> Integer,
        last_failed_login -> Nullable<Timestamp>,
        domain_id -> Text,
    }
}

diesel::table! {
    roles (id) {
        id -> Text,
        name -> Text,
        description -> Text,
    }
}

diesel::table! {
    role_assignments (user_id, target, role_id) {
        user_id -> Text,
        target -> Text,
        role_id -> Text,
    }
}

diesel::table! {
    revoked_tokens (audit_id) {
        audit_id -> Text,
        expires_at -> Timestamp,
    }
}

diesel::table! {
    identity_state (id) {
        id -> Integer,
        revision -> BigInt,
        accounts_made -> Bool,
        credential_key -> Nullable<Text>,
    }
}

diesel::table! {
    token_revocations (user_id, target) {
        user_id -> Text,
        target -> Text,
        revision -> BigInt,
        expires_at -> Timestamp,
    }
}

diesel::table! {
    application_credentials (id) {
        id -> Text,
        user_id -> Text,
        project_id -> Text,
        name -> Text,
        description -> Nullable<Text>,
        secret_hash -> Text,
        expires_at -> Nullable<Timestamp>,
        unrestricted -> Bool,
        created_at -> Timestamp,
    }
}

diesel::table! {
    application_credential_roles (credential_id, role_id) {
        credential_id -> Text,
        role_id -> Text,
    }
}

diesel::table! {
    user_groups (id) {
        id -> Text,
        name -> Text,
        description -> Text,
        created_at -> Timestamp,
        domain_id -> Text,
    }
}

diesel::table! {
    user_group_members (group_id, user_id) {
        group_id -> Text,
        user_id -> Text,
    }
}

diesel::table! {
    group_role_assignments (group_id, target, role_id) {
        group_id -> Text,
        target -> Text,
        role_id -> Text,
    }
}

diesel::table! {
    catalog_regions (id) {
        id -> Text,
        description -> Text,
        parent_region_id -> Nullable<Text>,
    }
}

diesel::table! {
    catalog_services (id) {
        id -> Text,
        service_type -> Text,
        name -> Text,
        description -> Text,
        enabled -> Bool,
    }
}

diesel::table! {
    catalog_endpoints (id) {
        id -> Text,
        service_id -> Text,
        region_id -> Nullable<Text>,
        interface -> Text,
        url -> Text,
        enabled -> Bool,
    }
}

diesel::table! {
    credentials (id) {
        id -> Text,
        user_id -> Text,
        project_id -> Nullable<Text>,
        #[sql_name = "type"]
        type_ -> Text,
        sealed_blob -> Text,
    }
}
