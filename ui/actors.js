// The supervised actors of this process as a tree, with the buttons that kill or pause one.

import { post } from "./api.js";
import { ask, button, field, h, put, state, tell } from "./dom.js";

/** The longest list of children that is shown at once. */
const SHOWN = 100;

/** Puts actors below those that supervise them: the name of a child begins with its parent's and a slash. */
export function tree(actors) {
  const root = { name: "", actor: null, children: [] };
  const places = new Map([["", root]]);
  const placeOf = (name) => {
    if (!places.has(name)) {
      const node = { name, actor: null, children: [] };
      places.set(name, node);
      placeOf(name.includes("/") ? name.slice(0, name.lastIndexOf("/")) : "").children.push(node);
    }
    return places.get(name);
  };
  for (const actor of actors) placeOf(actor.name).actor = actor;
  return root.children;
}

function standing(actor) {
  if (!actor.alive) return state("down", "dead");
  return actor.paused ? state("paused") : state("up", "alive");
}

/** The section. `show(actors)` draws the tree; `refresh` is called after a fault. */
export function actorTree(refresh) {
  const filter = h("input", { id: "actor-filter", type: "search", placeholder: "a part of its name", oninput: () => render() });
  const list = h("div", { class: "actors" });
  let actors = [];

  function render() {
    const part = filter.value.trim().toLowerCase();
    put(list, h("p", {}, h("b", {}, "root"), h("span", { class: "quiet" }, " starts each of these again when it dies")),
      branch(tree(actors.filter((actor) => actor.name.toLowerCase().includes(part)))));
  }

  const branch = (nodes) => (nodes.length ? h("ul", {}, nodes.slice(0, SHOWN).map(leaf),
    nodes.length > SHOWN ? h("li", { class: "quiet" }, `and ${nodes.length - SHOWN} more: filter by name`) : null) : null);

  const leaf = ({ name, actor, children }) => h("li", {}, h("span", { class: "actor" }, h("code", {}, name), actor ? [" ", standing(actor)] : null,
    actor?.restarts ? ` ${actor.restarts} restart${actor.restarts === 1 ? "" : "s"}` : "", actor?.in_flight ? ` ${actor.in_flight} at work` : "",
    actor?.alive ? [" ", button("Kill…", () => kill(name), { "aria-label": `Kill ${name}`, class: "danger" }), " ",
      button("Pause…", () => pause(name), { "aria-label": `Pause ${name}` })] : null), branch(children));

  async function kill(name) {
    if (await ask(`Kill ${name}?`, "It ends with the actors that it started, and its supervisor starts it again.", "Kill")) inject(`${name} is killed`, { kill: { actor: name } });
  }

  async function pause(name) {
    const answer = await ask(`Pause ${name}?`, "It takes no messages for this time.", "Pause",
      field("Seconds", h("input", { name: "seconds", type: "number", min: 1, max: 600, value: "5" })));
    if (answer) inject(`${name} is paused`, { pause: { actor: name, for_ms: (Number(answer.seconds) || 5) * 1000 } });
  }

  async function inject(done, fault) {
    try { await post("/ops/v1/chaos/faults", { fault }); tell(done); } catch (error) { tell(error.message, "trouble"); }
    refresh();
  }

  return { element: h("div", {}, h("div", { class: "filters" }, field("Actor", filter)), list), show: (fresh) => { actors = fresh; render(); } };
}
