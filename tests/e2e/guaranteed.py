"""A server whose port has guaranteed bandwidth: what it holds of each host's network, by placement, at each phase of its moves."""

ADMIN = "cellshift-admin"
VERSION = ("--os-compute-api-version", "2.93")
EGRESS, PACKETS = "NET_BW_EGR_KILOBIT_PER_SEC", "NET_PACKET_RATE_KILOPACKET_PER_SEC"


def run(cloud):
    agents(cloud)
    policy(cloud)
    server, port = a_server(cloud)
    home = settled(cloud, "the new server", server, port)
    across_and_back(cloud, server, port, home)
    spec = "aggregate_instance_extra_specs:generation=gen1"
    cloud.admin("flavor", "create", "--ram", "2048", "--disk", "1", "--vcpus", "1", "--property", spec, "older")
    confirmed(cloud, server, port, "older", "within its cell")
    confirmed(cloud, server, port, "new", "to another cell")
    elsewhere = live_migrated(cloud, server, port)
    evacuated(cloud, server, port, elsewhere)
    shelved(cloud, server, port)
    cloud.that("it has left its first host", elsewhere != home, home)
    no_room(cloud)
    in_use = cloud.try_openstack("network", "qos", "policy", "delete", "gold", cloud=ADMIN)
    cloud.that("a policy in use is not deleted", "409" in in_use.stderr, in_use.stderr)
    cloud.openstack("server", "delete", "--wait", server)
    cloud.check("a deleted server holds nothing", held(cloud, server), {})
    cloud.openstack("flavor", "delete", "older", cloud=ADMIN)
    for what in (("port", "delete", "golden"), ("port", "delete", "greedy"), ("network", "qos", "policy", "delete", "gold")):
        cloud.openstack(*what, cloud=ADMIN)


def agents(cloud):
    listed = cloud.admin("network", "agent", "list", "--host", "cell1-host1")
    kinds = {agent["Agent Type"] for agent in listed if agent["Alive"]}
    cloud.check("a host has living agents of bridges and of physical functions", kinds, {"Open vSwitch agent", "NIC Switch agent"})
    shown = cloud.admin("network", "agent", "show", listed[0]["ID"])
    cloud.that("an agent shows what it guarantees", "br-physnet0" in str(shown["configuration"]), shown)


def policy(cloud):
    cloud.admin("network", "qos", "policy", "create", "--share", "gold")
    rule = ("network", "qos", "rule", "create", "--type")
    cloud.admin(*rule, "minimum-bandwidth", "--min-kbps", "1000000", "--egress", "gold")
    cloud.admin(*rule, "minimum-packet-rate", "--min-kpps", "1000", "--any", "gold")
    mixed = cloud.try_openstack(*rule, "minimum-packet-rate", "--min-kpps", "1000", "--egress", "gold", cloud=ADMIN)
    cloud.that("packet rates of any and of one direction are not mixed", "409" in mixed.stderr, mixed.stderr)
    rules = {row["Type"] for row in cloud.admin("network", "qos", "rule", "list", "gold")}
    cloud.check("the policy has its rules", rules, {"minimum_bandwidth", "minimum_packet_rate"})


def a_server(cloud):
    port = cloud.ask("port", "create", "--network", "private", "--qos-policy", "gold", "golden")["id"]
    request = cloud.admin("port", "show", "golden")["resource_request"]
    cloud.check("the port asks its host's network", len(request["request_groups"]), 2)
    what = ["--flavor", "old", "--image", "picture", "--port", "golden"]
    early = cloud.try_openstack("--os-compute-api-version", "2.71", "server", "create", *what, "early")
    cloud.that("below 2.72 no server is made with such a port", "400" in early.stderr, early.stderr)
    server = cloud.ask(*VERSION, "server", "create", *what, "--wait", "third")
    cloud.check("the server is active", server["status"], "ACTIVE")
    return server["id"], port


def held(cloud, consumer):
    """What a consumer holds of networks, by the provider's name."""
    placement = ("--os-placement-api-version", "1.28", "resource", "provider")
    names = {row["uuid"]: row["name"] for row in cloud.admin(*placement, "list")}
    rows = cloud.admin(*placement, "allocation", "show", consumer)
    amounts = {names[row["resource_provider"]]: row["resources"] for row in rows}
    return {name: resources for name, resources in amounts.items() if any(of.startswith("NET_") for of in resources)}


def on(host):
    agent = f"{host}:Open vSwitch agent"
    return {agent: {PACKETS: 1000}, f"{agent}:br-physnet0": {EGRESS: 1000000}}


def settled(cloud, when, server, port):
    """Checks that the server holds what its port asks for on its host, and that the port says so. Returns the host."""
    host = cloud.admin("server", "show", server)["OS-EXT-SRV-ATTR:host"]
    cloud.check(f"{when}: placement counts the port on its host alone", held(cloud, server), on(host))
    profile = cloud.admin("port", "show", port)["binding_profile"]
    cloud.check(f"{when}: the port names a provider for each group", len(profile.get("allocation", {})), 2)
    return host


def rests(cloud, what, server, status):
    return cloud.until(f"{what}: {status}", lambda: cloud.admin("server", "show", server)["status"] == status, patience=60)


def across_and_back(cloud, server, port, home):
    cloud.openstack("server", "resize", "--flavor", "new", "--wait", server)
    cloud.that("it crosses to new hardware", settled(cloud, "moved across cells", server, port).startswith("cell2-"))
    (move,) = cloud.admin(*VERSION, "server", "migration", "list", "--server", server)
    cloud.check("the migration keeps the source's network", held(cloud, move["UUID"]), on(home))
    cloud.openstack("server", "resize", "revert", server)
    rests(cloud, "reverted", server, "ACTIVE")
    cloud.check("it is on its host again", settled(cloud, "reverted", server, port), home)
    cloud.check("the migration keeps nothing", held(cloud, move["UUID"]), {})


def confirmed(cloud, server, port, flavor, where):
    home = settled(cloud, f"before its resize {where}", server, port)
    cloud.openstack("server", "resize", "--flavor", flavor, "--wait", server)
    target = settled(cloud, f"resized {where}", server, port)
    same_cell = target.split("-")[0] == home.split("-")[0]
    cloud.that(f"it went {where}", target != home and same_cell == (where == "within its cell"), target)
    move = newest_move(cloud, server)
    cloud.check("the migration keeps the source's network", held(cloud, move["UUID"]), on(home))
    cloud.openstack("server", "resize", "confirm", server)
    rests(cloud, f"confirmed {where}", server, "ACTIVE")
    cloud.check("it stays where it went", settled(cloud, f"confirmed {where}", server, port), target)
    cloud.check("the migration keeps nothing", held(cloud, move["UUID"]), {})


def newest_move(cloud, server):
    return max(cloud.admin(*VERSION, "server", "migration", "list", "--server", server), key=lambda move: move["Created At"])


def evacuated(cloud, server, port, source):
    cloud.openstack("compute", "service", "set", "--down", source, "nova-compute", cloud=ADMIN)
    try:
        cloud.openstack(*VERSION, "server", "evacuate", server, cloud=ADMIN)
        rests(cloud, "the evacuation", server, "ACTIVE")
        cloud.that("it left the host that is down", settled(cloud, "evacuated", server, port) != source, source)
        move = newest_move(cloud, server)["UUID"]
        cloud.until("the host, which answers, gives its part back", lambda: held(cloud, move) == {}, patience=60)
    finally:
        cloud.openstack("compute", "service", "set", "--up", source, "nova-compute", cloud=ADMIN)


def live_migrated(cloud, server, port):
    cloud.openstack(*VERSION, "server", "migrate", "--live-migration", server, cloud=ADMIN)
    rests(cloud, "the live migration", server, "ACTIVE")
    return settled(cloud, "live-migrated", server, port)


def shelved(cloud, server, port):
    cloud.openstack("server", "shelve", "--offload", "--wait", server)
    cloud.check("an offloaded server holds nothing", held(cloud, server), {})
    cloud.check("its port names no provider", cloud.admin("port", "show", port)["binding_profile"].get("allocation"), None)
    cloud.openstack("server", "unshelve", "--wait", server)
    rests(cloud, "the unshelve", server, "ACTIVE")
    settled(cloud, "unshelved", server, port)


def no_room(cloud):
    cloud.admin("network", "qos", "policy", "create", "--share", "greed")
    cloud.admin("network", "qos", "rule", "create", "--type", "minimum-bandwidth", "--min-kbps", "2000000000", "--egress", "greed")
    cloud.ask("port", "create", "--network", "private", "--qos-policy", "greed", "greedy")
    what = ["--flavor", "old", "--image", "picture", "--port", "greedy", "fourth"]
    server = cloud.ask(*VERSION, "server", "create", *what)["id"]
    rests(cloud, "a server that asks for more than any host has", server, "ERROR")
    fault = str(cloud.admin("server", "show", server)["fault"])
    cloud.that("the fault says that no host has it", "No valid host" in fault, fault)
    cloud.openstack("server", "delete", "--wait", server)
