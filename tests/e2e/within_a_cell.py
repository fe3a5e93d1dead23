"""What users and operators do within a cell: a guest that stands still, an image of it, a live migration, an abort that comes too late or in
time, an evacuation from a host that is down, a shelved server that comes back, a host that is drained, and the question where a server
could go."""

ADMIN = "cellshift-admin"
VERSION = ("--os-compute-api-version", "2.93")


def run(cloud, server):
    stands_still(cloud, server)
    live_migrated(cloud, server)
    explained(cloud, server)
    evacuated(cloud, server)
    shelved(cloud, server)
    drained(cloud, server)


def look(cloud, server):
    return cloud.admin("server", "show", server)


def host_of(shown):
    return shown["OS-EXT-SRV-ATTR:host"]


def other_host(cloud, shown):
    """The other host of the server's cell."""
    cell = host_of(shown).split("-")[0]
    hosts = {row["Host"] for row in cloud.admin("compute", "service", "list", "--service", "nova-compute")}
    return next(host for host in sorted(hosts) if host.startswith(cell) and host != host_of(shown))


def rests(cloud, what, server, status):
    def rested():
        shown = look(cloud, server)
        return shown if shown["status"] == status and shown["OS-EXT-STS:task_state"] in (None, "None") else None

    return cloud.until(f"{what}: {status}", rested, patience=60)


def moves(cloud, server):
    return cloud.admin(*VERSION, "server", "migration", "list", "--server", server)


def backed_up(cloud, volume):
    cloud.openstack("volume", "backup", "create", "--name", "nightly", volume)
    ready = lambda: cloud.ask("volume", "backup", "show", "nightly")["status"] == "available"  # noqa: E731
    cloud.until("the backup is made", ready)
    cloud.openstack("volume", "backup", "restore", "--force", "nightly", volume)
    cloud.until("the backup is restored", ready)
    cloud.check("its volume is available", cloud.ask("volume", "show", volume)["status"], "available")
    cloud.openstack("volume", "backup", "delete", "nightly")


def stands_still(cloud, server):
    for away, status, back in (("pause", "PAUSED", "unpause"), ("suspend", "SUSPENDED", "resume")):
        cloud.openstack("server", away, server)
        rests(cloud, away, server, status)
        cloud.openstack("server", back, server)
        rests(cloud, back, server, "ACTIVE")
    log = cloud.openstack("console", "log", "show", server)
    cloud.that("the console shows what the guest wrote", f"guest {server} record" in log, log)
    console = cloud.ask("console", "url", "show", "--serial", server)
    cloud.that("a serial console is a WebSocket", console["url"].startswith("ws://"), console)
    made = cloud.ask("server", "image", "create", "--name", "keepsake", "--wait", server)
    cloud.check("an image of the server is made", (made["name"], made["status"]), ("keepsake", "active"))
    cloud.openstack("image", "delete", "keepsake")


def live_migrated(cloud, server):
    before = look(cloud, server)
    target = other_host(cloud, before)
    cloud.openstack(*VERSION, "server", "migrate", "--live-migration", "--host", target, server, cloud=ADMIN)
    after = rests(cloud, "the live migration", server, "ACTIVE")
    cloud.check("the server runs on the host that was named", host_of(after), target)
    for kept in ("addresses", "volumes_attached", "flavor"):
        cloud.check(f"a live migration keeps {kept}", after[kept], before[kept])
    cloud.that("it is listed as completed", "completed" in {row["Status"] for row in moves(cloud, before["id"])}, moves(cloud, before["id"]))
    late = cloud.try_openstack(*VERSION, "server", "migration", "abort", server, str(moves(cloud, before["id"])[0]["Id"]), cloud=ADMIN)
    cloud.that("an abort after the end is refused", late.returncode != 0, late.stderr)
    elsewhere = cloud.try_openstack(*VERSION, "server", "migrate", "--live-migration", "--host", "cell1-host1", server, cloud=ADMIN)
    cloud.that("a host of another cell is refused", "could not be found" in elsewhere.stderr, elsewhere.stderr)


def explained(cloud, server):
    code, printed, complaint = cloud.run("explain", server, "--data-dir", cloud.data)
    cloud.that("`cellshift explain` judges every host", code == 0 and "fits, weight" in printed and "refused by" in printed, printed + complaint)


def evacuated(cloud, server):
    before = look(cloud, server)
    source, target = host_of(before), other_host(cloud, before)
    early = cloud.try_openstack(*VERSION, "server", "evacuate", server, cloud=ADMIN)
    cloud.that("a host that is up cannot be evacuated", "still in use" in early.stderr, early.stderr)
    cloud.openstack("compute", "service", "set", "--down", source, "nova-compute", cloud=ADMIN)
    try:
        cloud.openstack(*VERSION, "server", "evacuate", "--host", target, server, cloud=ADMIN)
        after = rests(cloud, "the evacuation", server, "ACTIVE")
        cloud.check("the server was built on the other host", host_of(after), target)
        clean = lambda: "completed" in {row["Status"] for row in moves(cloud, before["id"]) if row["Type"] == "evacuation"}  # noqa: E731
        cloud.until("its host, which answers, was cleaned up", clean, patience=60)
    finally:
        cloud.openstack("compute", "service", "set", "--up", source, "nova-compute", cloud=ADMIN)


def shelved(cloud, server):
    before = look(cloud, server)
    cloud.openstack("server", "shelve", server)
    rests(cloud, "the shelve", server, "SHELVED_OFFLOADED")
    cloud.openstack("volume", "create", "--size", "1", "for-later")
    cloud.openstack("server", "add", "volume", server, "for-later")
    status = lambda: cloud.ask("volume", "show", "for-later")["status"]  # noqa: E731
    cloud.until("a shelved server has a volume", lambda: status() == "in-use")
    holders = [one["server_id"] for one in cloud.ask("volume", "show", "for-later")["attachments"]]
    cloud.check("the volume names the shelved server", holders, [before["id"]])
    cloud.openstack("server", "unshelve", server)
    rests(cloud, "the unshelve", server, "ACTIVE")
    cloud.until("the server that runs again has it", lambda: status() == "in-use")
    cloud.openstack("server", "remove", "volume", server, "for-later")
    cloud.until("it is taken off again", lambda: status() == "available")
    backed_up(cloud, "for-later")
    cloud.openstack("volume", "delete", "for-later")
    for kept in ("addresses", "volumes_attached", "flavor"):
        cloud.check(f"shelving keeps {kept}", look(cloud, server)[kept], before[kept])


def drained(cloud, server):
    before = look(cloud, server)
    source, target = host_of(before), other_host(cloud, before)
    code, printed, complaint = cloud.run("drain", source, "--dry-run", "--data-dir", cloud.data)
    cloud.that("a dry run says where the server would go", code == 0 and target in printed, printed + complaint)
    cloud.check("and moves nothing", host_of(look(cloud, server)), source)
    code, printed, complaint = cloud.run("drain", source, "--data-dir", cloud.data)
    cloud.that("`cellshift drain` empties the host", code == 0, printed + complaint)
    after = rests(cloud, "the drained server", server, "ACTIVE")
    cloud.check("the server moved live to the other host", host_of(after), target)
    cloud.openstack("compute", "service", "set", "--enable", source, "nova-compute", cloud=ADMIN)
