// The filters of a list in the address bar: a list can be shared, is there again after a reload, and is left with the browser's way back.

import { query } from "./api.js";

/** Writes the filters of the list at `path`. A `step` is one that the way back leads back from, as the next page is. */
export function remember(path, filters, step = false) {
  const address = `#${path}${query(filters)}`;
  if (address === location.hash) return;
  if (step) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

/** A part of a text as the pattern that finds this part. */
export const literally = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
