// The buttons of a server's page: what its state and the policy allow, and the question before what cannot be taken back.

import { change, post } from "./api.js";
import { ask, button, choice, field, h, tell } from "./dom.js";
import { OPERATIONS } from "./operations.js";

/** An input into which a name must be typed, so that nothing is destroyed by a slip. */
export function typedName(name) {
  const pattern = name.replace(/[\^$\\.*+?()[\]{}|/]/g, "\\$&");
  return field(`Type ${name} to confirm`, h("input", { name: "typed-name", required: true, pattern, autocomplete: "off", spellcheck: "false", title: `The name: ${name}` }));
}

async function input(spec, signal) {
  const { name, label, type = "text", value = "", required = false } = spec;
  if (!spec.choices) return field(label, h("input", { name, type, value, required, autocomplete: type === "password" ? "new-password" : "off" }));
  const options = await spec.choices(signal);
  return field(label, choice(options, options[0]?.[0], null, { name }));
}

const fits = (operation, server) => (!operation.states || operation.states.includes(server.status)) && (operation.locked === undefined || operation.locked === server.locked);

/** The buttons for a server, made again for each of its states, with one more. `again` is called after each try. */
export function actions(server, page, again, extra) {
  const path = `/compute/v2.1/servers/${encodeURIComponent(server.id)}`;
  const allowed = OPERATIONS.filter((operation) => page.may(operation.rule) && fits(operation, server));
  const made = (operation) => button(operation.title ? `${operation.label}…` : operation.label, () => perform(operation),
    { id: operation.id, class: operation.danger ? "danger" : null });

  async function perform(operation) {
    try {
      const answer = operation.title ? await question(operation) : {};
      if (!answer) return;
      if (operation.action) await post(`${path}/action`, { [operation.action]: operation.body?.(answer) ?? null });
      else await change("DELETE", path);
      tell(`${operation.label}: accepted`);
      if (!operation.action) location.hash = "#/servers";
    } catch (error) { if (error.name !== "AbortError") tell(error.message, "trouble"); }
    again();
  }

  async function question({ title, text, label, fields = [], typed }) {
    const inputs = await Promise.all(fields.map((spec) => input(spec, page.signal)));
    return ask(title, text, label, ...inputs, typed ? typedName(server.name) : null);
  }

  async function rename() {
    const answer = await ask("Rename the server?", null, "Rename", field("Name", h("input", { name: "name", required: true, maxlength: 255, value: server.name })));
    if (!answer) return;
    try { await change("PUT", path, { server: { name: answer.name } }); } catch (error) { tell(error.message, "trouble"); }
    again();
  }

  const rare = allowed.filter((operation) => operation.more).map(made);
  if (page.may("os_compute_api:servers:update")) rare.unshift(button("Rename…", rename, { id: "rename" }));
  return [h("div", { class: "buttons" }, allowed.filter((operation) => !operation.more).map(made), extra),
    rare.length ? h("details", { class: "more" }, h("summary", {}, "More actions"), h("div", { class: "buttons" }, rare)) : null];
}
