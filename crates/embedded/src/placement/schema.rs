//! Placement's tables.

diesel::table! {
    resource_providers (uuid) {
        uuid -> Text,
        name -> Text,
        generation -> BigInt,
        parent_uuid -> Nullable<Text>,
    }
}

diesel::table! {
    inventories (provider_uuid, resource_class) {
        provider_uuid -> Text,
        resource_class -> Text,
        total -> BigInt,
        reserved -> BigInt,
        min_unit -> BigInt,
        max_unit -> BigInt,
        step_size -> BigInt,
        allocation_ratio -> Double,
        used -> BigInt,
    }
}

diesel::table! {
    provider_traits (provider_uuid, name) {
        provider_uuid -> Text,
        name -> Text,
    }
}

diesel::table! {
    provider_aggregates (provider_uuid, aggregate_uuid) {
        provider_uuid -> Text,
        aggregate_uuid -> Text,
    }
}

diesel::table! {
    consumers (uuid) {
        uuid -> Text,
        project_id -> Text,
        user_id -> Text,
        consumer_type -> Text,
        generation -> BigInt,
    }
}

diesel::table! {
    allocations (consumer_uuid, provider_uuid, resource_class) {
        consumer_uuid -> Text,
        provider_uuid -> Text,
        resource_class -> Text,
        used -> BigInt,
    }
}

diesel::table! {
    custom_traits (name) {
        name -> Text,
    }
}

diesel::table! {
    custom_resource_classes (name) {
        name -> Text,
    }
}

diesel::allow_tables_to_appear_in_same_query!(allocations, consumers);
