// Actions on a server: for each the states it is for, the rule that allows it, what is asked first, and what is sent.

import { get } from "./api.js";

const MODES = [["SOFT", "ask the guest"], ["HARD", "switch it off and on"]];
const RUNNING = ["ACTIVE"], AT_REST = ["ACTIVE", "SHUTOFF"], WITH_GUEST = ["ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED"];
const MOVE = "os_compute_api:os-migrate-server:migrate", SERVERS = "os_compute_api:servers:", OTHERS = "os_compute_api:os-";
const TO_HOST = { name: "host", label: "To host (empty: the scheduler chooses)" };
const NAME = { name: "name", label: "Name", required: true };

/** The flavors to choose from. */
export async function flavors(signal) {
  const read = (await get("/compute/v2.1/flavors/detail", signal)).flavors;
  return read.map((flavor) => [flavor.id, `${flavor.name}: ${flavor.vcpus} processors, ${flavor.ram} MiB, ${flavor.disk} GiB`]);
}

/** The images to choose from. */
export async function images(signal) {
  return (await get("/image/v2/images?status=active&limit=1000", signal)).images.map((image) => [image.id, image.name ?? image.id]);
}

/**
 * `states`: only then (all if missing). `title` and `text`: asked before, with `fields`; without a title it is done at once.
 * `typed`: the name of the server must be typed. `body`: what is sent, of the fields' values. `more`: it stands among the rarer ones.
 */
export const OPERATIONS = [
  { id: "confirm", label: "Confirm", action: "confirmResize", states: ["VERIFY_RESIZE"], rule: `${SERVERS}confirm_resize`,
    title: "Confirm the move?", text: "What the source kept is removed." },
  { id: "revert", label: "Revert", action: "revertResize", states: ["VERIFY_RESIZE"], rule: `${SERVERS}revert_resize`, danger: true,
    title: "Revert the move?", text: "What the guest wrote since is lost." },
  { id: "start", label: "Start", action: "os-start", states: ["SHUTOFF"], rule: `${SERVERS}start` },
  { id: "unpause", label: "Unpause", action: "unpause", states: ["PAUSED"], rule: `${OTHERS}pause-server:unpause` },
  { id: "resume", label: "Resume", action: "resume", states: ["SUSPENDED"], rule: `${OTHERS}suspend-server:resume` },
  { id: "unshelve", label: "Unshelve", action: "unshelve", states: ["SHELVED", "SHELVED_OFFLOADED"], rule: `${OTHERS}shelve:unshelve` },
  { id: "unrescue", label: "End the rescue", action: "unrescue", states: ["RESCUE"], rule: `${OTHERS}unrescue` },
  { id: "restore", label: "Restore", action: "restore", states: ["SOFT_DELETED"], rule: `${OTHERS}deferred-delete:restore` },
  { id: "migrate", label: "Migrate", action: "migrate", states: AT_REST, rule: MOVE,
    title: "Migrate the server?", text: "It is stopped meanwhile, and waits for a confirm afterwards.",
    fields: [TO_HOST], body: ({ host }) => (host ? { host } : null) },
  { id: "live-migrate", label: "Live-migrate", action: "os-migrateLive", states: ["ACTIVE", "PAUSED"], rule: `${MOVE}_live`,
    title: "Migrate the running server?", text: "It stays in its cell, and goes on running.",
    fields: [TO_HOST], body: ({ host }) => ({ host: host || null, block_migration: "auto" }) },
  { id: "resize", label: "Resize", action: "resize", states: AT_REST, rule: `${SERVERS}resize`,
    title: "Resize the server?", text: "It is stopped meanwhile, and waits for a confirm afterwards.",
    fields: [{ name: "flavorRef", label: "Flavor", choices: flavors }], body: ({ flavorRef }) => ({ flavorRef }) },
  { id: "stop", label: "Stop", action: "os-stop", states: ["ACTIVE", "ERROR"], rule: `${SERVERS}stop`,
    title: "Stop the server?", text: "Its guest is shut down." },
  { id: "reboot", label: "Reboot", action: "reboot", states: [...WITH_GUEST, "ERROR"], rule: `${SERVERS}reboot`, title: "Reboot the server?",
    fields: [{ name: "type", label: "How", choices: () => MODES }], body: ({ type }) => ({ type }) },
  { id: "pause", label: "Pause", action: "pause", states: RUNNING, rule: `${OTHERS}pause-server:pause`, more: true },
  { id: "suspend", label: "Suspend", action: "suspend", states: RUNNING, rule: `${OTHERS}suspend-server:suspend`, more: true },
  { id: "shelve", label: "Shelve", action: "shelve", states: AT_REST, rule: `${OTHERS}shelve:shelve`,
    title: "Shelve the server?", text: "Its guest ends, and its disk becomes an image. It can be unshelved.", more: true },
  { id: "offload", label: "Offload", action: "shelveOffload", states: ["SHELVED"], rule: `${OTHERS}shelve:shelve_offload`, more: true },
  { id: "lock", label: "Lock", action: "lock", locked: false, rule: `${OTHERS}lock-server:lock`,
    title: "Lock the server?", text: "Only those who may override the lock can change it then.",
    fields: [{ name: "locked_reason", label: "Why" }], body: ({ locked_reason: why }) => (why ? { locked_reason: why } : null), more: true },
  { id: "unlock", label: "Unlock", action: "unlock", locked: true, rule: `${OTHERS}lock-server:unlock` },
  { id: "image", label: "Make an image", action: "createImage", states: WITH_GUEST, rule: `${SERVERS}create_image`,
    title: "Make an image of the server?", fields: [NAME], body: ({ name }) => ({ name }), more: true },
  { id: "backup", label: "Make a backup", action: "createBackup", states: WITH_GUEST, rule: `${OTHERS}create-backup`,
    title: "Make a backup of the server?", text: "It is an image. Older ones of the same kind are deleted.",
    fields: [NAME, { name: "backup_type", label: "Kind", value: "daily", required: true },
      { name: "rotation", label: "How many are kept", type: "number", value: "7", required: true }],
    body: ({ name, backup_type: kind, rotation }) => ({ name, backup_type: kind, rotation: Number(rotation) }), more: true },
  { id: "rescue", label: "Rescue", action: "rescue", states: [...AT_REST, "ERROR"], rule: `${OTHERS}rescue`,
    title: "Rescue the server?", text: "It starts from its image, with its disk beside that.", more: true },
  { id: "password", label: "Change the password", action: "changePassword", states: RUNNING, rule: `${OTHERS}admin-password`,
    title: "Change the guest's password?",
    fields: [{ name: "adminPass", label: "Password", type: "password", required: true }], body: ({ adminPass }) => ({ adminPass }), more: true },
  { id: "group", label: "Add a security group", action: "addSecurityGroup", rule: `${OTHERS}security-groups:add`,
    title: "Add a security group?", fields: [NAME], body: ({ name }) => ({ name }), more: true },
  { id: "ungroup", label: "Remove a security group", action: "removeSecurityGroup", rule: `${OTHERS}security-groups:remove`,
    title: "Remove a security group?", fields: [NAME], body: ({ name }) => ({ name }), more: true },
  { id: "addresses", label: "Read the addresses anew", action: "injectNetworkInfo", rule: `${OTHERS}admin-actions:inject_network_info`, more: true },
  { id: "crash", label: "Crash dump", action: "trigger_crash_dump", states: ["ACTIVE", "PAUSED", "RESCUE", "ERROR"], rule: `${SERVERS}trigger_crash_dump`, danger: true,
    title: "Make the guest crash?", text: "It writes a dump if it can. What it has not saved is lost.", more: true },
  { id: "reset", label: "Reset the state", action: "os-resetState", rule: `${OTHERS}admin-actions:reset_state`, danger: true,
    title: "Reset the server's state?", text: "For a server whose state is wrong. Nothing else changes.",
    fields: [{ name: "state", label: "State", choices: () => [["active", "active"], ["error", "error"]] }], body: ({ state }) => ({ state }), more: true },
  { id: "evacuate", label: "Evacuate", action: "evacuate", states: [...AT_REST, "ERROR"], rule: `${OTHERS}evacuate`, danger: true,
    title: "Evacuate the server?", text: "It is started on another host of its cell. Its host must be off.",
    fields: [TO_HOST], body: ({ host }) => (host ? { host } : {}), more: true },
  { id: "rebuild", label: "Rebuild", action: "rebuild", states: [...WITH_GUEST, "ERROR"], rule: `${SERVERS}rebuild`, danger: true, typed: true,
    title: "Rebuild the server?", text: "Its disk is made anew from an image. What is on it is lost.",
    fields: [{ name: "imageRef", label: "Image", choices: images }], body: ({ imageRef }) => ({ imageRef }), more: true },
  { id: "force-delete", label: "Delete at once", action: "forceDelete", rule: `${OTHERS}deferred-delete:force`, danger: true, typed: true,
    title: "Delete the server at once?", text: "It cannot be restored, whatever the service keeps otherwise.", more: true },
  { id: "delete", label: "Delete", action: null, rule: `${SERVERS}delete`, danger: true, typed: true,
    title: "Delete the server?", text: "Its guest and its local disks are removed." },
];
