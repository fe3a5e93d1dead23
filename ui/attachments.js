// Attachments of a server: its ports with their addresses, and its volumes; and the buttons that attach and detach them.

import { change, get, post } from "./api.js";
import { ask, button, choice, field, h, id, section, state, table, tell } from "./dom.js";
import { follow } from "./live.js";

/** The networks that a server of this project can be on. */
export async function networks(project, signal) {
  const read = (await get("/network/v2.0/networks?router:external=false", signal)).networks;
  return read.filter((network) => network.shared || network.tenant_id === project);
}

/** The sections with ports and volumes. `server` gives what was last read of the server. */
export function attachments(page, path, server) {
  const may = (word) => page.may(`os_compute_api:os-${word}`);
  const ports = table("Ports", ["port", "network", "addresses", "floating", "hardware address", "state", ""], "It has no port.");
  const volumes = table("Volumes", ["volume", "name", "size", "state", "device", "with the server", ""], "It has no volume.");
  const named = new Map();
  const buttonFor = (rule, label, work, attributes) => (may(rule) ? button(label, work, attributes) : null);

  const again = follow(() => Promise.all([readPorts().catch(ports.fail), readVolumes().catch(volumes.fail)]), page.signal, 10_000, 1500);

  async function readPorts() {
    const read = (await get(`${path}/os-interface`, page.signal)).interfaceAttachments;
    if (read.some((port) => !named.has(port.net_id))) {
      for (const network of (await get("/network/v2.0/networks", page.signal)).networks) named.set(network.id, network.name);
    }
    const floating = (port) => Object.values(server()?.addresses ?? {}).flat()
      .filter((address) => address["OS-EXT-IPS:type"] === "floating" && address["OS-EXT-IPS-MAC:mac_addr"] === port.mac_addr).map((address) => address.addr);
    ports.show(read.map((port) => ({ ...port, floating: floating(port) })), (port) => port.port_id, (port) => [id(port.port_id),
      named.get(port.net_id) ?? id(port.net_id), port.fixed_ips.map((ip) => ip.ip_address).join(", ") || "–", port.floating.join(", ") || "–", port.mac_addr,
      state(port.port_state), buttonFor("attach-interfaces:delete", "Detach…", () => detach(`os-interface/${port.port_id}`, "port", port.port_id)) ?? ""]);
  }

  async function readVolumes() {
    const read = (await get(`${path}/os-volume_attachments`, page.signal)).volumeAttachments;
    const rows = await Promise.all(read.map(async (attached) => {
      const shown = await get(`/volume/v3/volumes/${attached.volumeId}`, page.signal).catch(() => null);
      return { ...attached, volume: shown?.volume ?? null };
    }));
    volumes.show(rows, (row) => row.volumeId, ({ volumeId, device, volume, delete_on_termination: isDeleted }) => [id(volumeId), volume?.name || "–",
      volume ? `${volume.size} GiB` : "–", volume ? state(volume.status) : "–", device ?? "–", isDeleted ? "is deleted" : "stays",
      buttonFor("volumes-attachments:delete", "Detach…", () => detach(`os-volume_attachments/${volumeId}`, "volume", volume?.name || volumeId)) ?? ""]);
  }

  async function act(text, work) {
    try { if (await work() !== false) tell(text); } catch (error) { tell(error.message, "trouble"); }
    again();
  }

  const detach = (part, kind, name) => act("The detach is accepted", async () => {
    if (!(await ask(`Detach the ${kind}?`, `It is ${name}.`, "Detach"))) return false;
    return change("DELETE", `${path}/${part}`);
  });

  const attach = (kind, options, name, body) => act("The attach is accepted", async () => {
    const all = await options();
    if (!all.length) { tell(`There is no ${kind} to attach.`); return false; }
    const answer = await ask(`Attach a ${kind}?`, null, "Attach", field(kind === "port" ? "On the network" : "Volume", choice(all, all[0][0], null, { name: "chosen" })));
    return answer ? post(`${path}/${name}`, body(answer.chosen)) : false;
  });
  const attachPort = () => attach("port", async () => (await networks(server().tenant_id, page.signal)).map((network) => [network.id, network.name]),
    "os-interface", (chosen) => ({ interfaceAttachment: { net_id: chosen } }));
  const attachVolume = () => attach("volume", async () => (await get("/volume/v3/volumes/detail", page.signal)).volumes
    .filter((volume) => volume.status === "available").map((volume) => [volume.id, `${volume.name || volume.id}: ${volume.size} GiB`]),
  "os-volume_attachments", (chosen) => ({ volumeAttachment: { volumeId: chosen } }));

  return [section("Addresses and ports", ports.element, h("p", { class: "buttons" }, buttonFor("attach-interfaces:create", "Attach a port…", attachPort, { id: "attach-port" }))),
    section("Volumes", volumes.element, h("p", { class: "buttons" }, buttonFor("volumes-attachments:create", "Attach a volume…", attachVolume, { id: "attach-volume" })))];
}
