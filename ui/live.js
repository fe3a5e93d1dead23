// The stream of notifications and of operations as they change: one for the page, which views listen to.

const listeners = new Set(), watchers = new Set();
let source = null, wantsOperations = false;
let standing = "closed";
let again = null;

export const state = new EventTarget();

/** `open`, `connecting`, or `closed` when the service refuses one more stream, or the caller. */
export const stands = () => standing;

function becomes(word) {
  standing = word;
  state.dispatchEvent(new Event("change"));
}

/** True while changes of operations come by themselves. */
export const tellsOperations = () => standing === "open" && wantsOperations;

function changed(operation) {
  for (const watcher of watchers) watcher(operation);
}

/** Opens the stream, if it is not open; with operations for those who may see them. */
export function open(operations = wantsOperations) {
  if (source) return;
  wantsOperations = operations;
  becomes("connecting");
  source = new EventSource(`api/ops/v1/notifications${operations ? "?operations=true" : ""}`);
  source.onopen = () => {
    becomes("open");
    // What changed before is not told.
    if (operations) changed(null);
  };
  source.addEventListener("operation", (event) => {
    try { changed(JSON.parse(event.data)); } catch { changed(null); }
  });
  source.addEventListener("operations", () => changed(null));
  source.onmessage = (event) => {
    let notification;
    try { notification = JSON.parse(event.data); } catch { return; }
    for (const listener of listeners) listener(notification, event.lastEventId);
  };
  source.onerror = () => {
    // The browser connects again by itself, unless the answer was a refusal.
    if (source.readyState === EventSource.CLOSED) {
      source = null;
      becomes("closed");
      clearTimeout(again);
      again = setTimeout(() => open(), 5000);
    } else becomes("connecting");
  };
}

export function close() {
  clearTimeout(again);
  source?.close();
  source = null;
  becomes("closed");
}

/** Calls the listener for each notification until the signal aborts. */
export function listen(listener, abort) {
  listeners.add(listener);
  abort.addEventListener("abort", () => listeners.delete(listener));
}

/**
 * Calls the watcher with each operation that has changed, as the list of operations has it, until the signal aborts; with null when changes
 * were missed, so that the list must be read.
 */
export function watch(watcher, abort) {
  watchers.add(watcher);
  abort.addEventListener("abort", () => watchers.delete(watcher));
}

/** The part of its time that a page spends on one kind of question at most, and the longest wait for that. */
const SHARE = 0.1, LONGEST = 60_000;

/**
 * Calls `refresh` now, after notifications (not more often than each `pause`), and every `interval` milliseconds; both may be functions,
 * and without a `pause` notifications change nothing.
 * A question that takes long, of a large cloud or a busy service, is repeated less often.
 */
export function follow(refresh, abort, interval = 3000, pause = 400) {
  let running = false, wanted = false, timer = null, rest = 0;
  const now = (time) => (typeof time === "function" ? time() : time);
  const run = async () => {
    if (running) { wanted = true; return; }
    clearTimeout(timer);
    running = true;
    wanted = false;
    const began = performance.now();
    try { await refresh(); } catch (error) { if (error.name !== "AbortError" && error.status === undefined) console.error(error); }
    running = false;
    if (abort.aborted) return;
    rest = Math.min((performance.now() - began) / SHARE, LONGEST);
    const hidden = document.hidden ? 4 : 1;
    const due = wanted ? now(pause) ?? 0 : now(interval) * hidden;
    timer = setTimeout(run, Math.max(due, rest));
  };
  if (pause !== null) listen(() => {
    if (running || wanted) return;
    wanted = true;
    clearTimeout(timer);
    timer = setTimeout(run, Math.max(now(pause), rest));
  }, abort);
  abort.addEventListener("abort", () => clearTimeout(timer));
  run();
  return run;
}
