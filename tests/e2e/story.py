"""What an operator does: an image, a network, flavors, a volume, servers; moves across cells that are confirmed, reverted and
that fail; the records of it all; the audit; a restart."""

import hashlib
import json
import os

import guaranteed
import routed
import within_a_cell

RULE = '"compute:servers:resize:cross_cell": "rule:project_member_or_admin"\n'
IMAGE_BYTES = 3 * 1024 * 1024
TARGETS = ["cell2-host1", "cell2-host2"]


def run(cloud):
    cloud.start()
    picture = cloud.work / "picture"
    picture.write_bytes(os.urandom(IMAGE_BYTES))
    the_clouds_own_things(cloud)
    image, port, volume = resources(cloud, picture)
    server = a_server(cloud, image, port, volume)
    not_across_cells_unless_allowed(cloud, server)
    (cloud.data / "policy.yaml").open("a").write(RULE)
    before = look(cloud, server)
    across_and_confirmed(cloud, server, before, picture)
    second = across_and_reverted(cloud)
    no_target_host_is_up(cloud, second)
    the_target_host_fails(cloud, second)
    every_day(cloud, server, volume)
    within_a_cell.run(cloud, server)
    guaranteed.run(cloud)
    routed.run(cloud)
    records(cloud, server)
    clean(cloud)
    a_restart_keeps_everything(cloud, [server, second])
    deleted(cloud, [server, second], port, volume)
    clean(cloud)
    cloud.stop()
    clean(cloud)


def names(rows, column="Name"):
    return {row[column] for row in rows}


def look(cloud, server):
    """The server as its administrator sees it."""
    return cloud.admin("server", "show", server)


def host_of(shown):
    return shown["OS-EXT-SRV-ATTR:host"]


def comes_back(cloud, what, server, status, host):
    def rested():
        shown = look(cloud, server)
        return shown if shown["status"] == status and shown["OS-EXT-STS:task_state"] in (None, "None") else None

    shown = cloud.until(f"{what}: {status}", rested)
    cloud.check(f"{what}: on {host}", host_of(shown), host)
    return shown


def clean(cloud):
    code, printed, complaint = cloud.run("audit", "--data-dir", cloud.data)
    cloud.that("the audit finds nothing wrong", code == 0, f"exit code {code}\n{printed}{complaint}")


def the_clouds_own_things(cloud):
    services = {row["Type"] for row in cloud.ask("catalog", "list")}
    cloud.that("the catalog has the services", {"compute", "identity", "image", "network", "placement"} <= services, services)
    flavors = names(cloud.ask("flavor", "list"))
    cloud.that("the flavors are there", {"gen1.small", "gen1.large", "gen2.small", "gen2.large", "m1.tiny", "m1.small"} <= flavors, flavors)
    hosts = sorted(row["Hypervisor Hostname"] for row in cloud.admin("hypervisor", "list"))
    cloud.check("the hypervisors are listed", hosts, ["cell1-host1", "cell1-host2", *TARGETS])
    computes = [row for row in cloud.admin("compute", "service", "list") if row["Binary"] == "nova-compute"]
    cloud.check("every compute service is up", [row["State"] for row in computes], ["up"] * 4)
    zones = names(cloud.ask("availability", "zone", "list", "--compute"), "Zone Name")
    cloud.that("a zone per cell", {"cell1", "cell2"} <= zones, zones)
    cloud.that("the aggregates are there", {"gen1", "gen2"} <= names(cloud.admin("aggregate", "list")))
    versions = cloud.ask("versions", "show", "--service", "compute")
    cloud.that("the compute API is discovered", any(row["Version"] == "2.1" for row in versions), versions)


def resources(cloud, picture):
    image = cloud.ask("image", "create", "--file", picture, "--disk-format", "raw", "--container-format", "bare", "picture")
    cloud.check("the image is active", image["status"], "active")
    cloud.check("the image has its size", image["size"], IMAGE_BYTES)
    cloud.openstack("image", "save", "--file", cloud.work / "saved", "picture")
    cloud.check("the image comes back as it went", digest(cloud.work / "saved"), digest(picture))
    cloud.ask("network", "create", "net")
    cloud.ask("subnet", "create", "--network", "net", "--subnet-range", "10.77.0.0/24", "sub")
    port = cloud.ask("port", "create", "--network", "net", "port")
    cloud.check("the port has an address", port["fixed_ips"][0]["ip_address"].startswith("10.77.0."), True)
    volume = cloud.ask("volume", "create", "--size", "1", "volume")["id"]
    cloud.until("the volume is available", lambda: cloud.ask("volume", "show", volume)["status"] == "available")
    made = cloud.ask("image", "create", "--volume", volume, "of-the-volume")["image_id"]
    cloud.until("the volume's image is active", lambda: cloud.ask("image", "show", made)["status"] == "active")
    cloud.openstack("image", "delete", made)
    for name, generation in (("old", "gen1"), ("new", "gen2")):
        spec = f"aggregate_instance_extra_specs:generation={generation}"
        cloud.admin("flavor", "create", "--ram", "1024", "--disk", "1", "--vcpus", "1", "--property", spec, name)
    shown = cloud.admin("flavor", "show", "new")
    cloud.check("the flavor keeps its extra specs", shown["properties"], {"aggregate_instance_extra_specs:generation": "gen2"})
    cloud.openstack("keypair", "create", "--private-key", cloud.work / "key", "key")
    cloud.that("the key pair is listed", "key" in names(cloud.ask("keypair", "list")))
    return image["id"], port, volume


def a_server(cloud, image, port, volume):
    disk = f"uuid={volume},source_type=volume,destination_type=volume,boot_index=-1"
    what = ["--flavor", "old", "--image", image, "--port", "port", "--block-device", disk, "--key-name", "key", "--property", "role=database"]
    server = cloud.ask("server", "create", *what, "--wait", "first")
    cloud.check("the server is active", server["status"], "ACTIVE")
    shown = look(cloud, server["id"])
    cloud.that("on old hardware", host_of(shown).startswith("cell1-"), host_of(shown))
    cloud.check("its address is the port's", shown["addresses"], {"net": [port["fixed_ips"][0]["ip_address"]]})
    cloud.check("its volume is attached", [attached["id"] for attached in shown["volumes_attached"]], [volume])
    cloud.check("its metadata is kept", shown["properties"], {"role": "database"})
    cloud.check("its key is kept", shown["key_name"], "key")
    cloud.that("it is listed", "first" in names(cloud.ask("server", "list")))
    return server["id"]


def resize(cloud, server, flavor):
    return cloud.openstack("server", "resize", "--flavor", flavor, "--wait", server)


def not_across_cells_unless_allowed(cloud, server):
    before = look(cloud, server)
    cloud.try_openstack("server", "resize", "--flavor", "new", server)
    comes_back(cloud, "a resize that may not leave its cell", server, "ACTIVE", host_of(before))


def across_and_confirmed(cloud, server, before, picture):
    moved = cloud.until("the resize is accepted once the policy allows it", lambda: crosses(cloud, server))
    cloud.check("the move waits for its confirmation", moved["status"], "VERIFY_RESIZE")
    cloud.that("on new hardware", host_of(moved).startswith("cell2-"), host_of(moved))
    cloud.openstack("server", "resize", "confirm", server)
    after = comes_back(cloud, "confirmed", server, "ACTIVE", host_of(moved))
    for kept in ("addresses", "volumes_attached", "properties", "key_name", "name", "created"):
        cloud.check(f"the move keeps {kept}", after[kept], before[kept])
    port = cloud.admin("port", "show", "port")
    cloud.check("the port is bound to the new host", port["binding_host_id"], host_of(after))
    cloud.check("the port is up", port["status"], "ACTIVE")
    cloud.check("the volume is in use", cloud.ask("volume", "show", "volume")["status"], "in-use")
    disks = list((cloud.data / "cells").glob(f"*/hosts/*/guests/{server}/disk"))
    cloud.check("its disk is on one host only", [disk.parts[-4] for disk in disks], [host_of(after)])
    with open(disks[0], "rb") as disk:
        cloud.check("its disk begins with the image", hashlib.sha256(disk.read(IMAGE_BYTES)).hexdigest(), digest(picture))


def crosses(cloud, server):
    """The policy file is read again within seconds: until then the resize ends where it began."""
    resize(cloud, server, "new")
    shown = look(cloud, server)
    return shown if shown["status"] == "VERIFY_RESIZE" else None


def across_and_reverted(cloud):
    what = ["--flavor", "old", "--image", "picture", "--boot-from-volume", "1", "--network", "net"]
    server = cloud.ask("server", "create", *what, "--wait", "second")["id"]
    before = look(cloud, server)
    resize(cloud, server, "new")
    moved = look(cloud, server)
    cloud.check("a server that boots from a volume crosses too", moved["status"], "VERIFY_RESIZE")
    cloud.that("on new hardware", host_of(moved).startswith("cell2-"), host_of(moved))
    cloud.openstack("server", "resize", "revert", server)
    after = comes_back(cloud, "reverted", server, "ACTIVE", host_of(before))
    for kept in ("addresses", "volumes_attached", "flavor", "name", "created"):
        cloud.check(f"the revert brings back {kept}", after[kept], before[kept])
    states = {row["Status"] for row in cloud.admin("server", "migration", "list", "--server", server)}
    cloud.check("the migration is reverted", states, {"reverted"})
    reimaged(cloud, server, after)
    return server


def reimaged(cloud, server, before):
    """The root volume gets another image's bytes; server and volume keep their ids."""
    wanted = ["--os-compute-api-version", "2.93", "server", "rebuild", "--image", "tiny", "--reimage-boot-volume", "--wait", server]
    cloud.openstack(*wanted)
    rebuilt = look(cloud, server)
    cloud.check("rebuilt on its volume", (rebuilt["status"], rebuilt["volumes_attached"]), ("ACTIVE", before["volumes_attached"]))
    volume = cloud.ask("volume", "show", rebuilt["volumes_attached"][0]["id"])
    cloud.check("the volume is of the new image", volume["volume_image_metadata"]["image_name"], "tiny")


def no_target_host_is_up(cloud, second):
    before = look(cloud, second)
    for host in TARGETS:
        cloud.openstack("compute", "service", "set", "--down", host, "nova-compute", cloud="cellshift-admin")
    down = {row["Host"] for row in cloud.admin("compute", "service", "list") if row["State"] == "down"}
    cloud.check("the hosts are shown as down", down, set(TARGETS))
    cloud.try_openstack("server", "resize", "--flavor", "new", second)
    comes_back(cloud, "a resize that no host takes", second, "ACTIVE", host_of(before))
    reason = last_event(cloud, second)
    cloud.check("the event says so", (reason["action"], reason["message"]), ("resize", "Error"))
    for host in TARGETS:
        cloud.openstack("compute", "service", "set", "--up", host, "nova-compute", cloud="cellshift-admin")
    cloud.until("the hosts are up again", lambda: all(row["State"] == "up" for row in cloud.admin("compute", "service", "list")))


def the_target_host_fails(cloud, second):
    """A file stands where the target hosts keep their guests, so that everything they try for a guest fails."""
    guests = [cloud.data / "cells" / "cell2" / "hosts" / host / "guests" for host in TARGETS]
    cloud.openstack("server", "stop", second)
    before = cloud.until("the server is stopped", lambda: stopped(look(cloud, second)))
    for directory in guests:
        directory.rename(directory.with_name("guests-away"))
        directory.write_text("")
    try:
        cloud.try_openstack("server", "resize", "--flavor", "new", second)
        after = comes_back(cloud, "a move whose target host fails", second, "SHUTOFF", host_of(before))
    finally:
        for directory in guests:
            directory.unlink()
            directory.with_name("guests-away").rename(directory)
    for kept in ("addresses", "volumes_attached", "flavor"):
        cloud.check(f"the rollback keeps {kept}", after[kept], before[kept])
    states = [row["Status"] for row in cloud.admin("server", "migration", "list", "--server", before["id"])]
    cloud.that("the migration is an error", "error" in states, states)
    resize(cloud, second, "new")
    cloud.check("the same move works afterwards", look(cloud, second)["status"], "VERIFY_RESIZE")
    cloud.openstack("server", "resize", "confirm", second)
    cloud.until("confirmed, and still stopped", lambda: stopped(look(cloud, second)))


def stopped(shown):
    return shown if shown["status"] == "SHUTOFF" and shown["OS-EXT-STS:task_state"] in (None, "None") else None


def every_day(cloud, server, volume):
    active = lambda: look(cloud, server)["status"] == "ACTIVE" and look(cloud, server)["OS-EXT-STS:task_state"] in (None, "None")  # noqa: E731
    cloud.openstack("server", "stop", server)
    cloud.until("stopped", lambda: stopped(look(cloud, server)))
    cloud.openstack("server", "start", server)
    cloud.until("started", active)
    for kind in ("--soft", "--hard"):
        cloud.openstack("server", "reboot", kind, "--wait", server)
        cloud.until(f"rebooted ({kind})", active)
    cloud.openstack("server", "remove", "volume", server, volume)
    cloud.until("the volume is detached", lambda: cloud.ask("volume", "show", volume)["status"] == "available")
    cloud.openstack("server", "add", "volume", server, volume)
    cloud.until("the volume is attached again", lambda: cloud.ask("volume", "show", volume)["status"] == "in-use")
    cloud.openstack("server", "rebuild", "--image", "tiny", "--wait", server)
    cloud.until("rebuilt", active)
    cloud.openstack("server", "set", "--property", "tier=gold", server)
    cloud.check("metadata is set", look(cloud, server)["properties"], {"role": "database", "tier": "gold"})


def last_event(cloud, server):
    events = cloud.admin("server", "event", "list", "--long", server)
    event = cloud.admin("server", "event", "show", server, events[0]["Request ID"])
    return {"action": event["action"], "message": event["message"]}


def records(cloud, server):
    listed = {row["Name"]: row["Status"] for row in cloud.ask("server", "list")}
    cloud.check("the servers are listed", listed, {"first": "ACTIVE", "second": "SHUTOFF"})
    everywhere = names(cloud.admin("server", "list", "--all-projects", "--long"))
    cloud.check("an administrator lists those of all projects", everywhere, {"first", "second"})
    actions = [row["Action"] for row in cloud.ask("server", "event", "list", server)]
    cloud.that("the events are listed", {"create", "resize", "confirmResize", "stop", "start", "reboot", "rebuild"} <= set(actions), actions)
    migrations = cloud.admin("server", "migration", "list")
    cloud.that("the migrations are listed", {"confirmed", "reverted", "error"} <= names(migrations, "Status"), migrations)
    hypervisor = cloud.admin("hypervisor", "show", host_of(look(cloud, server)))
    cloud.check("a hypervisor is shown", (hypervisor["state"], hypervisor["status"]), ("up", "enabled"))
    code, printed, complaint = cloud.run("migrations", "--output", "json", "--data-dir", cloud.data)
    cloud.that("`cellshift migrations` lists them", code == 0 and server in printed, printed + complaint)
    missing = cloud.try_openstack("server", "show", "no-such-server")
    cloud.that("an unknown server is an error", missing.returncode != 0 and "No Server found" in missing.stderr + missing.stdout, missing.stderr)


def a_restart_keeps_everything(cloud, servers):
    before = {server: look(cloud, server) for server in servers}
    cloud.stop()
    clean(cloud)
    cloud.start()
    for server, shown in before.items():
        again = cloud.until(f"{shown['name']} is back after the restart", lambda: same(look(cloud, server), shown))
        cloud.check(f"{shown['name']} is where it was", host_of(again), host_of(shown))
    cloud.openstack("image", "save", "--file", cloud.work / "saved-again", "picture")
    cloud.check("the image is kept", digest(cloud.work / "saved-again"), digest(cloud.work / "saved"))
    cloud.that("the flavors are kept", {"old", "new"} <= names(cloud.ask("flavor", "list")))
    cloud.that("the network is kept", "net" in names(cloud.ask("network", "list")))


def same(shown, before):
    kept = ("status", "addresses", "volumes_attached", "flavor", "properties", "key_name")
    return shown if all(json.dumps(shown[key]) == json.dumps(before[key]) for key in kept) else None


def deleted(cloud, servers, port, volume):
    cloud.openstack("server", "delete", "--wait", *servers)
    cloud.check("no server is left", cloud.ask("server", "list"), [])
    cloud.until("the volume is available again", lambda: cloud.ask("volume", "show", volume)["status"] == "available")
    port = cloud.admin("port", "show", port["id"])
    cloud.check("the port that was given is left, unbound", (port["device_id"], port["binding_host_id"]), ("", ""))
    cloud.openstack("volume", "delete", volume)
    cloud.openstack("port", "delete", "port")
    guests = list((cloud.data / "cells").glob("*/hosts/*/guests/*/disk"))
    cloud.check("no guest is left on any host", guests, [])


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()
