// The page: its header, its views by address, the session, and whether the service answers.

import * as api from "./api.js";
import * as audit from "./audit.js";
import * as capacity from "./capacity.js";
import * as cells from "./cells.js";
import * as chaos from "./chaos.js";
import * as create from "./create.js";
import { button, choice, h, tell } from "./dom.js";
import * as drains from "./drains.js";
import * as groups from "./groups.js";
import * as healing from "./healing.js";
import * as host from "./host.js";
import * as live from "./live.js";
import { login } from "./login.js";
import * as move from "./move.js";
import * as moves from "./moves.js";
import * as names from "./names.js";
import * as newdrain from "./newdrain.js";
import * as notifications from "./notifications.js";
import * as overview from "./overview.js";
import * as search from "./search.js";
import * as server from "./server.js";
import * as servers from "./servers.js";
import * as verdict from "./verdict.js";
import * as waiting from "./waiting.js";

/** Each view with its address, its name in the header (none: it is reached from others) and the rule that it needs. */
const VIEWS = [
  { path: /^\/overview$/, view: overview.view, name: "Overview", href: "#/overview", rule: "ops:summary" },
  { path: /^\/waiting(?:\/([a-z]+))?$/, view: waiting.view, under: "#/overview", rule: "ops:summary" },
  { path: /^\/moves$/, view: moves.view, name: "Moves", href: "#/moves", rule: "ops:migrations" },
  { path: /^\/moves\/([^/]+)$/, view: move.view, under: "#/moves", rule: "ops:migrations" },
  { path: /^\/servers$/, view: servers.view, name: "Servers", href: "#/servers" },
  { path: /^\/servers\/([^/]+)$/, view: server.view, under: "#/servers" },
  { path: /^\/create$/, view: create.view, under: "#/servers", rule: "os_compute_api:servers:create" },
  { path: /^\/search$/, view: search.view },
  { path: /^\/cells$/, view: cells.view, name: "Cells and hosts", href: "#/cells", rule: "ops:cells" },
  { path: /^\/hosts\/([^/]+)$/, view: host.view, under: "#/cells", rule: "ops:cells" },
  { path: /^\/drain$/, view: newdrain.view, under: "#/drains", rule: "ops:drains" },
  { path: /^\/capacity$/, view: capacity.view, under: "#/cells", rule: "ops:drains" },
  { path: /^\/drains$/, view: drains.list, name: "Drains", href: "#/drains", rule: "ops:drains" },
  { path: /^\/drains\/([^/]+)$/, view: drains.one, under: "#/drains", rule: "ops:drains" },
  { path: /^\/groups$/, view: groups.list, name: "Groups", href: "#/groups", rule: "ops:group_moves" },
  { path: /^\/groups\/([^/]+)$/, view: groups.one, under: "#/groups", rule: "ops:group_moves" },
  { path: /^\/healing$/, view: healing.view, under: "#/audit", rule: "ops:heal_allocations" },
  { path: /^\/audit$/, view: audit.view, name: "Audit", href: "#/audit", rule: "ops:audit" },
  { path: /^\/notifications$/, view: notifications.view, name: "Notifications", href: "#/notifications", rule: "ops:notifications" },
  { path: /^\/chaos$/, view: chaos.view, name: "Chaos", href: "#/chaos", rule: "ops:chaos", chaos: true },
  { path: /^\/chaos\/verdict$/, view: verdict.view, under: "#/chaos", rule: "ops:chaos", chaos: true },
];

const main = document.getElementById("main");
let session = null;
let leaving = null;

const allowed = (view) => (!view.rule || session.rules[view.rule]) && (!view.chaos || session.chaos);

/** The parts of an address that name something; null if they are no text. */
function partsOf(view, path) {
  try { return view.path.exec(path).slice(1).filter(Boolean).map(decodeURIComponent); } catch { return null; }
}

/** Shows the view of the present address. */
function route() {
  leaving?.abort();
  leaving = new AbortController();
  const address = location.hash.slice(1);
  if (!address || address === "/") {
    location.replace(session.rules["ops:summary"] ? "#/overview" : "#/servers");
    return;
  }
  // The link to the contents is an address of none.
  if (!address.startsWith("/")) return;
  const [path, asked] = address.split("?");
  const found = VIEWS.find((view) => view.path.test(path) && partsOf(view, path));
  const title = h("h1", { tabindex: "-1" });
  const context = {
    title: (text) => { title.textContent = text; document.title = `${text} – cellshift`; },
    session,
    may: (rule) => session.rules[rule] === true,
    signal: leaving.signal,
    query: new URLSearchParams(asked ?? ""),
  };
  main.replaceChildren(title);
  header(found?.under ?? found?.href, path === "/search" ? context.query.get("text") : "");
  if (!found) {
    context.title("No such page");
    main.append(h("p", {}, `There is no page ${path}. `, h("a", { href: "#/" }, "Go to the first one.")));
  } else if (!allowed(found)) {
    context.title(found.name ?? "Not allowed");
    const why = session.rules[found.rule] ? "This service does not allow experiments." : `Your roles do not allow this: it needs the rule ${found.rule}.`;
    main.append(h("p", { class: "trouble" }, why));
  } else {
    const body = h("div", { class: "view" });
    main.append(body);
    found.view(body, context, ...partsOf(found, path));
  }
  if (document.activeElement === document.body || main.contains(document.activeElement)) title.focus({ preventScroll: true });
}

function theme(word) {
  if (word === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = word;
  try { localStorage.setItem("theme", word); } catch { /* A browser without storage forgets the choice. */ }
}

/** Draws the header. `current` is the page of the view, and `sought` what the search box has. */
function header(current, sought) {
  const links = VIEWS.filter((view) => view.name && allowed(view)).map((view) =>
    h("li", {}, h("a", { href: view.href, "aria-current": view.href === current ? "page" : null }, view.name)));
  const who = `${session.user.name}, project ${session.project.name}`;
  const stream = session.rules["ops:notifications"] ? h("span", { id: "stream", class: "quiet" }, streamText()) : null;
  const chosen = localStorage.getItem("theme") ?? "auto";
  const themes = choice([["auto", "As the system"], ["light", "Light"], ["dark", "Dark"]], chosen, theme, { "aria-label": "Colours" });
  const top = document.getElementById("top");
  top.classList.remove("open");
  // A narrow screen shows the pages when this is pressed.
  const menu = button("Menu", () => menu.setAttribute("aria-expanded", String(top.classList.toggle("open"))), { id: "menu", "aria-expanded": "false" });
  top.replaceChildren(
    h("span", { class: "name" }, "cellshift"), menu,
    h("nav", { "aria-label": "Pages" }, h("ul", {}, links)),
    search.box(sought),
    h("span", { class: "who" }, stream, h("span", {}, who), themes, button("Log out", leave)));
}

function streamText() {
  return { open: "● live", connecting: "○ connecting", closed: "○ not live: asking every few seconds" }[live.stands()];
}

live.state.addEventListener("change", () => {
  const stream = document.getElementById("stream");
  if (stream) stream.textContent = streamText();
});

async function leave() {
  live.close();
  try { await api.logOut(); } catch (error) { if (error.status !== 401) tell(error.message, "trouble"); }
  await begin("You are logged out.");
}

let beginning = null;

/** Logs in by the link that `cellshift ui` made, and takes its token out of the address at once. */
async function logInByLink() {
  const token = /^#login=(.+)$/.exec(location.hash)?.[1];
  if (!token) return;
  history.replaceState(null, "", location.pathname);
  try { await api.logIn({ token: decodeURIComponent(token) }); } catch { /* A link that was used before leads to the login. */ }
}

/** Begins a session, if need be with a login, and shows the view of the address. */
function begin(why) {
  beginning ??= (async () => {
    leaving?.abort();
    let asked = why;
    if (!api.mayHaveSession()) await login(asked);
    for (;;) {
      try {
        session = await api.session();
        break;
      } catch (error) {
        if (error.status === 401) await login(asked);
        else if (error.status === 403) { await login(error.message); }
        else {
          if (!session) main.replaceChildren(h("p", { role: "status" }, error.message));
          await new Promise((resolve) => setTimeout(resolve, 1000));
        }
        asked = undefined;
      }
    }
    names.begin(session);
    if (session.rules["ops:notifications"]) live.open(session.rules["ops:migrations"] === true);
    beginning = null;
    route();
  })();
  return beginning;
}

api.signals.addEventListener("over", () => {
  if (beginning) return;
  live.close();
  begin("Your session is over. Log in again to go on where you were.");
});

const away = document.getElementById("away");
setInterval(() => {
  const since = api.silentSince();
  away.hidden = since === null;
  if (since !== null) away.textContent = `The service has not answered for ${Math.round((Date.now() - since) / 1000)} s. What you see is from before; the page tries again.`;
}, 500);
// While nothing else asks, this does.
setInterval(() => { if (api.silentSince() !== null) api.session().catch(() => {}); }, 2000);

window.addEventListener("hashchange", () => { if (session && !beginning) route(); });
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
theme(localStorage.getItem("theme") ?? "auto");
logInByLink().then(() => begin());
