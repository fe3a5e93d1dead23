// Faults in words, as the timeline of a move and the page of experiments name them.

import { span } from "./dom.js";

const plain = (value) => (typeof value === "object" && value !== null ? JSON.stringify(value) : String(value).replaceAll("_", " "));

/** A fault as the file of an experiment has it (`{host_off: {host: "h1", for_ms: 5000}}`), in words: "host off: h1, for 5 s". */
export function faultWords(what) {
  if (typeof what === "string") return what;
  const [[kind, about]] = Object.entries(what);
  if (typeof about !== "object" || about === null) return `${kind.replaceAll("_", " ")}: ${plain(about)}`;
  const words = Object.entries(about).filter(([, value]) => value !== null && value !== false && value !== undefined).map(([key, value]) => {
    if (key.endsWith("_ms")) return `${key.slice(0, -3).replaceAll("_", " ")} ${span(value)}`;
    if (value === true) return key.replaceAll("_", " ");
    return ["host", "actor", "name", "cell", "database"].includes(key) ? plain(value) : `${key.replaceAll("_", " ")} ${plain(value)}`;
  });
  return words.length ? `${kind.replaceAll("_", " ")}: ${words.join(", ")}` : kind.replaceAll("_", " ");
}
