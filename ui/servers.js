// The servers that the caller may see: an administrator those of all projects, a member those of the own. Filters and order are in the address.

import { get, query } from "./api.js";
import { literally, remember } from "./address.js";
import { ago, button, choice, field, h, hostLink, link, state, table } from "./dom.js";
import { follow } from "./live.js";
import { allProjects, cellNameOf, cellOf, learn, learnCells, projectName, projectNameOf, serverLink } from "./names.js";
import { MOST, PAGE as WHOLE_PAGE, pageOf, readAll, sorted as inOrder } from "./sorted.js";

const STATES = ["", "ACTIVE", "SHUTOFF", "VERIFY_RESIZE", "RESIZE", "MIGRATING", "ERROR", "BUILD", "PAUSED", "SUSPENDED", "RESCUE", "SHELVED_OFFLOADED", "SOFT_DELETED"];
/** The columns by which the API sorts, with its keys. */
const ORDERS = { server: "display_name", host: "host", zone: "availability_zone", made: "created_at" };
/** The columns by which the page sorts, with what they show: the API has no key for them, or one that sorts by an id. */
const OWN_ORDERS = { state: (server) => server.status, cell: (server) => cellNameOf(server["OS-EXT-SRV-ATTR:host"]),
  flavor: (server) => server.flavor?.original_name, addresses: (server) => addressesOf(server)[0], project: (server) => projectNameOf(server.tenant_id) };
/** The servers of a page, unless the address says `limit`. */
const PAGE = 50;

/** The question to the API for these filters. */
export function question(filters, all) {
  const { name, status, host, project, address, flavor, order, after, limit } = filters;
  const [key, direction] = (order || "made desc").split(" ");
  const ip = address ? { [address.includes(":") ? "ip6" : "ip"]: literally(address) } : {};
  return `/compute/v2.1/servers/detail${query({ all_tenants: all ? 1 : "", name: name && literally(name), status, host, project_id: project, ...ip, flavor,
    sort_key: ORDERS[key] ?? "", sort_dir: ORDERS[key] ? direction : "",
    ...(isOwn(filters) ? { limit: WHOLE_PAGE } : { limit: limit || PAGE, marker: after }) })}`;
}

/** Whether the page itself sorts or filters the list. */
const isOwn = ({ order, cell }) => Boolean(cell) || (order || "made desc").split(" ")[0] in OWN_ORDERS;

/** Reads the page of the list that the filters describe: its servers, the id behind which the next page begins, and whether all were read. */
async function read(filters, all, abort) {
  const { cell, order, after, limit } = filters;
  if (!isOwn(filters)) {
    const { servers, servers_links } = await get(question(filters, all), abort);
    const more = servers_links?.find((other) => other.rel === "next")?.href;
    return { page: servers, later: more ? new URL(more).searchParams.get("marker") : null, isWhole: true };
  }
  const [key, direction] = (order || "made desc").split(" ");
  const { servers, isWhole } = await readAll(question(filters, all), abort);
  if (cell || key === "cell") await learnCells(servers.map((server) => server["OS-EXT-SRV-ATTR:host"]));
  // Without the list of projects the column shows ids, and is sorted by them.
  if (key === "project" && all) await allProjects().catch(() => {});
  const fitting = servers.filter((server) => !cell || OWN_ORDERS.cell(server) === cell);
  return { ...pageOf(OWN_ORDERS[key] ? inOrder(fitting, OWN_ORDERS[key], direction) : fitting, after, Number(limit) || PAGE), isWhole };
}

/** The addresses of a server, fixed ones first. */
export const addressesOf = (server) => Object.values(server.addresses ?? {}).flat().sort((one, other) =>
  String(one["OS-EXT-IPS:type"]).localeCompare(String(other["OS-EXT-IPS:type"]))).map((address) => address.addr);

export function view(main, page) {
  page.title("Servers");
  const all = page.may("os_compute_api:servers:index:get_all_tenants");
  const filters = Object.fromEntries(["name", "status", "cell", "host", "project", "address", "flavor", "order", "after", "limit"].map((name) => [name, page.query.get(name) ?? ""]));
  const columns = ["server", "state", ...(all ? ["cell", "host"] : []), "flavor", "addresses", ...(all ? ["project"] : []), "zone", "made"];
  const servers = table(all ? "Servers of all projects" : "Servers of your project", columns, "No server fits the filters.");
  const trouble = h("p", { class: "trouble", role: "alert" }), cut = h("p", { class: "quiet", role: "status" });
  let later = null;
  const next = button("Next page", () => turn(later), { id: "next-page" });
  const first = button("First page", () => turn(""), { id: "first-page" });

  function change(name, value) {
    Object.assign(filters, { [name]: value.trim(), after: "" });
    remember("/servers", filters);
    again();
  }
  function turn(after) {
    filters.after = after;
    remember("/servers", filters, true);
    again();
    scrollTo(0, 0);
  }
  const text = (name, label, hint) => field(label, h("input", { id: `${name}-filter`, type: "search", value: filters[name], placeholder: hint,
    onchange: (event) => change(name, event.target.value) }));
  const list = (name, label, options) => field(label, choice(options, filters[name], (value) => change(name, value), { id: `${name}-filter` }));
  const sorted = () => field("Sorted by", choice(ORDERED.filter(([word]) => !word || columns.includes(word.split(" ")[0])), filters.order,
    (value) => { change("order", value); heads(); }, { id: "order-filter" }));
  const cells = h("span", {}), flavors = h("span", {}), projects = h("span", {}), order = h("span", {}, sorted());
  main.append(page.may("os_compute_api:servers:create") ? h("p", {}, link("Create a server", "#/create")) : "",
    h("div", { class: "filters" }, text("name", "Name", "a part of it"), list("status", "State", STATES.map((word) => [word, word ? word.toLowerCase().replaceAll("_", " ") : "all"])),
      text("address", "Address", "a part of it"), cells, all ? text("host", "Host", "its whole name") : null, flavors, projects, order),
    trouble, cut, servers.element, h("p", { class: "buttons" }, first, next));
  heads();
  choices();

  /** Makes the heads of the columns that can be sorted by into buttons. */
  function heads() {
    const [now, direction] = (filters.order || "made desc").split(" ");
    columns.forEach((name, index) => {
      if (!ORDERS[name] && !OWN_ORDERS[name]) return;
      const turned = name === now && direction === "asc" ? "desc" : "asc";
      servers.heads[index].setAttribute("aria-sort", name !== now ? "none" : direction === "asc" ? "ascending" : "descending");
      servers.heads[index].replaceChildren(button(name !== now ? name : `${name} ${direction === "asc" ? "▲" : "▼"}`, () => {
        change("order", `${name} ${turned}`);
        order.replaceChildren(sorted());
        heads();
        servers.heads[index].firstChild.focus();
      }, { class: "head" }));
    });
  }

  async function choices() {
    try {
      const offered = (await get("/compute/v2.1/flavors", page.signal)).flavors;
      flavors.replaceChildren(list("flavor", "Flavor", [["", "all"], ...offered.map((flavor) => [flavor.id, flavor.name])]));
      if (all && page.may("ops:cells")) {
        const named = (await get("/ops/v1/cells?hosts=false", page.signal)).cells.map((cell) => cell.name);
        cells.replaceChildren(list("cell", "Cell", [["", "all"], ...named.map((name) => [name, name])]));
      }
      if (all) projects.replaceChildren(list("project", "Project", [["", "all"], ...(await allProjects()).map((project) => [project.id, project.name])]));
    } catch { /* The list is there without these filters. */ }
  }

  const again = follow(async () => {
    try {
      const { page: rows, later: behind, isWhole } = await read(filters, all, page.signal);
      later = behind;
      next.hidden = !later;
      first.hidden = !filters.after;
      trouble.textContent = "";
      cut.textContent = isWhole ? "" : `More than ${MOST} servers fit, and this list is made of ${MOST} of them. Filter further, or list all with cellshift servers.`;
      learn(rows);
      servers.show(rows, (server) => server.id, row);
    } catch (error) { if (error.name !== "AbortError") trouble.textContent = error.message; }
  }, page.signal, 4000, 1000);

  function row(server) {
    const host = server["OS-EXT-SRV-ATTR:host"], task = server["OS-EXT-STS:task_state"];
    return [[serverLink(server.id), server.name ? null : " its cell does not answer"], [state(server.status), task ? ` ${task}` : null],
      ...(all ? [cellOf(host), hostLink(host)] : []), server.flavor?.original_name ?? "–", addressesOf(server).join(", ") || "–",
      ...(all ? [projectName(server.tenant_id)] : []), server["OS-EXT-AZ:availability_zone"] || "–", ago(server.created)];
  }
}

const ORDERED = [["", "newest first"], ["made asc", "oldest first"], ["server asc", "name"], ["server desc", "name, backwards"], ["state asc", "state"], ["cell asc", "cell"], ["host asc", "host"],
  ["flavor asc", "flavor"], ["addresses asc", "address"], ["project asc", "project"], ["zone asc", "zone"]];
