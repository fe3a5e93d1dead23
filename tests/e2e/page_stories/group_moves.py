"""Server groups on the page, and the table of moves that lives from the stream."""


def a_group_moves(page, api, owner):
    group = owner.post("/compute/v2.1/os-server-groups", {"server_group": {"name": "pair", "policy": "affinity"}})["server_group"]["id"]
    pair = [owner.make_server(name, group)[0] for name in ("one", "two")]
    places = lambda: {api.server(member)["OS-EXT-SRV-ATTR:host"] for member in pair}
    page.until("the members are active", lambda: all(api.server(member)["status"] == "ACTIVE" for member in pair))
    home = places()
    page.go("/groups", "Server groups")
    page.until("the group is listed", lambda: any("pair affinity 2" in row for row in page.rows("Server groups")))
    page.judge("groups", shot=False)
    page.go(f"/servers/{pair[0]}", "one")
    page.sees("a member's page has the group's name", "pair", ".facts a[data-group]")
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
