// The servers that the caller may see: an administrator those of all projects, a member those of the own. Filters and order are in the address.

import { get, query } from "./api.js";
import { literally, remember } from "./address.js";
import { ago, button, choice, field, h, hostLink, link, state, table } from "./dom.js";
import { follow } from "./live.js";
import { allProjects, cellOf, learn, projectName, serverLink } from "./names.js";

const STATES = ["", "ACTIVE", "SHUTOFF", "VERIFY_RESIZE", "RESIZE", "MIGRATING", "ERROR", "BUILD", "PAUSED", "SUSPENDED", "RESCUE", "SHELVED_OFFLOADED", "SOFT_DELETED"];
/** The columns that lists can be sorted by, with the API's keys. */
const ORDERS = { server: "display_name", state: "vm_state", host: "host", flavor: "instance_type_id", project: "project_id", zone: "availability_zone", made: "created_at" };
/** The servers of a page, unless the address says `limit`. */
const PAGE = 50;

/** The question to the API for these filters. */
export function question(filters, all) {
  const { name, status, host, project, address, flavor, order, after, limit } = filters;
  const [key, direction] = (order || "made desc").split(" ");
  const ip = address ? { [address.includes(":") ? "ip6" : "ip"]: literally(address) } : {};
  return `/compute/v2.1/servers/detail${query({ all_tenants: all ? 1 : "", name: name && literally(name), status, host, project_id: project, ...ip, flavor,
    sort_key: ORDERS[key] ?? "", sort_dir: ORDERS[key] ? direction : "", limit: limit || PAGE, marker: after })}`;
}

/** The addresses of a server, fixed ones first. */
export const addressesOf = (server) => Object.values(server.addresses ?? {}).flat().sort((one, other) =>
  String(one["OS-EXT-IPS:type"]).localeCompare(String(other["OS-EXT-IPS:type"]))).map((address) => address.addr);

export function view(main, page) {
  page.title("Servers");
  const all = page.may("os_compute_api:servers:index:get_all_tenants");
  const filters = Object.fromEntries(["name", "status", "host", "project", "address", "flavor", "order", "after", "limit"].map((name) => [name, page.query.get(name) ?? ""]));
  const columns = ["server", "state", ...(all ? ["cell", "host"] : []), "flavor", "addresses", ...(all ? ["project"] : []), "zone", "made"];
  const servers = table(all ? "Servers of all projects" : "Servers of your project", columns, "No server fits the filters.");
  const trouble = h("p", { class: "trouble", role: "alert" });
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
  const flavors = h("span", {}), projects = h("span", {}), order = h("span", {}, sorted());
  main.append(page.may("os_compute_api:servers:create") ? h("p", {}, link("Create a server", "#/create")) : "",
    h("div", { class: "filters" }, text("name", "Name", "a part of it"), list("status", "State", STATES.map((word) => [word, word ? word.toLowerCase().replaceAll("_", " ") : "all"])),
      text("address", "Address", "a part of it"), all ? text("host", "Host", "its whole name") : null, flavors, projects, order),
    trouble, servers.element, h("p", { class: "buttons" }, first, next));
  heads();
  choices();

  /** Makes the heads of the columns that can be sorted by into buttons. */
  function heads() {
    const [now, direction] = (filters.order || "made desc").split(" ");
    columns.forEach((name, index) => {
      if (!ORDERS[name]) return;
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
      const read = (await get("/compute/v2.1/flavors", page.signal)).flavors;
      flavors.replaceChildren(list("flavor", "Flavor", [["", "all"], ...read.map((flavor) => [flavor.id, flavor.name])]));
      if (all) projects.replaceChildren(list("project", "Project", [["", "all"], ...(await allProjects()).map((project) => [project.id, project.name])]));
    } catch { /* The list is there without these filters. */ }
  }

  const again = follow(async () => {
    try {
      const read = await get(question(filters, all), page.signal);
      const more = read.servers_links?.find((other) => other.rel === "next")?.href;
      later = more ? new URL(more).searchParams.get("marker") : null;
      next.hidden = !later;
      first.hidden = !filters.after;
      trouble.textContent = "";
      learn(read.servers);
      servers.show(read.servers, (server) => server.id, row);
    } catch (error) { if (error.name !== "AbortError") trouble.textContent = error.message; }
  }, page.signal, 4000, 1000);

  function row(server) {
    const host = server["OS-EXT-SRV-ATTR:host"], task = server["OS-EXT-STS:task_state"];
    return [[serverLink(server.id), server.name ? null : " its cell does not answer"], [state(server.status), task ? ` ${task}` : null],
      ...(all ? [cellOf(host), hostLink(host)] : []), server.flavor?.original_name ?? "–", addressesOf(server).join(", ") || "–",
      ...(all ? [projectName(server.tenant_id)] : []), server["OS-EXT-AZ:availability_zone"] || "–", ago(server.created)];
  }
}

const ORDERED = [["", "newest first"], ["made asc", "oldest first"], ["server asc", "name"], ["server desc", "name, backwards"], ["state asc", "state"], ["host asc", "host"],
  ["flavor asc", "flavor"], ["project asc", "project"], ["zone asc", "zone"]];
