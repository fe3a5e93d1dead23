"""Tempest's configuration for a running service with DevStack's names."""

import configparser
import io

import openstack
import yaml
from openstack.config import OpenStackConfig

# What the service has and has not; each name is Tempest's.
FEATURES = {
    "identity-feature-enabled": {"api_v2": False, "domain_specific_drivers": False, "trust": False, "access_rules": False},
    "compute-feature-enabled": {
        "resize": True,
        "cold_migration": True,
        "live_migration": True,
        "block_migration_for_live_migration": True,
        "live_migrate_back_and_forth": True,
        "vnc_console": False,
        "spice_console": False,
        "serial_console": True,
        "rescue": True,
        "snapshot": True,
        "interface_attach": True,
        "swap_volume": False,
        "shelve": True,
        "shelve_migrate": True,
        "unified_limits": False,
    },
    # Guests are simulated: nobody can log into one.
    "validation": {"run_validation": False},
    "service_available": {"cinder": True, "glance": True, "neutron": True, "nova": True, "swift": False, "horizon": False},
}


def of(cloud, work):
    """The text of tempest.conf."""
    file = cloud.data / "clouds.yaml"
    admin = yaml.safe_load(file.read_text())["clouds"]["devstack-admin"]["auth"]
    known = OpenStackConfig(config_files=[str(file)]).get_one(cloud="devstack-admin")
    with openstack.connection.Connection(config=known) as there:
        image = next(there.image.images()).id
        public = there.network.find_network("public", ignore_missing=False).id
        extensions = ",".join(extension.alias for extension in there.network.extensions())
    sections = {
        "DEFAULT": {"log_file": work / "tempest.log"},
        "oslo_concurrency": {"lock_path": work / "locks"},
        "auth": {
            "use_dynamic_credentials": True,
            "admin_username": admin["username"],
            "admin_password": admin["password"],
            "admin_project_name": admin["project_name"],
            "admin_domain_name": "Default",
            "create_isolated_networks": True,
        },
        "identity": {"auth_version": "v3", "uri_v3": admin["auth_url"] + "/v3", "region": "RegionOne"},
        "compute": {
            "image_ref": image,
            "image_ref_alt": image,
            "flavor_ref": "1",
            "flavor_ref_alt": "2",
            "min_compute_nodes": 2,
            "min_microversion": "2.1",
            "max_microversion": "latest",
            "build_timeout": 120,
            "build_interval": 1,
        },
        "network": {"public_network_id": public, "floating_network_name": "public"},
        "network-feature-enabled": {"api_extensions": extensions},
        "volume": {
            "build_timeout": 120,
            "build_interval": 1,
            "min_microversion": "3.0",
            "max_microversion": "latest",
            "vendor_name": "cellshift",
            "storage_protocol": "file",
            "disk_format": "raw",
        },
        "placement": {"min_microversion": "1.0", "max_microversion": "latest"},
        # Nothing fetches from elsewhere.
        "image": {"http_image": ""},
        **FEATURES,
    }
    config = configparser.ConfigParser(interpolation=None)
    config.read_dict({name: {key: str(value) for key, value in keys.items()} for name, keys in sections.items()})
    text = io.StringIO()
    config.write(text)
    return text.getvalue()
