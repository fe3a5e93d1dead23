"""Moves of servers on the page: to the end, back after a fault, alive; and the experiment that made the fault."""

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


def a_move_to_its_end(page, api, server, flavors):
    page.go("/moves", "Moves")
    api.act(server, "resize", {"flavorRef": flavors["gen2.small"]})
    page.until("the move appears by itself", lambda: [row for row in page.rows("Operations") if "resize" in row])
    page.go(f"/moves/{api.newest(server)['uuid']}", "resize")
    page.until("the steps to come are drawn", lambda: "take_ownership" in page.text("svg.timeline g.coming"))
    page.sees("the pivot is told in advance", "take_ownership, the pivot", ".story")
    page.picture("move-in-flight")
    first = page.until("its tries are drawn", lambda: len(page.all("svg.timeline rect")))
    page.until("the drawing grows", lambda: len(page.all("svg.timeline rect")) > first)
    page.sees("it comes to its end", "done", ".facts .state")
    page.until("the pivot is drawn", lambda: page.all("svg.timeline line.pivot"))
    page.cloud.that("the axis has more than two marks", len(page.all("svg.timeline text.mark")) > 2)
    page.sees("what it waits for is said first", "waits for a confirm or a revert", ".story")
    page.press("#explain")
    page.until("each host's refusal is told", lambda: page.rows("Why not elsewhere"))
    page.judge("move")
    page.go("/moves", "Moves")
    page.until("the move is listed", lambda: any("resize" in row for row in page.rows("Operations")))
    page.judge("moves")
    a_move_waits(page)
    page.go(f"/servers/{server}", "traveller")
    page.until("the audit's facts are shown", lambda: len(page.rows("Guests that hosts report")) == 2 and len(page.rows("Allocations")) == 2)
    page.until("its actions and events are shown", lambda: any("resize" in row for row in page.rows("Actions")))
    page.judge("server")
    page.press("#confirm")
    page.press("dialog[open] button[type=submit]")
    page.until("the confirm from the page ends", lambda: api.server(server)["status"] == "ACTIVE")


def a_move_waits(page):
    """The overview says first what waits, and its tile leads to the list."""
    page.go("/overview", "Overview")
    page.sees("a move waits for people, with its age and its room", "move to confirm, the oldest for", "#waits .tile.warn")
    page.sees("the room that it holds is summed", "held: 1 vCPU", "#waits .tile.warn")
    page.until("the waiting move is an arrow", lambda: page.all("svg.flows g.flow.held"))
    page.press("#waits a.tile")
    page.until("the tile leads to the list", lambda: page.at() == "/waiting/confirms")
    page.until("the move is listed with its room", lambda: any("traveller" in row and "1 vCPU" in row for row in page.rows("Moves that wait")))
    page.judge("waiting")


def the_target_host_dies(page, api, server, flavors):
    page.console_is_quiet()
    page.go("/chaos", "Chaos")
    page.until("the experiments that come with the program are a menu", lambda: len(page.all("#shipped option")) > 20)
    page.driver.execute_script("const menu = document.getElementById('shipped'); menu.value = 'target-host-dies-mid-spawn'; menu.dispatchEvent(new Event('change'))")
    page.until("one of them is chosen", lambda: "host_off" in page.driver.execute_script("return document.getElementById('experiment').value"))
    page.console_is_silent("a service without an experiment")
    page.driver.execute_script("document.getElementById('experiment').value = arguments[0]", EXPERIMENT)
    page.press("#load")
    page.sees("the experiment is loaded", "running", ".facts .state")
    source = api.server(server)["OS-EXT-SRV-ATTR:host"]
    api.act(server, "resize", {"flavorRef": flavors["gen1.small"]})
    page.go("/overview", "Overview")
    page.until("the move is an arrow between the cells", lambda: page.all("svg.flows g.flow"))
    page.go(f"/moves/{api.newest(server)['uuid']}", "resize")
    move = page.at()
    page.until("the move goes back, and what it owes is told", lambda: page.rows("What it owes"), 60)
    page.press("#retry")
    page.sees("an operator tries again", "tried again", "#told")
    page.sees("the move has gone back", "unwound", ".facts .state")
    page.until("its undos are drawn", lambda: page.all("svg.timeline rect.undo"))
    page.until("the fault is drawn", lambda: page.all("svg.timeline line.fault"))
    page.sees("the fault is named", "loses its power", "svg.timeline text.faultname")
    page.sees("why it went back is said first", "It went back because", ".story")
    page.cloud.check("the server is where it was", (api.server(server)["OS-EXT-SRV-ATTR:host"], api.server(server)["status"]), (source, "ACTIVE"))
    page.judge("move-back")
    page.go("/chaos", "Chaos")
    page.sees("the verdict comes", "held", ".facts", 60)
    page.until("its fault is listed", lambda: any("prepare_at_target" in row for row in page.rows("Faults of the experiment")))
    page.judge("chaos")
    page.go("/chaos/verdict", "Verdict")
    page.sees("the verdict is a page", "All invariants and expectations held.", ".story")
    page.until("what the fault met is drawn", lambda: page.all("svg.timeline line.fault"))
    page.judge("verdict")
    page.go(move, "resize")
    page.until("the debts were paid when the host was back", lambda: "It owes nothing." in page.text("main") and not page.rows("What it owes"))


def an_actor_is_killed(page):
    page.go("/chaos", "Chaos")
    page.until("the actors are a tree", lambda: page.all(".actors ul ul code"))
    page.press("[aria-label='Kill scheduler']")
    page.sees("what is asked is said", "Kill scheduler?", "dialog[open]")
    page.press("dialog[open] button[type=submit]")
    page.until("its supervisor started it again", lambda: "scheduler ✓ alive 1 restart" in page.text(".actors"))


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
