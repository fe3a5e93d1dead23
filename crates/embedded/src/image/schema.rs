//! The tables of the embedded image service.

diesel::table! {
    images (id) {
        id -> Text,
        name -> Nullable<Text>,
        status -> Text,
        visibility -> Text,
        owner -> Text,
        disk_format -> Nullable<Text>,
        container_format -> Nullable<Text>,
        min_disk -> Integer,
        min_ram -> Integer,
        size -> Nullable<BigInt>,
        os_hash_value -> Nullable<Text>,
        protected -> Bool,
        hidden -> Bool,
        properties -> Text,
        tags -> Text,
        created_at -> Timestamp,
        updated_at -> Timestamp,
    }
}

diesel::table! {
    image_members (image_id, member_id) {
        image_id -> Text,
        member_id -> Text,
        status -> Text,
        created_at -> Timestamp,
        updated_at -> Timestamp,
    }
}

diesel::table! {
    image_tasks (id) {
        id -> Text,
        image_id -> Text,
        owner -> Text,
        user_id -> Text,
        request_id -> Text,
        method -> Text,
        created_at -> Timestamp,
        expires_at -> Timestamp,
    }
}

diesel::allow_tables_to_appear_in_same_query!(images, image_members);
