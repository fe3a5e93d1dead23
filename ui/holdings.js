// Holdings of one server, which the audit compares: its record, the owner of its guest, its allocations, and the guests that hosts report.

import { get } from "./api.js";
import { facts, h, hostLink, id, moveLink, put, section, table } from "./dom.js";

const POWER = { 0: "no state", 1: "running", 3: "paused", 4: "off", 7: "suspended" };
const amounts = (resources) => Object.entries(resources).map(([name, amount]) => `${amount} ${name}`).join(", ");

/** The section, and how it is read anew. */
export function holdings(page, uuid) {
  const owner = h("div", {}), silent = h("p", { class: "trouble" });
  const held = table("Allocations", ["provider", "held by", "amounts"], "Nothing is held for it in placement.");
  const guests = table("Guests that hosts report", ["host", "guest", "power", "started in epoch", "obeyed fence", "disks", "volumes and ports"], "No host that was asked has a guest or disks of it.");

  async function refresh() {
    let read;
    try {
      read = await get(`/ops/v1/servers/${encodeURIComponent(uuid)}`, page.signal);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      for (const part of [held, guests]) part.fail(error);
      throw error;
    }
    const { record, ownership } = read;
    put(owner, facts([["record", record ? [`${record.cell} / `, hostLink(record.host), `, ${record.vm_state}`] : `not known: ${read.silence}`],
      ["owner of its guest", ownership?.host ? [`${ownership.cell} / `, hostLink(ownership.host)] : "nobody"],
      ["epoch and attempt", ownership ? `${ownership.epoch}, ${ownership.attempt}` : "–"],
      ["held by", read.held_by ? moveLink(read.held_by) : "no operation"]]));
    silent.textContent = read.silent_hosts.map((one) => `${one.host}: ${one.reason}.`).join(" ");
    held.show(read.allocations, (one) => `${one.consumer} ${one.provider}`, (one) => [one.name ? hostLink(one.name) : id(one.provider),
      one.kind === "server" ? "the server" : ["the move ", moveLink(one.consumer)], amounts(one.resources)]);
    guests.show(read.guests, (one) => one.host, (one) => [[`${one.cell} / `, hostLink(one.host)], one.defined ? "defined" : "kept disks only", POWER[one.power_state] ?? "?",
      String(one.started_epoch), `${one.fence.epoch}, ${one.fence.attempt}`, one.disks.join(", ") || "–", `${one.volumes.length} and ${one.ports.length}`]);
  }

  return { element: section("What the audit compares", owner, silent, held.element, guests.element), refresh };
}
