//! The built-in names: standard resource classes, and the standard traits that this control plane's hosts and networks use. All other names
//! are `CUSTOM_…`.

/// Standard resource classes.
pub const RESOURCE_CLASSES: &[&str] = &[
    "VCPU",
    "MEMORY_MB",
    "DISK_GB",
    "PCI_DEVICE",
    "SRIOV_NET_VF",
    "NUMA_SOCKET",
    "NUMA_CORE",
    "NUMA_THREAD",
    "NUMA_MEMORY_MB",
    "IPV4_ADDRESS",
    "VGPU",
    "VGPU_DISPLAY_HEAD",
    "NET_BW_EGR_KILOBIT_PER_SEC",
    "NET_BW_IGR_KILOBIT_PER_SEC",
    "PCPU",
    "MEM_ENCRYPTION_CONTEXT",
    "FPGA",
    "PGPU",
    "NET_PACKET_RATE_KILOPACKET_PER_SEC",
    "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
    "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
];

/// Standard traits.
pub const TRAITS: &[&str] = &[
    "COMPUTE_ACCELERATORS",
    "COMPUTE_ADDRESS_SPACE_EMULATED",
    "COMPUTE_ADDRESS_SPACE_PASSTHROUGH",
    "COMPUTE_CONFIG_DRIVE_REGENERATION",
    "COMPUTE_DEVICE_TAGGING",
    "COMPUTE_EPHEMERAL_ENCRYPTION",
    "COMPUTE_IMAGE_TYPE_ISO",
    "COMPUTE_IMAGE_TYPE_QCOW2",
    "COMPUTE_IMAGE_TYPE_RAW",
    "COMPUTE_MIGRATE_AUTO_CONVERGE",
    "COMPUTE_MIGRATE_POST_COPY",
    "COMPUTE_NET_ATTACH_INTERFACE",
    "COMPUTE_NET_ATTACH_INTERFACE_WITH_TAG",
    "COMPUTE_NODE",
    "COMPUTE_RESCUE_BFV",
    "COMPUTE_SAME_HOST_COLD_MIGRATE",
    "COMPUTE_SECURITY_UEFI_SECURE_BOOT",
    "COMPUTE_STATUS_DISABLED",
    "COMPUTE_STORAGE_BUS_VIRTIO",
    "COMPUTE_TRUSTED_CERTS",
    "COMPUTE_VOLUME_ATTACH_WITH_TAG",
    "COMPUTE_VOLUME_EXTEND",
    "COMPUTE_VOLUME_MULTI_ATTACH",
    "HW_CPU_HYPERTHREADING",
    "HW_CPU_X86_AVX",
    "HW_CPU_X86_AVX2",
    "HW_CPU_X86_AVX512F",
    "HW_CPU_X86_SSE42",
    "HW_CPU_X86_VMX",
    "HW_CPU_X86_SVM",
    "HW_NUMA_ROOT",
    "MISC_SHARES_VIA_AGGREGATE",
    "STORAGE_DISK_HDD",
    "STORAGE_DISK_SSD",
];

/// True for `CUSTOM_` and at least one of A-Z, 0-9 and `_`, with at most 255 characters in all.
pub fn is_custom(name: &str) -> bool {
    name.len() <= 255
        && name
            .strip_prefix("CUSTOM_")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_'))
}
