// Names of servers and projects, and the cells of hosts: answers often have ids alone, and people do not think in ids.

import { get, nextOf } from "./api.js";
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

let hosts = null;
/** Reads the cells of all hosts at once, for lists that sort by cells, and again if a host's is missing. */
export async function learnCells(of) {
  if (!may("ops:cells")) return;
  if (of.some((host) => host && !cells.known.get(host))) hosts = null;
  hosts ??= allHosts();
  hosts.catch(() => { hosts = null; });
  await hosts;
}

async function allHosts() {
  let next = "/ops/v1/hosts?limit=1000";
  while (next) {
    const read = await get(next);
    read.hosts.forEach((host) => cells.learn(host.name, host.cell));
    next = nextOf(read.hosts_links);
  }
}

/** The name of a host's cell, as far as it is known. */
export const cellNameOf = (host) => cells.known.get(host) ?? "";

/** The name of a project, as far as it is known; else its id. */
export const projectNameOf = (id) => projects.known.get(id) ?? id;

const groups = new Names("group", async (id) => (await get(`/compute/v2.1/os-server-groups/${encodeURIComponent(id)}`)).server_group.name);

/** Begins anew for this session: names that another user could see are forgotten. */
export function begin(of) {
  session = of;
  listed = hosts = null;
  for (const names of [servers, cells, projects, groups]) names.forget();
}

/** All projects, for those who see the servers of all; else the own. */
export function allProjects() {
  if (!may("os_compute_api:servers:index:get_all_tenants")) return Promise.resolve([session.project]);
  listed ??= get("/identity/v3/projects").then((read) => {
    read.projects.forEach((project) => projects.learn(project.id, project.name));
    return read.projects.sort((one, other) => one.name.localeCompare(other.name));
  });
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

/** A link to a server group by its name, with its id as the title. */
export const groupLink = (id) => h("a", { href: `#/groups/${encodeURIComponent(id)}`, title: id, "data-group": id }, groups.of(id, short(id)));

/** The own user's name; of others the beginning of the id, because the page's session does not reach the list of users. */
export const userName = (id) => (id ? h("span", { title: id }, id === session?.user.id ? session.user.name : short(id)) : "–");

/** The name of a host's cell. */
export const cellOf = (host) => (host ? h("span", { "data-cell-of": host }, cells.of(host, "–")) : "–");
