// The notifications as they come, newest first, with filters.

import { ago, button, field, h, serverLink, table } from "./dom.js";
import { listen } from "./live.js";

const MOST = 500;

export function view(main, page) {
  page.title("Notifications");
  let seen = [], halted = false, missed = 0, painted = false;
  const wanted = h("input", { id: "event-filter", type: "search", placeholder: "a part of its type", oninput: () => render() });
  const server = h("input", { id: "event-server", type: "search", placeholder: "a part of its id", oninput: () => render() });
  const halt = button("Hold", () => { halted = !halted; missed = 0; halt.textContent = halted ? "Go on" : "Hold"; halt.setAttribute("aria-pressed", String(halted)); render(); },
    { id: "hold", "aria-pressed": "false" });
  const count = h("p", { class: "quiet", role: "status" });
  const events = table("Notifications, newest first", [["no.", "n"], "when", "type", "priority", "server", "what"], "None that fits has come since you opened this page.");
  main.append(h("div", { class: "filters" }, field("Type", wanted), field("Server", server), halt), count, events.element);
  const subject = (one) => one.payload?.uuid ?? one.payload?.nova_object?.uuid ?? null;

  function render() {
    const fits = (one) => one.event_type.includes(wanted.value.trim()) && String(subject(one) ?? "").includes(server.value.trim());
    const shown = seen.filter(fits).slice(0, 200);
    events.show(shown, (one) => one.number, (one) => [one.number, ago(one.timestamp), one.event_type, one.priority, subject(one) ? serverLink(subject(one)) : "–",
      h("details", {}, h("summary", {}, "payload"), h("pre", {}, JSON.stringify(one.payload, null, 2)))]);
    count.textContent = `${seen.length} came, the last ${MOST} are kept; ${shown.length} are shown.${halted ? ` Held: ${missed} came since.` : ""}`;
  }

  listen((notification, number) => {
    if (halted) { missed += 1; }
    else seen = [{ ...notification, number }, ...seen].slice(0, MOST);
    if (painted) return;
    painted = true;
    setTimeout(() => { painted = false; if (!page.signal.aborted) render(); }, 200);
  }, page.signal);
  render();
}
