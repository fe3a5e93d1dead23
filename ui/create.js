// The form that makes a server.

import { get, post } from "./api.js";
import { networks } from "./attachments.js";
import { choice, field, h, tell } from "./dom.js";
import { flavors, images } from "./operations.js";

const ANYWHERE = ["", "any zone"];

/** The body of the request that makes a server. */
export function body({ name, flavor, image, network, zone }) {
  const server = { name, flavorRef: flavor, imageRef: image, networks: network === "none" ? "none" : [{ uuid: network }] };
  return { server: zone ? { ...server, availability_zone: zone } : server };
}

async function zones(signal) {
  const read = (await get("/compute/v2.1/os-availability-zone", signal)).availabilityZoneInfo;
  return [ANYWHERE, ...read.filter((zone) => zone.zoneState.available).map((zone) => [zone.zoneName, zone.zoneName])];
}

export function view(main, page) {
  page.title("Create a server");
  const trouble = h("p", { class: "trouble", role: "alert" });
  const waiting = h("p", { class: "quiet" }, "Reading what there is to choose from…");
  main.append(trouble, waiting);
  build().catch((error) => { if (error.name !== "AbortError") trouble.textContent = error.message; }).finally(() => waiting.remove());

  async function build() {
    const own = networks(page.session.project.id, page.signal).then((read) => [...read.map((network) => [network.id, network.name]), ["none", "none"]]);
    const [ofFlavor, ofImage, ofNetwork, ofZone] = await Promise.all([flavors(page.signal), images(page.signal), own, zones(page.signal)]);
    const list = (label, name, options) => field(label, choice(options, options[0]?.[0], null, { name, id: `new-${name}`, required: true }));
    const submit = h("button", { type: "submit", class: "main", id: "create" }, "Create");
    const form = h("form", { class: "upright" }, field("Name", h("input", { name: "name", id: "new-name", required: true, maxlength: 255, autocomplete: "off" })),
      list("Flavor", "flavor", ofFlavor), list("Image", "image", ofImage), list("Network", "network", ofNetwork),
      field("Zone", choice(ofZone, "", null, { name: "zone", id: "new-zone" })),
      h("p", { class: "quiet" }, `It is made in the project ${page.session.project.name}.`), h("p", { class: "buttons" }, submit));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      submit.disabled = true;
      trouble.textContent = "";
      try {
        const { server } = await post("/compute/v2.1/servers", body(Object.fromEntries(new FormData(form))));
        tell("The server is being made");
        location.hash = `#/servers/${server.id}`;
      } catch (error) {
        trouble.textContent = error.message;
        submit.disabled = false;
      }
    });
    main.append(form);
    form.elements.name.focus();
  }
}
