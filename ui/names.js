// Names of servers and projects, and the cells of hosts: answers often have ids alone, and people do not think in ids.

import { get } from "./api.js";
import { h } from "./dom.js";

/** The number of questions for names that may be open at once. */
const AT_ONCE = 4;
/** Deleted servers are listed by the time of their last change. */
const EVER = "1970-01-01T00:00:00Z";

let session = null;
const may = (rule) => session?.rules[rule] === true;

/** Names of one kind, each asked for once. An element that needs a name gets it when it is known. */
class Names {
  constructor(kind, read) {
    this.kind = kind;
    this.read = read;
    this.open = 0;
    this.forget();
  }

  forget() {
    this.known = new Map();
    this.queue = [];
  }

  learn(key, name) {
    if (!name || this.known.get(key) === name) return;
    this.known.set(key, name);
    for (const element of document.querySelectorAll(`[data-${this.kind}="${CSS.escape(key)}"]`)) element.replaceChildren(name);
  }

  /** The name, or `otherwise` until it is known. */
  of(key, otherwise) {
    if (!this.known.has(key)) {
      this.known.set(key, null);
      this.queue.push(key);
      queueMicrotask(() => this.ask());
    }
    return this.known.get(key) ?? otherwise;
  }

  async ask() {
    while (this.open < AT_ONCE && this.queue.length) {
      const key = this.queue.shift();
      this.open += 1;
      // A name that cannot be read now stays an id until it is shown again.
      this.read(key).then((name) => this.learn(key, name), () => this.known.delete(key)).then(() => { this.open -= 1; this.ask(); });
    }
  }
}

const servers = new Names("server", async (uuid) => {
  if (!may("os_compute_api:servers:allow_all_filters")) return null;
  const path = `/compute/v2.1/servers?all_tenants=1&uuid=${encodeURIComponent(uuid)}&changes-since=${encodeURIComponent(EVER)}`;
  return (await get(path)).servers.find((server) => server.id === uuid)?.name;
});

const cells = new Names("cell-of", async (host) => {
  if (!may("ops:cells")) return null;
  return (await get(`/ops/v1/hosts/${encodeURIComponent(host)}`)).host.cell;
});

let listed = null;
const projects = new Names("project", async (id) => {
  if (id === session?.project.id) return session.project.name;
  return (await allProjects()).find((project) => project.id === id)?.name;
});

/** Begins anew for this session: names that another user could see are forgotten. */
export function begin(of) {
  session = of;
  listed = null;
  for (const names of [servers, cells, projects]) names.forget();
}

/** All projects, for those who see the servers of all; else the own. */
export function allProjects() {
  if (!may("os_compute_api:servers:index:get_all_tenants")) return Promise.resolve([session.project]);
  listed ??= get("/identity/v3/projects").then((read) => read.projects.sort((one, other) => one.name.localeCompare(other.name)));
  listed.catch(() => { listed = null; });
  return listed;
}

const short = (id) => h("code", {}, id.slice(0, 8));

/** Keeps the names of servers that were just read. */
export const learn = (read) => read.forEach((server) => servers.learn(server.id, server.name));

/** A link to a server by its name; by the beginning of its id until the name is known. `past` is a name that it had. */
export function serverLink(uuid, past) {
  if (!uuid) return "–";
  if (past && !servers.known.get(uuid)) servers.learn(uuid, past);
  return h("a", { href: `#/servers/${encodeURIComponent(uuid)}`, title: uuid, "data-server": uuid }, servers.of(uuid, short(uuid)));
}

/** A project's name, with its id as the title. */
export const projectName = (id) => (id ? h("span", { title: id, "data-project": id }, projects.of(id, short(id))) : "–");

/** The name of a host's cell. */
export const cellOf = (host) => (host ? h("span", { "data-cell-of": host }, cells.of(host, "–")) : "–");
