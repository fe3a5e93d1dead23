"""What operators and members do with the page: each story begins where the one before ended."""


from page_stories import servers
from page_stories.api import Api, passwords

# Slow enough for eyes.
CONFIG = """
[chaos]
enabled = true
[cells]
probe_interval = 0.5
timeout = 1
[compute.latency_ms]
copy_disks = 1000
define = 1400
start = 200
[compute.live_migration]
bandwidth_mib = 128
dirty_rate_mib = 5
"""
RULE = '"compute:servers:resize:cross_cell": "rule:project_member_or_admin"\n'
EXPERIMENT = """
title = "The target host loses its power while the guest is being built"
description = "The move goes back, and what the host could not be told is paid when it is there again."
seed = 1
[topology]
cells = 2
hosts_per_cell = 2
[[workload.journeys]]
servers = 1
flavor = "gen1.small"
acts = [{ resize = "gen2.small" }]
[[faults]]
when = { step = "prepare_at_target", saga = "resize" }
what = { host_off = { host = "target", for_ms = 15000, resume_guests = false } }
"""


def run(cloud, page):
    config = cloud.work / "page.toml"
    config.write_text(CONFIG)
    cloud.start("--config", config)
    (cloud.data / "policy.yaml").open("a").write(RULE)
    demo, admin = passwords(cloud)
    api = Api(cloud, "admin", admin, "admin")
    # Its own, so that a member sees it.
    owner = Api(cloud, "demo", demo, "demo")
    server, flavors = owner.make_server("traveller")
    a_login(page, admin)
    cloud.until("the server is active", lambda: api.server(server)["status"] == "ACTIVE")
    the_overview(page)
    servers.run(page, api, owner)
    a_move_to_its_end(page, api, server, flavors)
    the_target_host_dies(page, api, server, flavors)
    a_live_migration(page, api, server)
    a_host_is_drained(page, api, server)
    a_host_is_evacuated(page, api, server)
    a_group_moves(page, api, owner)
    a_server_is_healed(page, api, server)
    a_cell_is_disabled(page)
    a_cell_goes_down(page, api)
    the_audit_and_the_rest(page, api, server)
    the_service_restarts(cloud, page, config)
    the_session_ends(page, admin)
    a_member(page, demo, server)
    page.console_is_quiet()


def a_login(page, password):
    page.go("/overview")
    page.log_in("admin", "not the password", "admin")
    page.sees("a wrong password is refused", "No such user", "#login")
    page.judge("login")
    page.log_in("admin", password, "admin")
    page.sees("the overview comes", "requests a second")
    cookie = page.driver.get_cookie("cellshift_session")
    page.cloud.check("the cookie's flags", (cookie["httpOnly"], cookie["sameSite"], cookie["path"]), (True, "Strict", "/ui"))
    page.cloud.check("scripts see no cookie", page.driver.execute_script("return document.cookie"), "")


def the_overview(page):
    page.until("both cells are up", lambda: [row for row in page.rows("Cells") if "up" in row and "2 of 2" in row][1:])
    page.sees("the percentiles come", "99th percentile", ".tiles")
    page.find("#heatmap").send_keys("\ue014\ue014")
    page.sees("the arrow keys choose a host", "cell1-host2 in cell1", "#heatmap-host")
    page.judge("overview")
    milliseconds = page.driver.execute_async_script("""
        const done = arguments[0];
        import("./heatmap.js").then(({ layout, draw }) => {
          const host = (number) => ({ name: `host${number}`, state: number % 50 ? "up" : "down", status: "enabled", room: { VCPU: { used: number % 64, capacity: 64 } } });
          const cells = Array.from({ length: 10 }, (_, cell) => ({ name: `cell${cell}`, health: "up", hosts: Array.from({ length: 1000 }, (_, number) => host(number)) }));
          const canvas = document.getElementById("heatmap");
          const began = performance.now();
          for (let times = 0; times < 5; times += 1) draw(canvas, layout(cells, canvas.clientWidth), "", 7);
          done((performance.now() - began) / 5);
        });""")
    reckoned = page.driver.execute_async_script("""
        const done = arguments[0];
        Promise.all([import("./overview.js"), import("./move.js")]).then(([{ percentile }, { left }]) => {
          const before = { buckets: [[1, 5], [2, 0]], beyond: 0 }, after = { buckets: [[1, 5], [2, 100]], beyond: 0 };
          const copy = [{ at: 0, done: 100 }, { at: 2000, done: 300 }];
          done([percentile(before, after, 0.5), percentile(before, before, 0.5), left(copy, 500), left(copy.slice(1), 500)]);
        });""")
    page.cloud.check("percentiles and the time left are reckoned", reckoned, [1500, None, 2000, None])
    page.cloud.that(f"10,000 hosts are drawn in {milliseconds:.0f} ms", milliseconds < 250)


def a_move_to_its_end(page, api, server, flavors):
    page.go("/moves", "Moves")
    api.act(server, "resize", {"flavorRef": flavors["gen2.small"]})
    page.until("the move appears by itself", lambda: [row for row in page.rows("Operations") if "resize" in row])
    page.judge("moves")
    page.go(f"/moves/{api.newest(server)['uuid']}", "resize")
    first = page.until("its tries are drawn", lambda: len(page.all("svg.timeline rect")))
    page.until("the drawing grows", lambda: len(page.all("svg.timeline rect")) > first)
    page.sees("it comes to its end", "done", ".facts .state")
    page.sees("the pivot is drawn", "pivot", "svg.timeline")
    page.press("#explain")
    page.until("each host's refusal is told", lambda: page.rows("Why not elsewhere"))
    page.judge("move")
    page.go(f"/servers/{server}", "traveller")
    page.until("the audit's facts are shown", lambda: len(page.rows("Guests that hosts report")) == 2 and len(page.rows("Allocations")) == 2)
    page.until("its actions and events are shown", lambda: any("resize" in row for row in page.rows("Actions")))
    page.judge("server")
    page.press("#confirm")
    page.press("dialog[open] button[type=submit]")
    page.until("the confirm from the page ends", lambda: api.server(server)["status"] == "ACTIVE")


def the_target_host_dies(page, api, server, flavors):
    page.go("/chaos", "Chaos")
    page.driver.execute_script("document.getElementById('experiment').value = arguments[0]", EXPERIMENT)
    page.press("#load")
    page.sees("the experiment is loaded", "running", ".facts .state")
    source = api.server(server)["OS-EXT-SRV-ATTR:host"]
    api.act(server, "resize", {"flavorRef": flavors["gen1.small"]})
    page.go(f"/moves/{api.newest(server)['uuid']}", "resize")
    move = page.at()
    page.until("the move goes back, and what it owes is told", lambda: page.rows("What it owes"), 60)
    page.press("#retry")
    page.sees("an operator tries again", "tried again", "#told")
    page.sees("the move has gone back", "unwound", ".facts .state")
    page.until("its undos are drawn", lambda: page.all("svg.timeline rect.undo"))
    page.until("the fault is drawn", lambda: page.all("svg.timeline line.fault"))
    page.cloud.check("the server is where it was", (api.server(server)["OS-EXT-SRV-ATTR:host"], api.server(server)["status"]), (source, "ACTIVE"))
    page.judge("move-back")
    page.go("/chaos", "Chaos")
    page.sees("the verdict comes", "held", ".facts", 60)
    page.until("its fault is listed", lambda: any("prepare_at_target" in row for row in page.rows("Faults of the experiment")))
    page.judge("chaos")
    page.go(move, "resize")
    page.until("the debts were paid when the host was back", lambda: "It owes nothing." in page.text("main") and not page.rows("What it owes"))


def a_live_migration(page, api, server):
    for button, end in (("#abort", "unwound"), ("#force", "done")):
        page.go(f"/servers/{server}", "traveller")
        page.press("#live-migrate")
        page.press("dialog[open] button[type=submit]")
        running = lambda: (lambda newest: newest["saga"] == "live_migrate" and newest["state"] == "running" and newest)(api.newest(server))
        move = page.until("the live migration begins", running)["uuid"]
        page.go(f"/moves/{move}", "live migrate")
        page.sees("the bytes copied and the time left are told", "left", ".facts dd")
        page.press(button)
        page.press("dialog[open] button[type=submit]")
        page.sees(f"after {button} the live migration is {end}", end, ".facts .state", 40)


def a_host_is_drained(page, api, server):
    host = api.server(server)["OS-EXT-SRV-ATTR:host"]
    page.go(f"/hosts/{host}", f"Host {host}")
    page.until("its servers are listed", lambda: any("traveller" in row for row in page.rows("Servers on this host")))
    page.judge("host")
    page.press("#drain")
    page.press("dialog[open] [name=dry_run]")
    page.press("dialog[open] button[type=submit]")
    page.until("the plan is told", lambda: any("live" in row for row in page.rows("What the drain would do")))
    page.press("#drain")
    page.press("dialog[open] button[type=submit]")
    page.until("the drain has a page", lambda: page.at().startswith("/drains/"))
    page.until("its server is on its way", lambda: any("moving" in row or "moved" in row for row in page.rows("Its servers")))
    page.judge("drain")
    page.sees("the drain is done", "done", ".facts .state", 60)
    page.cloud.that("the server left the host", api.server(server)["OS-EXT-SRV-ATTR:host"] != host)
    page.go("/drains", "Drains")
    page.until("drains are listed", lambda: page.rows("Drains"))
    page.judge("drains", shot=False)
    page.go(f"/hosts/{host}", f"Host {host}")
    page.press("#enable")
    page.until("the host is enabled again", lambda: page.all("#disable"))


def a_host_is_evacuated(page, api, server):
    host = api.server(server)["OS-EXT-SRV-ATTR:host"]
    fault = api.post("/ops/v1/chaos/faults", {"fault": {"host_off": {"host": host, "for_ms": 60000}}})["fault"]["id"]
    page.go(f"/hosts/{host}", f"Host {host}")
    page.press("#force-down")
    page.press("dialog[open] button[type=submit]")
    page.press("#evacuate")
    page.sees("what is asked is said", "Evacuate 1 servers", "dialog[open]")
    page.press("dialog[open] button[type=submit]")
    page.sees("the evacuation is accepted", "1 of 1 evacuations accepted")
    page.until("the server is elsewhere", lambda: api.server(server)["OS-EXT-SRV-ATTR:host"] != host and api.server(server)["status"] == "ACTIVE")
    api.send("DELETE", f"/ops/v1/chaos/faults/{fault}")
    # Until the host has removed what was evacuated from it, it may not be forced up.
    left = f"/compute/v2.1/os-migrations?migration_type=evacuation&source_compute={host}&status=done"
    page.until("the host has cleaned up", lambda: not api.get(left)["migrations"], 60)
    page.press("#force-up")
    page.until("the host is up again", lambda: "✓ up" in page.text(".facts") and page.all("#force-down"), 60)


def a_group_moves(page, api, owner):
    group = owner.post("/compute/v2.1/os-server-groups", {"server_group": {"name": "pair", "policy": "affinity"}})["server_group"]["id"]
    pair = [owner.make_server(name, group)[0] for name in ("one", "two")]
    places = lambda: {api.server(member)["OS-EXT-SRV-ATTR:host"] for member in pair}
    page.until("the members are active", lambda: all(api.server(member)["status"] == "ACTIVE" for member in pair))
    home = places()
    page.go("/groups", "Server groups")
    page.until("the group is listed", lambda: any("pair affinity 2" in row for row in page.rows("Server groups")))
    page.judge("groups", shot=False)
    page.go(f"/groups/{group}", "pair")
    page.press("#move-group")
    page.sees("where to is asked", "Where shall the group go?", "dialog[open]")
    page.press("dialog[open] button[type=submit]")
    page.sees("the plan is shown first", "Move 2 members?", "dialog[open]")
    page.cloud.check("both would go alive", [row.split()[-1] for row in page.rows("What the move would do")], ["live", "live"])
    page.judge("group-plan", shot=False)
    page.press("dialog[open] button[type=submit]")
    page.until("the members are on their way", lambda: any("not begun" not in row for row in page.rows("Members on their way")))
    page.judge("group")
    copied = lambda: (lambda newest: newest["saga"] == "live_migrate" and newest.get("copied"))(api.newest(pair[0]))
    page.until("a member is copied", copied)
    page.press("#stop-group")
    page.press("dialog[open] button[type=submit]")
    page.sees("the members come back", "come back", "#told")
    page.sees("the members are where they were", "returned", ".facts .state", 60)
    page.cloud.check("both are at home", places(), home)
    the_table_lives(page, api, group, "cell1-host2" if home == {"cell1-host1"} else "cell1-host1")
    page.go(f"/groups/{group}", "pair")
    page.sees("the group's move is done", "✓ done", ".facts .state")
    page.cloud.check("the members left together", (len(places()), places() & home), (1, set()))


def the_table_lives(page, api, group, host):
    """Without a single question of the page, the stream brings new moves and their steps into the table."""
    page.go("/moves", "Moves")
    page.until("the moves are there", lambda: page.rows("Operations"))
    known = len(page.rows("Operations"))
    page.driver.execute_script("window.fetch = () => new Promise(() => {})")
    api.post(f"/ops/v1/server-groups/{group}/moves", {"host": host})
    seen = set()
    script = """return [...document.querySelectorAll("tbody tr")].filter((row) => row.cells[2].innerText === "live migrate").slice(0, 2)
        .map((row) => [1, 6].map((cell) => row.cells[cell].innerText).join(" at "))"""

    def done():
        if len(page.rows("Operations")) < known + 2:
            return False
        steps = page.driver.execute_script(script)
        seen.update(steps)
        return all("done" in step for step in steps)

    page.until("two moves appear and end without a question", done, 60)
    page.cloud.that("their steps were seen", len(seen) > 3, seen)
    page.driver.refresh()
    page.until("the page is back", lambda: page.rows("Operations"))


def a_server_is_healed(page, api, server):
    """A server from before its port's policy gets what the port asks for."""
    policies = "/network/v2.0/qos/policies"
    policy = api.post(policies, {"policy": {"name": "minimum", "shared": True}})["policy"]["id"]
    api.post(f"{policies}/{policy}/minimum_bandwidth_rules", {"minimum_bandwidth_rule": {"min_kbps": 1000, "direction": "egress"}})
    port = api.get(f"/network/v2.0/ports?device_id={server}")["ports"][0]["id"]
    api.send("PUT", f"/network/v2.0/ports/{port}", {"port": {"qos_policy_id": policy}})
    page.go("/audit", "Audit")
    page.press("main p a")
    page.until("the audit leads to the healing", lambda: page.at() == "/healing")
    found = lambda word: any("traveller" in row and word in row for row in page.rows("Servers that need healing"))
    page.until("it is said what would be changed", lambda: found("+1000 NET_BW_EGR_KILOBIT_PER_SEC"))
    page.judge("healing")
    page.press("#heal-all")
    page.sees("what is asked is said", "Heal one server?", "dialog[open]")
    page.press("dialog[open] button[type=submit]")
    page.until("it is healed", lambda: found("✓ healed"))
    page.press("#look")
    page.sees("nothing is left to heal", "No server needs healing.")
    page.go(f"/servers/{server}", "traveller")
    page.press("#heal")
    page.sees("one server alone is looked at", "alone")


def a_cell_is_disabled(page):
    page.go("/cells", "Cells and hosts")
    page.press("#place-cell1")
    page.sees("what is asked is said", "Disable cell1", "dialog[open]")
    page.press("dialog[open] button[type=submit]")
    page.until("the cell takes no new servers", lambda: "no new servers" in page.text("main"))
    page.press("#place-cell1")
    page.until("the cell takes new servers again", lambda: "no new servers" not in page.text("main"))


def a_cell_goes_down(page, api):
    page.go("/overview", "Overview")
    page.until("cell2 is up", lambda: [row for row in page.rows("Cells") if row.startswith("cell2") and "✓ up" in row])
    fault = api.post("/ops/v1/chaos/faults", {"fault": {"database": {"name": "cell2", "outage": "refuses", "for_ms": 60000}}})["fault"]["id"]
    page.until("one sees that cell2 goes down", lambda: [row for row in page.rows("Cells") if row.startswith("cell2") and "✕ down" in row])
    page.judge("cell-down")
    page.go("/cells", "Cells and hosts")
    page.until("its hosts are unknown", lambda: any("cell2-host1" in row and "unknown" in row for row in page.rows("Hosts")))
    page.judge("cells")
    page.find("#host-filter").send_keys("HOST1")
    page.until("hosts are found by a part of their name", lambda: [row.split()[0] for row in page.rows("Hosts")] == ["cell1-host1", "cell2-host1"])
    api.send("DELETE", f"/ops/v1/chaos/faults/{fault}")
    page.until("and that it comes back", lambda: any("cell2-host1" in row and "✓ up" in row for row in page.rows("Hosts")))


def the_audit_and_the_rest(page, api, server):
    page.go("/audit", "Audit")
    page.press("#run")
    page.sees("the audit is clean", "clean", ".facts .state")
    page.judge("audit")
    page.go("/notifications", "Notifications")
    page.sees("the stream stands", "live", "#stream")
    api.act(server, "os-stop")
    page.until("notifications come", lambda: any("instance.power_off" in row for row in page.rows("Notifications")))
    page.find("#event-filter").send_keys("power_off.end")
    page.until("the filter holds", lambda: page.rows("Notifications") and all("power_off.end" in row for row in page.rows("Notifications")))
    page.judge("notifications")
    page.go("/servers", "Servers")
    page.until("servers are listed", lambda: any("traveller" in row for row in page.rows("Servers")))
    page.judge("servers", shot=False)
    for address, text in (("/moves/nonsense", "There is no operation"), ("/nowhere", "There is no page"), ("/moves/%E0%A4", "There is no page"), ("/hosts/h9", "There is no host h9")):
        page.go(address)
        page.sees(f"{address} does not exist, and the page says so", text)
    narrow(page)


def narrow(page):
    """At 360 pixels nothing but tables and drawings is wider than the screen."""
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True})
    for address, title in (("/overview", "Overview"), ("/moves", "Moves"), ("/cells", "Cells and hosts"), ("/groups", "Server groups"), ("/healing", "Healing"), ("/chaos", "Chaos")):
        page.go(address, title)
        page.until(f"{address} fits a narrow screen", lambda: page.driver.execute_script("return document.documentElement.scrollWidth <= 360"))
    page.go("/overview", "Overview")
    page.sees("the overview is there", "requests a second")
    page.judge("narrow")
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def the_service_restarts(cloud, page, config):
    page.go("/moves", "Moves")
    page.until("the moves are there", lambda: page.rows("Operations"))
    cloud.process.kill()
    cloud.process.wait()
    page.sees("the page says that nobody answers", "The service has not answered for", "#away")
    page.cloud.that("what one saw stays", page.rows("Operations"))
    cloud.start("--config", config)
    page.until("the page goes on by itself", lambda: not page.find("#away").is_displayed())
    page.sees("the stream stands again", "live", "#stream")
    page.cloud.check("nobody was logged out", page.all("#login"), [])


def the_session_ends(page, password):
    page.go("/audit", "Audit")
    cookie = page.driver.get_cookie("cellshift_session")
    page.driver.add_cookie({**cookie, "value": "garbage"})
    page.press("#run")
    page.sees("a session that is over asks for the login", "Your session is over", "#login")
    page.log_in("admin", password, "admin")
    page.until("one is where one was", lambda: not page.all("#login") and page.at() == "/audit" and page.find("main h1").text == "Audit")


def a_member(page, password, server):
    page.press(".who button")
    page.log_in("demo", password, "demo")
    page.until("a member comes", lambda: "demo, project demo" in page.text("#top"))
    page.cloud.check("a member has the servers alone", page.text("#top nav"), "Servers")
    for address in ("/overview", "/moves", "/cells", "/groups", "/healing", "/audit"):
        page.go(address)
        page.sees(f"{address} is not for members", "Your roles do not allow this")
    page.go("/servers", "Servers")
    page.until("the own servers are listed", lambda: any("traveller" in row for row in page.rows("Servers")))
    page.judge("member")
    page.go(f"/servers/{server}", "traveller")
    page.until("the own server's actions are shown", lambda: any("stop" in row for row in page.rows("Actions")))
    servers.a_member_has_the_own_actions(page)
    page.cloud.that("and no host", "host" not in [one.text for one in page.all(".facts dt")])
    status = page.driver.execute_async_script("const done = arguments[0]; fetch('api/ops/v1/cells').then((answer) => done(answer.status))")
    page.cloud.check("the service refuses what the page does not show", status, 403)
