"""A network behind a router, and a floating IP that leads to a server on it and follows the server into another cell."""

ADMIN = "cellshift-admin"


def run(cloud):
    a_router(cloud)
    server = cloud.ask("server", "create", "--flavor", "old", "--image", "tiny", "--network", "inner", "--wait", "routed")["id"]
    inner = cloud.ask("server", "show", server)["addresses"]["inner"]
    sample = cloud.ask("floating", "ip", "create", "public")
    cloud.check("the default cloud has floating IPs", sample["floating_ip_address"].rsplit(".", 1)[0], "172.24.4")
    cloud.openstack("floating", "ip", "delete", sample["id"])
    floating = cloud.ask("floating", "ip", "create", "--description", "web", "outer")
    cloud.check("a floating IP leads nowhere at first", floating["status"], "DOWN")
    address = floating["floating_ip_address"]
    cloud.openstack("server", "add", "floating", "ip", server, address)
    both = [*inner, address]
    shows(cloud, "the server shows its floating IP", server, both)
    listed = {row["Name"]: row["Networks"] for row in cloud.ask("server", "list")}
    cloud.check("the list shows it too", listed["routed"], {"inner": both})
    row = cloud.ask("floating", "ip", "show", address)
    cloud.check("it is active", (row["status"], row["fixed_ip_address"]), ("ACTIVE", inner[0]))
    across(cloud, server, both)
    cut_off(cloud, server, inner, address)


def a_router(cloud):
    cloud.admin("network", "create", "--external", "outer")
    cloud.admin("subnet", "create", "--network", "outer", "--subnet-range", "203.0.113.0/24", "--no-dhcp", "outer")
    cloud.ask("network", "create", "inner")
    cloud.ask("subnet", "create", "--network", "inner", "--subnet-range", "10.66.0.0/24", "inner")
    made = cloud.ask("router", "create", "edge")
    cloud.check("a new router has no gateway", made["external_gateway_info"], None)
    cloud.openstack("router", "set", "--external-gateway", "outer", "edge")
    cloud.openstack("router", "add", "subnet", "edge", "inner")
    shown = cloud.ask("router", "show", "edge")
    gateway = shown["external_gateway_info"]["external_fixed_ips"][0]["ip_address"]
    cloud.that("the gateway has an address outside", gateway.startswith("203.0.113."), gateway)
    cloud.check("the interface is the subnet's gateway", [port["ip_address"] for port in shown["interfaces_info"]], ["10.66.0.1"])
    cloud.openstack("router", "add", "route", "--route", "destination=10.99.0.0/24,gateway=10.66.0.9", "edge")
    routes = cloud.ask("router", "show", "edge")["routes"]
    cloud.check("the router has the route", routes, [{"destination": "10.99.0.0/24", "nexthop": "10.66.0.9"}])
    cloud.openstack("router", "remove", "route", "--route", "destination=10.99.0.0/24,gateway=10.66.0.9", "edge")


def shows(cloud, what, server, addresses):
    cloud.check(what, cloud.ask("server", "show", server)["addresses"], {"inner": addresses})


def across(cloud, server, both):
    cloud.openstack("server", "resize", "--flavor", "new", "--wait", server)
    moved = cloud.admin("server", "show", server)
    cloud.that("the server crosses", moved["OS-EXT-SRV-ATTR:host"].startswith("cell2-"), moved["OS-EXT-SRV-ATTR:host"])
    cloud.openstack("server", "resize", "confirm", server)
    cloud.until("confirmed", lambda: cloud.ask("server", "show", server)["status"] == "ACTIVE")
    shows(cloud, "the floating IP follows it into another cell", server, both)


def cut_off(cloud, server, inner, address):
    for what, refused in (
        ("an interface that a floating IP needs stays", ("router", "remove", "subnet", "edge", "inner")),
        ("a gateway that a floating IP needs stays", ("router", "unset", "--external-gateway", "edge")),
        ("a router with interfaces stays", ("router", "delete", "edge")),
    ):
        done = cloud.try_openstack(*refused)
        cloud.that(what, done.returncode != 0 and "409" in done.stderr, done.stderr)
    cloud.openstack("server", "remove", "floating", "ip", server, address)
    shows(cloud, "the floating IP is gone", server, inner)
    cloud.openstack("floating", "ip", "set", "--port", port_of(cloud, server), address)
    cloud.openstack("server", "delete", "--wait", server)
    cloud.check("it is free when its server is deleted", cloud.ask("floating", "ip", "show", address)["status"], "DOWN")
    cloud.openstack("floating", "ip", "delete", address)
    cloud.openstack("router", "remove", "subnet", "edge", "inner")
    cloud.openstack("router", "unset", "--external-gateway", "edge")
    cloud.openstack("router", "delete", "edge")
    cloud.openstack("network", "delete", "inner")
    cloud.openstack("network", "delete", "outer", cloud=ADMIN)


def port_of(cloud, server):
    return cloud.ask("port", "list", "--server", server)[0]["ID"]
