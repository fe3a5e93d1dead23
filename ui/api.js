// Asks the service's public routes, below `api/`, where the session's cookie gives each request its token.

/** An answer that is no success. Status 0: no answer came. */
export class Failure extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const signals = new EventTarget();
const signal = (name) => signals.dispatchEvent(new Event(name));
let awaySince = null;

/** Since when the service does not answer; null if it does. */
export const silentSince = () => awaySince;

function heard(answers) {
  if (answers === (awaySince === null)) return;
  awaySince = answers ? null : Date.now();
  signal(answers ? "back" : "away");
}

function messageOf(body, status) {
  const first = body && typeof body === "object" ? Object.values(body)[0] : null;
  const message = first?.message ?? first?.[0]?.detail;
  return message ? String(message) : `The service answers ${status}.`;
}

async function send(method, address, body, headers, abort) {
  const options = { method, headers: { Accept: "application/json", ...headers }, signal: abort, cache: "no-store", credentials: "same-origin" };
  if (method !== "GET") options.headers["X-Requested-By"] = "cellshift-ui";
  if (body !== undefined) {
    options.body = typeof body === "string" ? body : JSON.stringify(body);
    options.headers["Content-Type"] ??= "application/json";
  }
  let response, text;
  try {
    response = await fetch(address, options);
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    heard(false);
    throw new Failure(0, "The service does not answer.");
  }
  heard(true);
  let parsed = null;
  try { parsed = text ? JSON.parse(text) : null; } catch { /* The answer is no JSON, and its status tells. */ }
  if (response.ok) return parsed;
  if (response.status === 401 && address !== "login") signal("over");
  throw new Failure(response.status, messageOf(parsed, response.status));
}

const COMPUTE = { "OpenStack-API-Version": "compute 2.90" };
const PLACEMENT = { "OpenStack-API-Version": "placement 1.39" };

function headersOf(path) {
  if (path.startsWith("/compute")) return COMPUTE;
  return path.startsWith("/placement") ? PLACEMENT : {};
}

/** Reads a route. */
export const get = (path, abort) => send("GET", `api${path}`, undefined, headersOf(path), abort);
/** Reads a route of which an answer of the last second is good enough, so that the service can give all open pages the same. */
export const recent = (path, abort) => send("GET", `api${path}`, undefined, { ...headersOf(path), "Cache-Control": "max-age=1" }, abort);
/** Changes something through a route. */
export const change = (method, path, body, headers = {}) => send(method, `api${path}`, body, { ...headersOf(path), ...headers });
export const post = (path, body, headers) => change("POST", path, body, headers);

/** The cookie of a session is hidden from scripts, so a mark beside it says that one was begun: without it nobody asks in vain. */
const MARK = "session";
export const mayHaveSession = () => localStorage.getItem(MARK) !== null;

export const session = () => send("GET", "session");
export async function logIn(form) {
  await send("POST", "login", form);
  localStorage.setItem(MARK, "begun");
}
export async function logOut() {
  localStorage.removeItem(MARK);
  await send("POST", "logout");
}

/** The path of the next page in an answer's links; null on the last. */
export function nextOf(links) {
  const href = links?.find((link) => link.rel === "next")?.href;
  return href ? href.slice(new URL(href).origin.length).replace(/^.*?\/(ops|compute)\//, "/$1/") : null;
}

export const query = (pairs) => {
  const set = Object.entries(pairs).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return set.length ? `?${new URLSearchParams(set)}` : "";
};
