// Lists of servers that the compute API can neither sort nor filter: all servers are read, and sorted here by what the columns show.

import { get, nextOf } from "./api.js";

/** The most servers that are read for an order. */
export const MOST = 5000;
/** The servers of one answer. */
export const PAGE = 1000;

/** The servers that fit a question, up to the bound, and whether these are all. */
export async function readAll(question, abort) {
  const servers = [];
  let next = question;
  while (next && servers.length < MOST) {
    const read = await get(next, abort);
    servers.push(...read.servers);
    next = nextOf(read.servers_links);
  }
  return { servers: servers.slice(0, MOST), isWhole: !next && servers.length <= MOST };
}

const order = new Intl.Collator("en", { numeric: true });

/** Servers in the order of a text that `shown` makes of each, equal ones by their names. */
export function sorted(servers, shown, direction) {
  const turned = direction === "desc" ? -1 : 1;
  const ranked = servers.map((server) => [shown(server) ?? "", server.name ?? "", server]);
  ranked.sort(([one, name], [other, otherName]) => turned * (order.compare(one, other) || order.compare(name, otherName)));
  return ranked.map(([, , server]) => server);
}

/** The page of a list behind the server with the id `after`, and the id behind which the next page begins; null on the last. */
export function pageOf(servers, after, limit) {
  const from = after ? servers.findIndex((server) => server.id === after) + 1 : 0;
  const page = servers.slice(from, from + limit);
  return { page, later: from + limit < servers.length ? page.at(-1).id : null };
}
