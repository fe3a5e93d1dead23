// Servers that hold less of their hosts' networks than their ports ask for: what would be changed, and the buttons that change it.

import { get, post, query } from "./api.js";
import { ask, button, choice, counted, field, h, hostLink, moveLink, serverLink, state, table } from "./dom.js";

/** The pause between two looks at an operation. */
const BETWEEN_LOOKS = 300;
const ENDS = { healing: "running", healed: "ok", "not healed": "failed", accepted: "pending" };

export function view(main, page) {
  page.title("Healing");
  let rows = [], cell = "", busy = false;
  const only = page.query.get("server");
  const servers = table("Servers that need healing", ["server", "host", "what would change, or why it cannot", "operation", "end", ""], "No server needs healing.");
  const look = button("Look again", survey, { id: "look" });
  const all = button("Heal them all…", healAll, { id: "heal-all", class: "main" });
  const where = h("span", {}), told = h("p", { class: "quiet", role: "status" }), trouble = h("p", { class: "trouble", role: "alert" });
  main.append(h("p", { class: "quiet" }, "A server that was made before the policies of its ports may hold nothing of its host's network. ",
    "Healing gives it what its ports ask for, on its host and without touching its guest."),
  only ? h("p", {}, "Of the server ", serverLink(only), " alone. ", h("a", { href: "#/healing" }, "Look at all.")) : h("div", { class: "filters" }, where),
  h("p", { class: "buttons" }, look, all), trouble, told, servers.element);

  /** Asks what would be changed, and changes nothing. */
  async function survey() {
    look.disabled = true;
    told.textContent = "Looking…";
    try {
      rows = (await get(`/ops/v1/servers/unhealed${query({ server: only, cell })}`, page.signal)).servers;
      trouble.textContent = "";
      told.textContent = rows.length ? `Servers that need healing: ${rows.length}; that can be healed where they are: ${curable().length}.` : "";
    } catch (error) {
      if (error.name === "AbortError") return;
      [trouble.textContent, told.textContent] = [error.message, ""];
    }
    look.disabled = false;
    render();
  }

  const curable = () => rows.filter((row) => !row.obstacle && !row.end);

  function render() {
    all.hidden = !curable().length;
    look.disabled = all.disabled = busy;
    servers.show(rows.map((row) => ({ ...row, busy })), (row) => row.server, (row) => [serverLink(row.server, row.name), hostLink(row.host), row.obstacle ?? words(row.changes),
      row.operation ? moveLink(row.operation) : "–", row.end ? [state(ENDS[row.end], row.end), row.why ? `: ${row.why}` : ""] : "–",
      row.obstacle || row.end ? "" : button("Heal", () => heal([row.server]), { "aria-label": `Heal ${row.name}`, disabled: busy })]);
  }

  async function healAll() {
    const chosen = curable();
    const text = "One after the other, each as the table says. A server that cannot be healed stays as it is.";
    if (await ask(`Heal ${counted(chosen.length, "server")}?`, text, "Heal")) heal(chosen.map((row) => row.server));
  }

  function note(server, news) {
    rows = rows.map((row) => (row.server === server ? { ...row, ...news } : row));
    render();
  }

  /** Heals one after the other; none more when the page is left. */
  async function heal(chosen) {
    if (busy) return;
    busy = true;
    for (const server of chosen) {
      note(server, { end: "healing" });
      try {
        const { migration } = await post(`/ops/v1/servers/${server}/heal`, {});
        note(server, { operation: migration });
        note(server, page.may("ops:migrations") ? await ended(migration) : { end: "accepted" });
      } catch (error) {
        note(server, { end: "not healed", why: error.message });
      }
      if (page.signal.aborted) return;
    }
    busy = false;
    render();
  }

  /** Waits for the end of an operation. */
  async function ended(operation) {
    for (;;) {
      const { state, steps } = await get(`/ops/v1/migrations/${operation}`, page.signal);
      if (state === "done") return { end: "healed" };
      if (!["running", "unwinding"].includes(state)) return { end: "not healed", why: steps.find((step) => step.error)?.error ?? "it was undone" };
      await new Promise((resolve) => setTimeout(resolve, BETWEEN_LOOKS));
    }
  }

  async function cells() {
    if (only || !page.may("ops:cells")) return;
    try {
      const named = (await get("/ops/v1/cells?hosts=false", page.signal)).cells.filter((one) => one.host_counts.total).map((one) => [one.name, one.name]);
      where.append(field("Cell", choice([["", "all"], ...named], "", (value) => { cell = value; survey(); }, { id: "heal-cell" })));
    } catch { /* All cells are looked at. */ }
  }

  render();
  cells();
  survey();
}

/** What a server would hold more or less, in words. */
export function words({ amounts, ports }) {
  const sums = amounts.map((one) => `${one.amount > 0 ? "+" : "−"}${Math.abs(one.amount)} ${one.class} of ${one.provider}`).join(", ");
  return `${sums || "no amount"}; providers of ${counted(ports.length, "port")}`;
}
