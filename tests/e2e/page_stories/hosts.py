"""Hosts and cells on the page: drained, measured, evacuated, disabled, and down."""


def a_host_is_drained(page, api, server):
    host = api.server(server)["OS-EXT-SRV-ATTR:host"]
    page.go(f"/hosts/{host}", f"Host {host}")
    page.until("its servers are listed", lambda: any("traveller" in row for row in page.rows("Servers on this host")))
    page.judge("host")
    page.press("#drain")
    page.until("a drain has a form", lambda: page.at().startswith("/drain?host="))
    page.press("#preview")
    page.until("the plan is told", lambda: any("live" in row for row in page.rows("What the drain would do")))
    page.judge("drain-plan")
    page.press("#begin")
    page.until("the drain has a page", lambda: page.at().startswith("/drains/"))
    page.until("its server is on its way", lambda: any("moving" in row or "moved" in row for row in page.rows("Its servers")))
    page.judge("drain")
    page.sees("the drain is done", "done", ".facts .state", 60)
    page.cloud.that("the server left the host", api.server(server)["OS-EXT-SRV-ATTR:host"] != host)
    drain = page.at()
    page.go("/drains", "Drains")
    page.until("drains are listed", lambda: page.rows("Drains"))
    page.judge("drains", shot=False)
    page.go(drain, "Drain")
    page.press("#undo")
    page.press("dialog[open] button[type=submit]")
    page.sees("the drain is undone", "undone", ".facts .state")
    page.go(f"/hosts/{host}", f"Host {host}")
    page.until("the host is enabled again", lambda: page.all("#disable"))


def a_cell_is_measured(page):
    """A dry run says whether a cell fits into the other, and with which flavors."""
    page.go("/cells", "Cells and hosts")
    page.press("#capacity-cell2")
    page.press("#fits")
    page.sees("the server would stay", "does not fit")
    page.sees("the reason is told once", "1 server:", ".reasons")
    page.press("#map-flavor")
    script = """[...document.querySelectorAll(".flavors select")].forEach((select, index) => {
        select.value = arguments[0][index];
        select.dispatchEvent(new Event("change"));
    })"""
    page.driver.execute_script(script, ["gen2.small", "gen1.small"])
    page.press("#fits")
    page.sees("with another flavor it fits", "✓ fits")
    page.judge("capacity")


def a_drain_leaves_a_server(page, api, server):
    """A server without a host for it stays, and the drain has ended, but is not done."""
    host = api.server(server)["OS-EXT-SRV-ATTR:host"]
    other = "cell1" if host.startswith("cell2") else "cell2"
    page.go(f"/drain?host={host}", f"Drain host {host}")
    page.until("the form is there", lambda: page.all("#drain-to"))
    page.driver.execute_script("document.getElementById('drain-to').value = arguments[0]", f"cell {other}")
    page.press("#preview")
    page.sees("that the server would stay is said", "would stay", "#outcome")
    page.press("#begin")
    page.sees("the drain ended and left it", "ended, 1 stayed", ".facts .state")
    page.sees("the reason is told with its number of servers", "1 server:", ".reasons")
    page.judge("drain-stayed", shot=False)
    page.press("#undo")
    page.press("dialog[open] button[type=submit]")
    page.sees("the drain is undone", "undone", ".facts .state")


def a_host_is_evacuated(page, api, server):
    host = api.server(server)["OS-EXT-SRV-ATTR:host"]
    fault = api.post("/ops/v1/chaos/faults", {"fault": {"host_off": {"host": host, "for_ms": 60000}}})["fault"]["id"]
    page.go("/overview", "Overview")
    page.until("a host that is down changes its tile", lambda: "1 down" in page.text("#waits .tile.bad"))
    page.go(f"/hosts/{host}", f"Host {host}")
    page.press("#force-down")
    page.press("dialog[open] button[type=submit]")
    page.press("#evacuate")
    page.sees("what is asked is said", "Evacuate 1 server of", "dialog[open]")
    page.press("dialog[open] button[type=submit]")
    page.sees("the evacuation is accepted", "1 of 1 evacuations accepted")
    page.until("the server is elsewhere", lambda: api.server(server)["OS-EXT-SRV-ATTR:host"] != host and api.server(server)["status"] == "ACTIVE")
    api.send("DELETE", f"/ops/v1/chaos/faults/{fault}")
    # Until the host has removed what was evacuated from it, it may not be forced up.
    left = f"/compute/v2.1/os-migrations?migration_type=evacuation&source_compute={host}&status=done"
    page.until("the host has cleaned up", lambda: not api.get(left)["migrations"], 60)
    page.press("#force-up")
    page.until("the host is up again", lambda: "✓ up" in page.text(".facts") and page.all("#force-down"), 60)


def a_cell_is_disabled(page, api):
    """A cell that is enabled again leaves hosts disabled that are so by themselves, and the page names them."""
    service = api.get("/compute/v2.1/os-services?host=cell1-host2&binary=nova-compute")["services"][0]["id"]
    api.send("PUT", f"/compute/v2.1/os-services/{service}", {"status": "disabled"})
    page.go("/cells", "Cells and hosts")
    page.press("#place-cell1")
    page.sees("what is asked is said", "Disable cell1", "dialog[open]")
    page.press("dialog[open] button[type=submit]")
    page.until("the cell takes no new servers", lambda: "no new servers" in page.text("main"))
    page.press("#place-cell1")
    page.until("the cell takes new servers again", lambda: "no new servers" not in page.text("main"))
    page.sees("a host that stays disabled is named", "its host cell1-host2 stays disabled", "#told")
    api.send("PUT", f"/compute/v2.1/os-services/{service}", {"status": "enabled"})


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
