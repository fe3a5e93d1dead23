"""Servers as people think of them: lists, the search box, a server's page with its console, and a server's whole life on the page."""

import re
from contextlib import contextmanager

# The widths of a desk and of a telephone, in pixels.
WIDTHS = (1400, 390)


def run(page, api, owner):
    page.console_is_quiet()
    words_are_made(page)
    web, flavors = owner.make_server("web.1")
    names_are_everywhere(page, api, web)
    made = a_server_is_created(page)
    servers_are_listed(page)
    lists_come_in_pages(page)
    the_search_box_leads_to_pages(page, api, web)
    a_request_leads_to_its_operation(page, api, web)
    a_console_takes_lines(page, web)
    volumes_and_ports_come_and_go(page, api, made)
    actions_follow_the_state(page, api, web)
    a_slip_destroys_nothing(page, api, web)
    nothing_was_an_error(page)


@contextmanager
def width_of(page, pixels):
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": pixels < 640})
    yield
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def a_member_has_the_own_actions(page):
    """On the page of a server of the own project: what members may do is offered, and what operators may do is not."""
    page.until("a member may start or stop it, and delete it", lambda: page.all("#start, #stop") and page.all("#delete"))
    page.cloud.check("and neither migrate nor reset", page.all("#migrate, #reset, #evacuate"), [])
    page.until("the ports have their addresses", lambda: any("10.1.0." in row for row in page.rows("Ports")))
    fill(page, "#search", "traveller")
    page.until("a member's search finds the own server", lambda: page.at().startswith("/servers/"))


def judge_at_each_width(page, name):
    """Asks axe-core at both widths, in light and in dark; and nothing is wider than the screen. The picture is the wide one."""
    for pixels in WIDTHS:
        with width_of(page, pixels):
            fits = "return document.documentElement.scrollWidth <= arguments[0]"
            page.until(f"{name} fits {pixels} pixels", lambda: page.driver.execute_script(fits, pixels))
            page.judge(name, shot=pixels == WIDTHS[0])


def fill(page, selector, text):
    box = page.find(selector)
    box.clear()
    box.send_keys(text + "\n")


def choose(page, selector, text):
    page.until(f"{selector} offers {text}", lambda: page.driver.execute_script(
        """const [select, text] = arguments;
        const option = [...document.querySelector(select).options].find((option) => option.text.startsWith(text));
        if (!option) return false;
        option.selected = true;
        option.parentElement.dispatchEvent(new Event("change", { bubbles: true }));
        return true;""", selector, text))


def words_are_made(page):
    """The page's functions without a page: a terminal's text, hosts by their reasons, a list's question, and a new server."""
    made = page.driver.execute_async_script(r"""
        const done = arguments[0];
        Promise.all(["console", "destinations", "servers", "create", "sorted", "audit"].map((name) => import(`./${name}.js`)))
        .then(([{ written }, { byReason }, { question }, { body }, { sorted, pageOf }, { linked, compared }]) => {
          const server = (id, cell) => ({ id, name: id, cell });
          const servers = [server("a", "cell10"), server("b", "cell2"), server("c", "cell10")];
          const inOrder = (direction) => sorted(servers, (one) => one.cell, direction).map((one) => one.id);
          const pageBehind = (after) => { const { page, later } = pageOf(servers, after, 2); return [page.map((one) => one.id), later]; };
          const gone = "00000000-0000-4000-8000-00000000000a", port = "00000000-0000-4000-8000-00000000000b";
          const words = linked(`server ${gone} has port ${port}`, { [gone]: "web" }).map((part) => part.textContent ?? part).join("");
          const refused = (host, reason) => ({ host, refusals: [{ rule: "room", reason }] });
          done([written("ab", "c\b \b\r\nd"),
            byReason([refused("h1", "full"), refused("h2", "off"), refused("h3", "off"), { host: "h4", refusals: [] }]).map((group) => group.hosts),
            question({ name: "a.b", address: "fd00::", order: "server desc" }, true),
            body({ name: "n", flavor: "f", image: "i", network: "none", zone: "" }),
            question({ order: "cell asc", after: "a" }, true), [inOrder("asc"), inOrder("desc")], [pageBehind(""), pageBehind("b")],
            words, compared({ images: 1, journal_entries: 1, hosts: 4, sagas: 2 })]);
        });""")
    page.cloud.check("words are made of answers, and questions of words", made, [
        "ab\nd", [["h2", "h3"], ["h1"]],
        "/compute/v2.1/servers/detail?all_tenants=1&name=a%5C.b&ip6=fd00%3A%3A&sort_key=display_name&sort_dir=desc&limit=50",
        {"server": {"name": "n", "flavorRef": "f", "imageRef": "i", "networks": "none"}},
        "/compute/v2.1/servers/detail?all_tenants=1&limit=1000", [["b", "a", "c"], ["c", "a", "b"]], [[["a", "b"], "b"], [["c"], None]],
        "server web has port 00000000", "1 image, 1 journal entry, 4 hosts, 2 operations"])


def names_are_everywhere(page, api, web):
    page.until("the server is active", lambda: api.server(web)["status"] == "ACTIVE")
    page.go("/moves", "Moves")
    page.until("the moves have their servers' names", lambda: any("create web.1" in row for row in page.rows("Operations")))
    page.cloud.check("the id is the name's title", page.find("#main tbody a[data-server]").get_attribute("title").count("-"), 4)
    host = api.server(web)["OS-EXT-SRV-ATTR:host"]
    page.go(f"/hosts/{host}", f"Host {host}")
    page.until("the host has them, too", lambda: any(row.startswith("web.1 ") for row in page.rows("Servers on this host")))
    page.go("/notifications", "Notifications")
    api.act(web, "pause")
    page.until("so have notifications, which come without names", lambda: any("web.1" in row for row in page.rows("Notifications")))
    api.act(web, "unpause")


def a_server_is_created(page):
    page.go("/servers", "Servers")
    page.press("#main a[href='#/create']")
    page.until("there is something to choose", lambda: page.all("#create"))
    page.find("#new-name").send_keys("made on the page")
    for name, text in (("flavor", "gen1.small"), ("image", "tiny"), ("network", "private"), ("zone", "cell1")):
        choose(page, f"#new-{name}", text)
    judge_at_each_width(page, "create")
    page.press("#create")
    page.until("its page is there", lambda: page.at().startswith("/servers/") and "made on the page" in page.find("main h1").text)
    page.sees("it becomes active", "ACTIVE", ".facts .state")
    page.sees("its image has its name", "tiny", ".facts")
    page.sees("its project, too", "admin", ".facts")
    page.sees("its cell is told", "cell1 / cell1-host", ".facts")
    return page.at().removeprefix("/servers/")


def servers_are_listed(page):
    listed = lambda: [row.split(" ▶ ")[0] for row in page.rows("Servers of all projects")]
    page.go("/servers", "Servers")
    page.until("all servers are listed", lambda: {"web.1", "made on the page", "traveller"} <= set(listed()))
    page.until("with cell, host, flavor, address, project and zone",
               lambda: any("web.1 ▶ ACTIVE cell1 cell1-host" in row and "gen1.small 10.1.0." in row and "demo cell1" in row for row in page.rows("Servers")))
    judge_at_each_width(page, "servers")
    page.press("thead th:first-child button")
    page.until("they are sorted by name", lambda: listed() == sorted(listed(), key=str.lower) and len(listed()) > 2)
    page.press("thead th:first-child button")
    page.until("and backwards", lambda: listed() == sorted(listed(), key=str.lower, reverse=True))
    page.cloud.that("the order is in the address", "order=server+desc" in page.at(), page.at())
    columns_are_sorted_by(page)
    fill(page, "#name-filter", "b.1")
    page.until("a part of the name filters, and its dot is a dot", lambda: listed() == ["web.1"])
    page.driver.refresh()
    page.until("the filters are there after a reload", lambda: listed() == ["web.1"] and page.find("#name-filter").get_attribute("value") == "b.1")
    fill(page, "#name-filter", "")
    choose(page, "#project-filter", "admin")
    page.until("a project filters", lambda: listed() == ["made on the page"])
    choose(page, "#status-filter", "shutoff")
    page.sees("no server fits", "No server fits the filters.")


def columns_are_sorted_by(page):
    """The page itself sorts by what the compute API does not know, or knows by ids: cells, flavors, projects."""
    shown = lambda column: [cell.text for cell in page.all(f"#main tbody td[data-label={column}]")]
    for column in ("cell", "flavor", "addresses", "project", "state"):
        choose(page, "#order-filter", "address" if column == "addresses" else column)
        page.until(f"{column} is the order in the address", lambda: f"order={column}+asc" in page.at())
        page.until(f"the servers are sorted by {column}", lambda: len(shown(column)) == 3 and in_order(shown(column)))
    choose(page, "#cell-filter", "cell2")
    page.until("a cell filters", lambda: set(shown("cell")) <= {"cell2"})
    choose(page, "#cell-filter", "cell1")
    page.until("the other cell, too", lambda: set(shown("cell")) == {"cell1"})
    page.go("/servers?order=cell+asc&limit=2", "Servers")
    page.until("sorted lists come in pages", lambda: len(shown("cell")) == 2)
    page.press("#next-page")
    page.until("the next page has the rest", lambda: len(shown("cell")) == 1)
    page.go("/servers", "Servers")


def in_order(texts):
    """True if texts stand in their order, in which numbers count as numbers."""
    parts = [[int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)] for text in texts]
    return parts == sorted(parts)


def lists_come_in_pages(page):
    listed = lambda: [row.split(" ▶ ")[0] for row in page.rows("Servers of all projects")]
    page.go("/servers?order=server+asc&limit=2", "Servers")
    page.until("the first page is full", lambda: listed() == ["made on the page", "traveller"])
    page.press("#next-page")
    page.until("the next one has the rest", lambda: listed() == ["web.1"])
    page.driver.refresh()
    page.until("it is there after a reload", lambda: listed() == ["web.1"])
    page.driver.back()
    page.until("the way back leads to the first page", lambda: len(listed()) == 2)


def the_search_box_leads_to_pages(page, api, web):
    server = api.server(web)
    newest = api.newest(web)["uuid"]
    address = next(one["addr"] for one in sum(server["addresses"].values(), []))
    for kind, text, place in (
        ("a name", "web.1", f"/servers/{web}"),
        ("a part of a name", "on the page", None),
        ("an id", web, f"/servers/{web}"),
        ("an address", address, f"/servers/{web}"),
        ("a host", "cell2-host1", "/hosts/cell2-host1"),
        ("the beginning of an operation's id", newest[:13], f"/moves/{newest}"),
    ):
        fill(page, "#search", text)
        expected = place or "/servers/"
        page.until(f"{kind} leads to {expected}", lambda: page.at().startswith(expected))
    fill(page, "#search", "host")
    page.until("several hits are listed", lambda: len(page.rows("What was found")) == 4)
    judge_at_each_width(page, "search")
    fill(page, "#search", "nothing-like-it")
    page.sees("it is said that nothing fits", "fits nothing-like-it")


def a_request_leads_to_its_operation(page, api, web):
    actions = api.get(f"/compute/v2.1/servers/{web}/os-instance-actions")["instanceActions"]
    fill(page, "#search", actions[-1]["request_id"])
    page.until("a request's id leads to the operation that it began", lambda: page.at().startswith("/moves/") and page.find("main h1").text == "create of web.1")


def a_console_takes_lines(page, web):
    page.go(f"/servers/{web}", "web.1")
    page.press("#log")
    page.sees("the log is shown", "boot", "#console-text")
    page.press("#console")
    page.sees("the console opens", "The console is open")
    fill(page, "#console-line", "hello from the page")
    page.sees("the guest reads the line", "hello from the page", "#console-text")
    page.press("#explain")
    page.until("a host is named that it could go to", lambda: page.rows("Where it could go"))
    page.until("the others are grouped by their reasons", lambda: any("2 " in row and "cell2-host1, cell2-host2" in row for row in page.rows("Why not elsewhere")))
    judge_at_each_width(page, "server-page")
    page.press("#close-console")
    page.sees("the console is closed", "The console is closed.")


def volumes_and_ports_come_and_go(page, api, server):
    volume = api.post("/volume/v3/volumes", {"volume": {"name": "books", "size": 1}})["volume"]["id"]
    page.until("the volume is made", lambda: api.get(f"/volume/v3/volumes/{volume}")["volume"]["status"] == "available")
    page.go(f"/servers/{server}", "made on the page")
    page.until("its address is told with its port", lambda: any("private 10.1.0." in row for row in page.rows("Ports")))
    page.press("#attach-port")
    page.press("dialog[open] button[type=submit]")
    page.until("a second port comes", lambda: len(page.rows("Ports")) == 2)
    page.press("section:has(#attach-port) tbody tr:last-child button")
    page.press("dialog[open] button[type=submit]")
    page.until("and goes", lambda: len(page.rows("Ports")) == 1)
    page.press("#attach-volume")
    page.sees("the volume is offered", "books: 1 GiB", "dialog[open]")
    page.press("dialog[open] button[type=submit]")
    page.until("the volume is attached", lambda: any("books 1 GiB" in row and "in-use" in row for row in page.rows("Volumes")))
    page.press("section:has(#attach-volume) tbody button")
    page.press("dialog[open] button[type=submit]")
    page.sees("it is detached", "It has no volume.")


def actions_follow_the_state(page, api, web):
    page.go(f"/servers/{web}", "web.1")
    page.until("its actions are offered", lambda: page.all("#stop"))
    page.cloud.check("an active server cannot be started", page.all("#start"), [])
    page.press("#stop")
    page.sees("it is asked first", "Stop the server?", "dialog[open]")
    page.press("dialog[open] button[type=submit]")
    page.sees("it is off", "SHUTOFF", ".facts .state")
    page.press("#start")
    page.sees("it runs again", "ACTIVE", ".facts .state")
    page.press("details.more summary")
    page.press("#lock")
    page.find("dialog[open] [name=locked_reason]").send_keys("a demonstration")
    page.press("dialog[open] button[type=submit]")
    page.sees("the lock's reason is told", "a demonstration", ".facts")
    page.press("#unlock")
    page.until("it is unlocked", lambda: not api.server(web)["locked"])
    page.press("#rename")
    box = page.find("dialog[open] [name=name]")
    box.clear()
    box.send_keys("renamed")
    page.press("dialog[open] button[type=submit]")
    page.sees("the new name is the title", "renamed", "main h1")


def a_slip_destroys_nothing(page, api, web):
    page.press("#delete")
    page.sees("the name is asked for", "Type renamed to confirm", "dialog[open]")
    page.find("dialog[open] [name=typed-name]").send_keys("rename")
    page.press("dialog[open] button[type=submit]")
    page.cloud.check("a wrong name does nothing", len(page.all("dialog[open]")), 1)
    page.judge("delete", shot=False)
    page.find("dialog[open] [name=typed-name]").send_keys("d")
    page.press("dialog[open] button[type=submit]")
    page.until("the list comes", lambda: page.at() == "/servers")
    page.until("the server is gone", lambda: page.rows("Servers") and not any("renamed" in row for row in page.rows("Servers")))


def nothing_was_an_error(page):
    # A service without an experiment answers 404 to the question for it.
    errors = [entry["message"] for entry in page.driver.get_log("browser") if entry["level"] == "SEVERE"]
    entries = [entry for entry in errors if "/chaos/experiment " not in entry]
    page.cloud.check("the browser's log has no errors for all that", entries, [])
