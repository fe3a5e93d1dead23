// The dry run of a drain, in words and tables.

import { counted, h, hostLink, serverLink, table } from "./dom.js";

/** The sentence about a dry run: how many servers move, how, and how many stay. */
export function outcome(plan) {
  const kinds = new Map();
  for (const { kind } of plan.servers) if (kind) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  const moving = [...kinds.values()].reduce((sum, count) => sum + count, 0);
  const how = [...kinds].map(([kind, count]) => (kind === "confirm" ? `${count} by a confirm` : `${count} ${kind}`)).join(", ");
  if (!plan.servers.length) return "There is no server to move.";
  if (!moving) return plan.stays === 1 ? "Its only server would stay." : `All of its ${plan.stays} servers would stay.`;
  return plan.stays ? `${counted(moving, "server")} would move (${how}), and ${plan.stays} would stay.` : `All of its servers would move: ${moving} (${how}).`;
}

/** The reasons of servers that stay, each once with the number of its servers. */
export function reasonList(reasons) {
  if (!reasons?.length) return null;
  return h("ul", { class: "reasons" }, reasons.map(({ reason, servers }) => h("li", {}, h("b", {}, `${counted(servers, "server")}: `), reason)));
}

/** The sentence about the time of the moves. */
export function timeOf(time) {
  const kinds = time.measured.map((kind) => {
    if (kind.seconds_each === null) return `no ${kind.kind} move has ended`;
    return kind.moves === 1 ? `the last ${kind.kind} move took ${kind.seconds_each} s` : `the last ${kind.moves} ${kind.kind} moves took ${kind.seconds_each} s each`;
  });
  return time.seconds === null ? `How long the moves take is not measured yet: ${kinds.join(", and ")}.` : `The moves take about ${Math.ceil(time.seconds)} s: ${kinds.join(", and ")}.`;
}

/** The hosts as they would be after the moves. */
export function fills(plan) {
  const hosts = table("The hosts after these moves", ["host", "cell", ["more servers", "n"], ["vCPUs", "n"], ["memory (MiB)", "n"], ["disk (GiB)", "n"]], "No host takes a server.");
  const used = (amount) => `${amount.after} of ${amount.total}`;
  hosts.show(plan.targets, (target) => target.host, (target) => [hostLink(target.host), target.cell, String(target.moves), used(target.vcpus),
    used(target.memory_mb), used(target.disk_gb)]);
  return hosts.element;
}

/** All that a dry run says. */
export function planView(plan) {
  const servers = table("What the drain would do", ["server", "from", "how", "to", "flavor", "why not"], "There is no server to move.");
  servers.show(plan.servers, (server) => server.server, (server) => [serverLink(server.server, server.name), hostLink(server.host), server.kind ?? "–",
    server.target ? [`${server.cell} / `, hostLink(server.target)] : "–", server.flavor ?? "–", server.reason ?? ""]);
  return [h("p", { id: "outcome" }, h("b", {}, outcome(plan))), reasonList(plan.reasons), plan.targets.length ? h("p", {}, timeOf(plan.time)) : null,
    plan.targets.length ? fills(plan) : null, servers.element];
}
