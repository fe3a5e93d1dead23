// The stream of notifications: one for the page, which views listen to.

const listeners = new Set();
let source = null;
let standing = "closed";
let again = null;

export const state = new EventTarget();

/** `open`, `connecting`, or `closed` when the service refuses one more stream, or the caller. */
export const stands = () => standing;

function becomes(word) {
  standing = word;
  state.dispatchEvent(new Event("change"));
}

/** Opens the stream, if it is not open. */
export function open() {
  if (source) return;
  becomes("connecting");
  source = new EventSource("api/ops/v1/notifications");
  source.onopen = () => becomes("open");
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
      again = setTimeout(open, 5000);
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

/** Calls `refresh` now, after notifications (not more often than each `pause`), and every `interval` milliseconds, which may be a function. */
export function follow(refresh, abort, interval = 3000, pause = 400) {
  let running = false, wanted = false, timer = null;
  const run = async () => {
    if (running) { wanted = true; return; }
    clearTimeout(timer);
    running = true;
    wanted = false;
    try { await refresh(); } catch (error) { if (error.name !== "AbortError" && error.status === undefined) console.error(error); }
    running = false;
    if (abort.aborted) return;
    const hidden = document.hidden ? 4 : 1;
    timer = setTimeout(run, wanted ? pause : (typeof interval === "function" ? interval() : interval) * hidden);
  };
  listen(() => { if (!running && !wanted) { wanted = true; setTimeout(run, pause); } }, abort);
  abort.addEventListener("abort", () => clearTimeout(timer));
  run();
  return run;
}
