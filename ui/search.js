// The search box of the header: from a name, an id, an address, a host or a request to its page, or to a list of what fits.

import { get, query } from "./api.js";
import { literally } from "./address.js";
import { h, link, state, table } from "./dom.js";

/** The hits of one kind that are shown, and the operations that the beginning of an id is looked for in. */
const HITS = 20, SEARCHED = 1000;
const REQUEST = /^req-[0-9a-f-]{36}$/i, WHOLE_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const BEGINNING = /^[0-9a-f][0-9a-f-]{3,}$/i, ADDRESS = /^[0-9a-f]*[.:][0-9a-f.:]*$/i, NO_REQUEST = /^(?!req-)/i;

/** The box, which keeps what was looked for. */
export function box(text = "") {
  const input = h("input", { type: "search", name: "text", id: "search", value: text, required: true, placeholder: "Search", "aria-label": "Search",
    title: "A name, an id or its beginning, an address, a host, or the id of a request" });
  return h("form", { role: "search", class: "search", onsubmit: (event) => {
    event.preventDefault();
    location.hash = `#/search${query({ text: input.value.trim() })}`;
  } }, input);
}

/** The hits among records: a record's kind, name, address, state, and what it belongs to. */
const HIT = {
  server: (server) => ["server", server.name ?? server.id, `#/servers/${server.id}`, server.status, server["OS-EXT-SRV-ATTR:host"]],
  moved: (move) => ["server", move.server_name ?? move.server, `#/servers/${move.server}`, null, move.server],
  move: (move) => [move.saga.replaceAll("_", " "), move.uuid, `#/moves/${move.uuid}`, move.state, move.server_name ?? move.server],
  host: (host) => ["host", host.name, `#/hosts/${encodeURIComponent(host.name)}`, host.state, host.cell],
  group: (group) => ["group", group.name, `#/groups/${group.id}`, null, group.policy],
  drain: (drain) => ["drain", drain.id, `#/drains/${drain.id}`, drain.state, drain.cell ?? drain.hosts?.join(", ")],
};

/** Where is looked for a text of this form, if the policy allows it. Each gets the text, a reader of routes, and whether an id begins so. */
const PLACES = [
  [REQUEST, "ops:migrations", async (text, read) => (await read(`/ops/v1/migrations${query({ request: text, limit: HITS })}`)).migrations.map(HIT.move)],
  [NO_REQUEST, null, (text, read) => servers(read, { name: literally(text) })],
  [ADDRESS, null, (text, read) => servers(read, { [text.includes(":") ? "ip6" : "ip"]: literally(text) })],
  [WHOLE_ID, "os_compute_api:servers:allow_all_filters", (text, read) => servers(read, { uuid: text })],
  [NO_REQUEST, "ops:cells", async (text, read) => (await read(`/ops/v1/hosts${query({ name: text, limit: HITS })}`)).hosts.map(HIT.host)],
  [NO_REQUEST, "ops:group_moves", async (text, read, begins) => (await read("/compute/v2.1/os-server-groups?all_projects=True")).server_groups
    .filter((group) => group.name === text || begins(group.id)).map(HIT.group)],
  [BEGINNING, "ops:migrations", async (text, read, begins) => {
    const { migrations } = await read(`/ops/v1/migrations?limit=${SEARCHED}`);
    return [...migrations.filter((move) => begins(move.uuid)).map(HIT.move), ...migrations.filter((move) => begins(move.server)).map(HIT.moved)];
  }],
  [BEGINNING, "ops:drains", async (text, read, begins) => (await read("/ops/v1/drains?limit=100")).drains.filter((drain) => begins(drain.id)).map(HIT.drain)],
];

/** What is asked by its whole id if no list has it: an operation that is not among the newest, and a member's server. */
const BY_ID = [
  ["ops:migrations", async (text, read) => [HIT.move(await read(`/ops/v1/migrations/${text}`))]],
  [null, async (text, read) => [HIT.server((await read(`/compute/v2.1/servers/${text}`)).server)]],
];

async function servers(read, filter) {
  return (await read(`/compute/v2.1/servers/detail${query({ limit: HITS, ...filter })}`)).servers.map(HIT.server);
}

/** All that fits a text, of each kind that the user may see; each thing once. */
export async function search(text, page) {
  const all = page.may("os_compute_api:servers:index:get_all_tenants");
  const read = (path) => get(all && path.includes("/servers/detail?") ? `${path}&all_tenants=1` : path, page.signal);
  const begins = (id) => BEGINNING.test(text) && id.toLowerCase().startsWith(text.toLowerCase());
  const may = (rule) => !rule || page.may(rule);
  // A place that cannot be looked at now keeps no other from being found.
  const looked = async (places) => (await Promise.allSettled(places.map((look) => look(text, read, begins)))).flatMap((answer) => answer.value ?? []);

  let hits = await looked(PLACES.filter(([form, rule]) => form.test(text) && may(rule)).map(([, , look]) => look));
  if (!hits.length && WHOLE_ID.test(text)) hits = await looked(BY_ID.filter(([rule]) => may(rule)).map(([, look]) => look));
  return hits.filter(([, , href], index) => hits.findIndex(([, , other]) => other === href) === index);
}

export function view(main, page) {
  const text = page.query.get("text") ?? "";
  page.title("Search");
  const hits = table("What was found", ["kind", "name", "state", "of"], `Nothing that you may see fits ${text}.`);
  const cut = h("p", { class: "quiet" });
  main.append(h("p", {}, `For ${text}`), hits.element, cut);
  search(text, page).then((found) => {
    if (page.signal.aborted) return;
    // A single hit takes the place of the list, so that the way back does not lead here.
    if (found.length === 1) { location.replace(found[0][2]); return; }
    const servers = found.filter(([kind]) => kind === "server").length;
    cut.textContent = servers < HITS ? "" : `The first ${HITS} servers are shown. The list of servers has all, by a part of a name or of an address.`;
    hits.show(found, ([, , href]) => href, ([kind, name, href, word, of]) => [kind, link(name, href), word ? state(word) : "–", of ?? ""]);
  });
}
