// A server's log, and its serial console: a WebSocket that shows what the guest writes, and takes lines.

import { post } from "./api.js";
import { button, field, h, section } from "./dom.js";

/** The lines of the log that are asked for, and the characters of a console that are kept. */
const LINES = 200, KEPT = 100_000;

/** The text of a terminal after these characters: a backspace takes one back, and a line ends with a newline alone. */
export function written(before, characters) {
  let text = before;
  for (const character of characters) {
    if (character === "\b") text = text.slice(0, -1);
    else if (character !== "\r") text += character;
  }
  return text.slice(-KEPT);
}

/** The section with the log and the console, as far as the policy allows them. */
export function consoles(page, path) {
  const log = button("Show the log", showLog, { id: "log" }), open = button("Open the serial console", openConsole, { id: "console" });
  const close = button("Close the console", () => socket?.close(), { id: "close-console", hidden: true });
  const status = h("p", { role: "status", class: "quiet" });
  const output = h("pre", { id: "console-text", tabindex: "0", role: "log", "aria-label": "What the guest wrote", hidden: true });
  const line = h("input", { id: "console-line", name: "line", autocomplete: "off", spellcheck: "false", maxlength: 255 });
  const typing = h("form", { class: "inline", hidden: true, onsubmit: send }, field("A line for the guest", line), h("button", { type: "submit" }, "Send"));
  let socket = null, text = "";

  function show(words) {
    text = words;
    output.hidden = false;
    output.textContent = text;
    output.scrollTop = output.scrollHeight;
  }

  async function showLog() {
    try {
      const read = await post(`${path}/action`, { "os-getConsoleOutput": { length: LINES } });
      socket?.close();
      show(read.output);
      status.textContent = read.output ? "" : "The guest has written nothing.";
    } catch (error) { status.textContent = error.message; }
  }

  async function openConsole() {
    socket?.close();
    try {
      const read = await post(`${path}/remote-consoles`, { remote_console: { protocol: "serial", type: "serial" } });
      listen(new WebSocket(read.remote_console.url, "binary"));
    } catch (error) { status.textContent = error.message; }
  }

  function listen(opened) {
    const decoder = new TextDecoder();
    socket = opened;
    socket.binaryType = "arraybuffer";
    status.textContent = "Connecting…";
    socket.onopen = () => {
      show("");
      status.textContent = "The console is open. The guest reads a line when it is sent.";
      stands(true);
      line.focus();
    };
    socket.onmessage = ({ data }) => show(written(text, typeof data === "string" ? data : decoder.decode(data, { stream: true })));
    socket.onclose = ({ reason }) => {
      if (socket !== opened) return;
      socket = null;
      status.textContent = reason || "The console is closed.";
      stands(false);
    };
  }

  function stands(isOpen) {
    typing.hidden = close.hidden = !isOpen;
    open.hidden = isOpen;
  }

  function send(event) {
    event.preventDefault();
    socket?.send(`${line.value}\r`);
    line.value = "";
  }

  page.signal.addEventListener("abort", () => socket?.close());
  const buttons = [page.may("os_compute_api:os-console-output") ? log : null, page.may("os_compute_api:os-remote-consoles") ? [open, close] : null].flat();
  return buttons.some(Boolean) ? section("Log and console", h("p", { class: "buttons" }, buttons), status, output, typing) : null;
}
