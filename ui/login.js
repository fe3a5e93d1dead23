// The login: a dialog over whatever one looked at, which is there again afterwards.

import { logIn } from "./api.js";
import { field, h } from "./dom.js";

const NAMES = ["user", "project", "domain"];

/** Asks for a name and a password until a session begins. `why` says why it is asked. */
export function login(why) {
  return new Promise((resolve) => {
    const remembered = (name) => localStorage.getItem(`login.${name}`) ?? "";
    const input = (name, attributes) => h("input", { name, id: `login-${name}`, value: remembered(name), ...attributes });
    const trouble = h("p", { class: "trouble", role: "alert" });
    const submit = h("button", { type: "submit", class: "main" }, "Log in");
    const form = h("form", { class: "login" },
      h("h1", { id: "login-title" }, "cellshift"),
      why ? h("p", {}, why) : null,
      field("User", input("user", { autocomplete: "username", required: true })),
      field("Password", input("password", { type: "password", autocomplete: "current-password", required: true, value: "" })),
      field("Project", input("project", { required: true })),
      field("Domain (empty: the default domain)", input("domain", {})),
      trouble, h("p", { class: "buttons" }, submit));
    const dialog = h("dialog", { id: "login", "aria-labelledby": "login-title" }, form);
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      submit.disabled = true;
      trouble.textContent = "";
      const fields = Object.fromEntries(new FormData(form));
      try {
        await logIn(fields);
        for (const name of NAMES) localStorage.setItem(`login.${name}`, fields[name]);
        dialog.close();
        dialog.remove();
        resolve();
      } catch (error) {
        const unknown = "No such user, password and project. If your administrators limit wrong passwords, an account with several of them is locked for a while.";
        trouble.textContent = error.status === 401 ? unknown : error.message;
        submit.disabled = false;
        form.elements.password.select();
      }
    });
    document.body.append(dialog);
    dialog.showModal();
    (remembered("user") ? form.elements.password : form.elements.user).focus();
  });
}
