// The fields of a drain, which its dry run and the question about capacity share: where to, how many at once, and the map of flavors.

import { get } from "./api.js";
import { button, choice, field, h } from "./dom.js";

/** The cells that could take servers of `home`, and these cells and the zones as options; a host's servers may also stay in its cell. */
async function destinations(home, isHost, abort) {
  const [{ cells }, zones] = await Promise.all([get("/ops/v1/cells?hosts=false", abort), get("/compute/v2.1/os-availability-zone", abort)]);
  const inside = isHost ? [["", `other hosts of ${home}`]] : [];
  const others = cells.filter((cell) => cell.host_counts.total && cell.name !== home).map((cell) => cell.name);
  const named = (kind, names) => names.map((name) => [`${kind} ${name}`, `${kind} ${name}`]);
  const together = others.length > 1 ? [["cells", `the cells ${others.join(", ")} together`]] : [];
  return [others, [...inside, ...named("cell", others), ...together, ...named("zone", zones.availabilityZoneInfo.map(({ zoneName }) => zoneName))]];
}

/** The part of a request that an option of `destinations` means; `cells` are the other cells. */
function aimOf(option, cells) {
  const [kind, ...name] = option.split(" ");
  if (!kind) return {};
  if (option === "cells") return { to_cells: cells };
  return kind === "cell" ? { to_cell: name.join(" ") } : { to_zone: name.join(" ") };
}

/** Rows that say which flavor a server gets when it moves. `value()` is the map of a request; null if it is empty. */
function flavorMap(flavors, onchange) {
  const names = flavors.map(({ name }) => name).sort();
  const rows = h("div", {});
  const add = () => {
    const select = (label) => choice(names.map((name) => [name, name]), names[0], onchange, { "aria-label": label });
    const row = h("p", { class: "flavors" }, select("A server of this flavor"), " gets ", select("gets this flavor"), " ",
      button("Remove", () => { row.remove(); onchange(); }));
    rows.append(row);
    onchange();
  };
  const element = h("fieldset", {}, h("legend", {}, "Flavors of servers that move cold"),
    h("p", { class: "quiet" }, "A server keeps its flavor, unless a row here gives it another one."), rows,
    names.length ? button("Map a flavor…", add, { id: "map-flavor" }) : null);
  const value = () => {
    const pairs = [...rows.children].map((row) => [...row.querySelectorAll("select")].map((select) => select.value));
    return pairs.length ? Object.fromEntries(pairs) : null;
  };
  return { element, value };
}

/**
 * The fields for a host or a cell (`what` is `{host}` or `{cell}`), which is in the cell `home`. `wish()` is the request that they make, and
 * `wishTo(aim)` the same with another aim; `cells` are the other cells. `onchange` hears of every change.
 */
export async function drainFields(what, home, abort, onchange) {
  const [[cells, options], { flavors }] = await Promise.all([destinations(home, Boolean(what.host), abort), get("/compute/v2.1/flavors/detail?is_public=none", abort)]);
  const where = choice(options, options[0]?.[0], onchange, { id: "drain-to" });
  const most = h("input", { id: "at-once", type: "number", min: 1, max: 64, value: "4", onchange });
  const confirms = h("input", { id: "confirms", type: "checkbox", onchange });
  const map = flavorMap(flavors, onchange);
  const wishTo = (aim) => {
    const flavor_map = map.value();
    return { ...what, ...aim, max_in_flight: Number(most.value) || 4, confirm: confirms.checked, ...(flavor_map ? { flavor_map } : {}) };
  };
  const wish = () => wishTo(aimOf(where.value, cells));
  return { where: field("To", where), most: field("Moves at once", most), confirms: field("Confirm cold moves", confirms), map: map.element, wish, wishTo, cells };
}
