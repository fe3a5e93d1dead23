//! The network service's tables.

diesel::table! {
    networks (id) {
        number -> Integer,
        id -> Text,
        name -> Text,
        project_id -> Text,
        description -> Text,
        admin_state_up -> Bool,
        shared -> Bool,
        external -> Bool,
        mtu -> Integer,
        network_type -> Nullable<Text>,
        physical_network -> Nullable<Text>,
        segmentation_id -> Nullable<Integer>,
        qos_policy_id -> Nullable<Text>,
        port_security_enabled -> Bool,
        tags -> Text,
        created_at -> Timestamp,
        updated_at -> Timestamp,
    }
}

diesel::table! {
    subnets (id) {
        number -> Integer,
        id -> Text,
        network_id -> Text,
        name -> Text,
        project_id -> Text,
        description -> Text,
        ip_version -> Integer,
        cidr -> Text,
        gateway_ip -> Nullable<Text>,
        allocation_pools -> Text,
        dns_nameservers -> Text,
        host_routes -> Text,
        enable_dhcp -> Bool,
        tags -> Text,
        next_address -> Nullable<Text>,
        created_at -> Timestamp,
        updated_at -> Timestamp,
        subnetpool_id -> Nullable<Text>,
    }
}

diesel::table! {
    subnet_pools (id) {
        number -> Integer,
        id -> Text,
        name -> Text,
        project_id -> Text,
        description -> Text,
        ip_version -> Integer,
        prefixes -> Text,
        default_prefixlen -> Integer,
        min_prefixlen -> Integer,
        max_prefixlen -> Integer,
        default_quota -> Nullable<Integer>,
        shared -> Bool,
        is_default -> Bool,
        tags -> Text,
        created_at -> Timestamp,
        updated_at -> Timestamp,
    }
}

diesel::table! {
    ports (id) {
        number -> Integer,
        id -> Text,
        network_id -> Text,
        name -> Text,
        project_id -> Text,
        description -> Text,
        mac_address -> Text,
        admin_state_up -> Bool,
        device_id -> Text,
        device_owner -> Text,
        vnic_type -> Text,
        profile -> Text,
        security_groups -> Text,
        allowed_address_pairs -> Text,
        extra_dhcp_opts -> Text,
        port_security_enabled -> Bool,
        qos_policy_id -> Nullable<Text>,
        tags -> Text,
        revision_number -> Integer,
        created_at -> Timestamp,
        updated_at -> Timestamp,
        server_id -> Nullable<Text>,
        router_id -> Nullable<Text>,
    }
}

diesel::table! {
    port_addresses (subnet_id, ip_address) {
        subnet_id -> Text,
        ip_address -> Text,
        port_id -> Text,
        place -> Integer,
    }
}

diesel::table! {
    port_bindings (port_id, host) {
        port_id -> Text,
        host -> Text,
        status -> Text,
        vnic_type -> Text,
        vif_type -> Text,
        profile -> Text,
        plugged -> Bool,
    }
}

diesel::table! {
    routers (id) {
        number -> Integer,
        id -> Text,
        name -> Text,
        project_id -> Text,
        description -> Text,
        admin_state_up -> Bool,
        enable_snat -> Bool,
        routes -> Text,
        tags -> Text,
        revision_number -> Integer,
        created_at -> Timestamp,
        updated_at -> Timestamp,
    }
}

diesel::table! {
    floating_ips (id) {
        number -> Integer,
        id -> Text,
        project_id -> Text,
        description -> Text,
        floating_network_id -> Text,
        floating_ip_address -> Text,
        floating_port_id -> Text,
        port_id -> Nullable<Text>,
        fixed_ip_address -> Nullable<Text>,
        router_id -> Nullable<Text>,
        tags -> Text,
        revision_number -> Integer,
        created_at -> Timestamp,
        updated_at -> Timestamp,
    }
}

diesel::table! {
    security_groups (id) {
        number -> Integer,
        id -> Text,
        name -> Text,
        project_id -> Text,
        description -> Text,
        stateful -> Bool,
        is_default -> Bool,
        tags -> Text,
        created_at -> Timestamp,
        updated_at -> Timestamp,
    }
}

diesel::table! {
    security_group_rules (id) {
        number -> Integer,
        id -> Text,
        security_group_id -> Text,
        project_id -> Text,
        direction -> Text,
        ethertype -> Text,
        protocol -> Nullable<Text>,
        port_range_min -> Nullable<Integer>,
        port_range_max -> Nullable<Integer>,
        remote_ip_prefix -> Nullable<Text>,
        remote_group_id -> Nullable<Text>,
        description -> Text,
        created_at -> Timestamp,
    }
}

diesel::table! {
    qos_policies (id) {
        number -> Integer,
        id -> Text,
        name -> Text,
        project_id -> Text,
        description -> Text,
        shared -> Bool,
        is_default -> Bool,
        tags -> Text,
        created_at -> Timestamp,
        updated_at -> Timestamp,
    }
}

diesel::table! {
    qos_rules (id) {
        number -> Integer,
        id -> Text,
        policy_id -> Text,
        kind -> Text,
        direction -> Text,
        amount -> BigInt,
        burst -> Nullable<BigInt>,
    }
}

diesel::table! {
    network_quotas (project_id, resource) {
        project_id -> Text,
        resource -> Text,
        hard_limit -> BigInt,
    }
}

diesel::table! {
    network_quota_turns (project_id) {
        project_id -> Text,
        turns -> BigInt,
    }
}
diesel::allow_tables_to_appear_in_same_query!(ports, port_bindings, port_addresses);
