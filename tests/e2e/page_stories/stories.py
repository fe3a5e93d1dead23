"""What operators and members do with the page: each story begins where the one before ended."""

from page_stories import servers
from page_stories.api import Api, passwords
from page_stories.group_moves import a_group_moves
from page_stories.hosts import a_cell_goes_down, a_cell_is_disabled, a_cell_is_measured, a_drain_leaves_a_server, a_host_is_drained, a_host_is_evacuated
from page_stories.moves import a_live_migration, a_move_to_its_end, an_actor_is_killed, the_target_host_dies

# Slow enough for eyes.
CONFIG = """
[chaos]
enabled = true
[cells]
probe_interval = 0.5
timeout = 5
[compute.latency_ms]
copy_disks = 1000
define = 2500
start = 200
[compute.live_migration]
bandwidth_mib = 64
dirty_rate_mib = 5
"""
RULE = '"compute:servers:resize:cross_cell": "rule:project_member_or_admin"\n'


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
    an_actor_is_killed(page)
    a_cell_is_measured(page)
    a_drain_leaves_a_server(page, api, server)
    a_host_is_drained(page, api, server)
    a_host_is_evacuated(page, api, server)
    a_group_moves(page, api, owner)
    a_server_is_healed(page, api, server)
    a_cell_is_disabled(page, api)
    a_cell_goes_down(page, api)
    the_audit_and_the_rest(page, api, server)
    the_service_restarts(cloud, page, config)
    the_session_ends(page, admin)
    a_member(page, demo, server)
    page.console_is_quiet()


def a_login(page, password):
    page.go("/overview")
    page.until("the login is asked for", lambda: page.all("#login"))
    page.console_is_silent("a first visit")
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
    page.until("the cells are boxes", lambda: [box.get_attribute("data-cell") for box in page.all(".cloudmap .cell")] == ["cell1", "cell2"])
    page.until("the last hour is drawn", lambda: len(page.all("svg.chart")) == 4)
    page.sees("all hosts are up", "all up", "#waits")
    page.find("#heatmap").send_keys("\ue014\ue014")
    page.sees("the arrow keys choose a host", "cell1-host2 in cell1", "#heatmap-host")
    page.judge("overview")
    what_the_page_reckons(page)


def what_the_page_reckons(page):
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
        Promise.all([import("./tiles.js"), import("./move.js")]).then(([{ percentile }, { left }]) => {
          const before = { buckets: [[1, 5], [2, 0]], beyond: 0 }, after = { buckets: [[1, 5], [2, 100]], beyond: 0 };
          const copy = [{ at: 0, done: 100 }, { at: 2000, done: 300 }];
          done([percentile(before, after, 0.5), percentile(before, before, 0.5), left(copy, 500), left(copy.slice(1), 500)]);
        });""")
    page.cloud.check("percentiles and the time left are reckoned", reckoned, [1500, None, 2000, None])
    values = page.driver.execute_async_script("""
        const done = arguments[0];
        Promise.all([import("./cloudmap.js"), import("./timeline.js"), import("./history.js"), import("./faults.js"), import("./story.js"), import("./actors.js")])
          .then(([{ flows, thickness }, { ticks }, { ceiling, fullness }, { faultWords }, { ahead }, { tree }]) => {
            const place = (cell) => ({ cell, host: "h" });
            const move = (state) => ({ state, source: place("a"), target: place("b") });
            const steps = [{ step: "one", side: "act", outcome: "ok" }, { step: "two", side: "act", outcome: "skipped" }, { step: "three", side: "act", outcome: "failed" }];
            const plan = ["one", "two", "three", "four"];
            done([flows([move("running"), move("running"), move("unwinding")], [{ from: "a", to: "b" }]).map(({ from, kind, count }) => [from, kind, count]),
              [thickness(3, 3), thickness(1, 44)], ticks(4600), ticks(90000, 3), [ceiling(0), ceiling(3), ceiling(70)], fullness({ VCPU: { used: 1, capacity: 4 }, DISK_GB: { used: 0, capacity: 0 } }),
              faultWords({ host_off: { host: "h1", for_ms: 5000, resume_guests: false } }), ahead({ state: "running", steps: steps.slice(0, 2), plan }),
              ahead({ state: "unwinding", steps, plan }), ahead({ state: "done", steps, plan }), tree([{ name: "c1/h1" }, { name: "c1" }]).map(({ name, children }) => [name, children.length])]);
          });""")
    page.cloud.check("arrows, axes, faults, steps to come and the tree are reckoned", values, [
        [["a", "forward", 2], ["b", "back", 1], ["a", "held", 1]], [12, 0.5], [0, 1000, 2000, 3000, 4000], [0, 30000, 60000, 90000], [1, 5, 100], 0.25,
        "host off: h1, for 5.0 s", [{"step": "three", "side": "act"}, {"step": "four", "side": "act"}],
        [{"step": "three", "side": "undo"}, {"step": "one", "side": "undo"}], [], [["c1", 1]]])
    page.cloud.that(f"10,000 hosts are drawn in {milliseconds:.0f} ms", milliseconds < 250)


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
    page.sees("what is asked is said", "Heal 1 server?", "dialog[open]")
    page.press("dialog[open] button[type=submit]")
    page.until("it is healed", lambda: found("✓ healed"))
    page.press("#look")
    page.sees("nothing is left to heal", "No server needs healing.")
    page.go(f"/servers/{server}", "traveller")
    page.press("#heal")
    page.sees("one server alone is looked at", "alone")


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
    page.picture("narrow")
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
