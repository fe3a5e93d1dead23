// Work that waits for people: moves to confirm, debts, deletes, hosts that are down, drains that stand. The overview counts it, and a page lists it.

import { get, query, recent } from "./api.js";
import { age, ago, bytes, h, hostLink, id, moveLink, place, section, serverLink, state, table } from "./dom.js";
import { follow } from "./live.js";

/** The longest of these lists. */
const MOST = 1000;

const NAMES = { VCPU: (amount) => `${amount} vCPU${amount === 1 ? "" : "s"}`, MEMORY_MB: (amount) => `${bytes(amount * 1024 ** 2).replace(".0", "")} of memory`, DISK_GB: (amount) => `${amount} GiB of disk` };

/** An amount of resources in words. */
export function roomWords(room) {
  const words = Object.entries(NAMES).filter(([name]) => room?.[name]).map(([name, word]) => word(room[name]));
  return words.join(", ") || "–";
}

/** The moves that wait for a confirm or a revert, the longest waiting first. */
export const unconfirmed = async (abort) => (await recent(`/ops/v1/unconfirmed-moves${query({ limit: MOST })}`, abort)).unconfirmed_moves;

/** A drain that goes on by itself does not wait: one that is paused does, and one that cannot go on. */
const stands = (drain) => drain.state === "paused" || (drain.state === "running" && Boolean(drain.reason));

const name = (text) => text.replaceAll("_", " ");

/** Each list: its title, its table, the rule that it needs, and how its rows are read, named and shown. */
const LISTS = {
  confirms: {
    title: "Moves that wait for a confirm or a revert", columns: ["server", "move", "waits for", "it is at", "room is held at", "the room"], none: "No move waits.",
    rule: "ops:migrations", read: unconfirmed, key: (row) => row.migration,
    cells: (row) => [serverLink(row.server, row.server_name), moveLink(row.migration), age(row.since), place(row.target), place(row.source), roomWords(row.room)],
  },
  debts: {
    title: "Debts: undos and clean-ups that are still to be done", columns: ["operation", "server", "step", "for", ["tries", "n"], "operator", "why"], none: "Nothing is owed.",
    rule: "ops:migrations",
    read: async (abort) => (await recent(`/ops/v1/migrations${query({ owing: true, limit: MOST })}`, abort)).migrations
      .flatMap((move) => move.debts.map((debt) => ({ ...debt, move }))),
    key: (debt) => `${debt.move.uuid} ${debt.step} ${debt.side}`,
    cells: (debt) => [moveLink(debt.move.uuid), serverLink(debt.move.server, debt.move.server_name),
      `${debt.side} of ${name(debt.step)}`, age(debt.since), String(debt.tries), debt.needs_operator ? state("needs_operator") : "not needed yet", debt.reason],
  },
  deletes: {
    title: "Deletes that wait", columns: ["server", "cell", "waits for", ["tries", "n"], "next try", "why"], none: "No delete waits.",
    rule: "ops:queued_deletes",
    read: async (abort) => (await get(`/ops/v1/queued-deletes${query({ limit: MOST })}`, abort)).queued_deletes,
    key: (one) => one.server,
    cells: (one) => [serverLink(one.server, one.name), [one.cell ?? "none", one.cell_health ? [" ", state(one.cell_health)] : null], age(one.since), String(one.attempts),
      ago(one.next_try_at), one.last_error ?? one.cell_reason ?? ""],
  },
  hosts: {
    title: "Hosts that are down", columns: ["host", "cell", "state", ["servers", "n"]], none: "No host is down.",
    rule: "ops:cells",
    read: async (abort) => (await recent(`/ops/v1/hosts${query({ state: "down", limit: MOST })}`, abort)).hosts,
    key: (host) => host.name,
    cells: (host) => [hostLink(host.name), host.cell, [state(host.state), host.forced_down ? " forced" : ""], host.servers === null ? "?" : String(host.servers)],
  },
  drains: {
    title: "Drains that stand", columns: ["drain", "of", "state", "for", "why"], none: "No drain stands.",
    rule: "ops:drains",
    read: async (abort) => (await get(`/ops/v1/drains${query({ limit: MOST })}`, abort)).drains.filter(stands),
    key: (drain) => drain.id,
    cells: (drain) => [id(drain.id, `#/drains/${drain.id}`), drain.whole_cell ? `cell ${drain.cell}` : drain.hosts.join(", "), state(drain.state),
      age(drain.updated_at), drain.reason ?? "an operator paused it"],
  },
};

/** The page with all lists; an address with a list's name shows that one first. */
export function view(main, page, first) {
  page.title("Waiting for people");
  const names = Object.keys(LISTS).filter((name) => page.may(LISTS[name].rule)).sort((one, other) => (other === first) - (one === first));
  for (const name of names) {
    const { title, columns, none, read, key, cells } = LISTS[name];
    const list = table(title, columns, none);
    const part = section(title, list.element);
    part.id = name;
    main.append(part);
    follow(async () => {
      try { list.show(await read(page.signal), key, cells); } catch (error) { if (error.name !== "AbortError") list.fail(error); }
    }, page.signal, 4000, 1500);
  }
  if (!names.length) main.append(h("p", { class: "trouble" }, "Your roles allow none of these lists."));
}
