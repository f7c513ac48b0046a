// The page: its parts, what is live, and what asks before it changes something.

import { get, h } from "./dom.js";
import { languageNow, switchLanguage, t, translate } from "./text.js";
import { ensemble } from "./ensemble.js";
import { elections } from "./elections.js";
import { tree } from "./tree.js";
import { sessions } from "./sessions.js";
import { log } from "./log.js";

const parts = { ensemble, elections, tree, sessions, log };
const main = document.querySelector("#main");

// app is what the parts share.
export const app = { about: {}, look: null, elections: null, asks, redraw };
let part = null; // the one that is shown
let events = null;

// The part of the URL behind # is that of the page, and what it shows: #tree/app/config.
function route() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  let path = rest.join("/");
  try {
    path = rest.map(decodeURIComponent).join("/");
  } catch { /* it was typed, and is no URL: taken as it is */ }
  return { name: Object.hasOwn(parts, name) ? name : "ensemble", rest: path };
}

function show() {
  const { name, rest } = route();
  part?.leave?.();
  part = parts[name](app, rest);
  main.replaceChildren(...part.elements);
  document.querySelector("#tabs").replaceChildren(...Object.keys(parts).filter((p) => p !== "log" || app.about.log).map((p) =>
    h("a", { href: `#${p}`, "aria-current": p === name ? "page" : null }, t(p))),
  ...(app.about.lab ? [h("a", { href: "lab/" }, t("lab"))] : []));
  document.title = `${t(name)} - Conclave`;
  follow(part.streams ?? ["look"]);
  part.seen?.("look", app.look);
  part.seen?.("elections", app.elections);
}

function redraw() { show(); }

// follow opens the streams that the part needs, and no others.
function follow(streams) {
  const of = streams.join(",");
  if (events?.of === of) return;
  events?.source.close();
  state("waiting", false);
  const source = new EventSource(`api/v1/events?of=${of}`);
  events = { of, source };
  source.addEventListener("begin", () => state("live", true));
  source.addEventListener("error", () => state("lost", false));
  for (const name of [...streams, "lost"]) {
    source.addEventListener(name, (e) => {
      const value = JSON.parse(e.data);
      if (name === "look" || name === "elections") app[name] = value;
      if (name === "look" && value.time) state("live", true, value.time);
      part.seen?.(name, value);
    });
  }
}

function state(key, on, at) {
  const live = document.querySelector("#live");
  live.classList.toggle("on", on);
  const said = document.querySelector("#state");
  said.dataset.text = key; // another language translates it
  said.textContent = t(key);
  live.title = at ? `${t("at")} ${at}` : "";
}

// asks opens the question whether to change something. Its act gets the values of the fields.
function asks({ title, text, fields, act, yes, risk }) {
  const dialog = document.querySelector("#ask");
  const set = (id, value) => { dialog.querySelector(id).textContent = value; };
  set("#ask-title", title);
  set("#ask-text", text ?? "");
  set("#ask-problem", "");
  set("#ask-no", t("cancel"));
  const inputs = (fields ?? []).map((f) => {
    const id = `ask-${f.name}`;
    const input = f.choices ? h("select", { id, name: f.name }, f.choices.map(([value, label]) => h("option", { value }, label)))
      : f.long ? h("textarea", { id, name: f.name, value: f.value ?? "", spellcheck: "false" })
        : h("input", { id, name: f.name, value: f.value ?? "", autocomplete: "off" });
    return { input, element: h("label", { for: id }, f.label, input) };
  });
  dialog.querySelector("#ask-fields").replaceChildren(...inputs.map((i) => i.element));
  const button = dialog.querySelector("#ask-yes");
  const fresh = button.cloneNode();
  fresh.textContent = yes ?? t("yes");
  fresh.classList.toggle("risk", Boolean(risk));
  button.replaceWith(fresh);
  fresh.addEventListener("click", async () => {
    fresh.disabled = true;
    try {
      await act(Object.fromEntries(inputs.map((i) => [i.input.name, i.input.value])));
      dialog.close();
    } catch (e) {
      set("#ask-problem", e.message);
    } finally {
      fresh.disabled = false;
    }
  });
  dialog.showModal();
}

document.querySelector("#language").addEventListener("click", () => { switchLanguage(); translate(); show(); });
document.querySelector("#theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme !== "dark";
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  localStorage.setItem("conclave-theme", dark ? "dark" : "light");
});
document.documentElement.dataset.theme = localStorage.getItem("conclave-theme") ||
  (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
addEventListener("hashchange", show);
document.documentElement.lang = languageNow();
translate();
try {
  app.about = await get("about");
} catch (e) {
  main.replaceChildren(h("p", { class: "error" }, e.message));
}
show();
