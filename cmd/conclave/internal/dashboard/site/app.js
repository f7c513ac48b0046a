// The page: its parts, what is live, and what asks before it changes something.

import { fill, get, h } from "./dom.js";
import { keep, kept, languageNow, switchLanguage, t, translate } from "./text.js";
import { ensemble } from "./ensemble.js";
import { elections } from "./elections.js";
import { tree } from "./tree.js";
import { sessions } from "./sessions.js";
import { log } from "./log.js";

const parts = { ensemble, elections, tree, sessions, log };
const main = document.querySelector("#main");
const againMs = 3000;

// app is what the parts share.
export const app = { about: {}, look: null, elections: null, asks };
let part = null; // the one that is shown
let events = null;

// The part of the URL behind # is that of the page, and what it shows: #tree/app/config.
function route() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  const raw = rest.join("/");
  let path = raw;
  try {
    path = rest.map(decodeURIComponent).join("/");
  } catch { /* it was typed, and is no URL: taken as it is */ }
  return { name: Object.hasOwn(parts, name) ? name : "ensemble", rest: path, raw };
}

function show() {
  const { name, rest, raw } = route();
  part?.leave?.();
  part = parts[name](app, rest, raw);
  main.replaceChildren(...part.elements);
  fill(document.querySelector("#tabs"), Object.keys(parts).filter((p) => p !== "log" || app.about.log).map((p) =>
    h("a", { href: `#${p}`, "aria-current": p === name ? "page" : null }, t(p))),
  app.about.lab && h("a", { href: "lab/" }, t("lab")));
  document.title = `${t(name)} - Conclave`;
  follow(part.streams ?? ["look"]);
  part.seen?.("look", app.look);
  part.seen?.("elections", app.elections);
}

// learn asks what this dashboard can show.
async function learn() {
  try {
    app.about = await get("about");
  } catch { /* the page says that there is no connection, and asks again with the next one */ }
  show();
}

// follow opens the streams that the part needs, and no others.
function follow(streams) {
  const of = streams.join(",");
  if (events?.of === of) return;
  events?.source.close();
  state("waiting", false);
  const source = new EventSource(`api/v1/events?of=${of}`);
  const again = events?.of === null; // after one that has failed
  let begun = again;
  events = { of, source };
  source.addEventListener("begin", () => {
    state("live", true);
    if (!app.about.version) learn();
    else if (begun) part.seen?.("again");
    begun = true;
  });
  source.addEventListener("error", () => {
    state("lost", false);
    if (source.readyState !== EventSource.CLOSED) return; // else the browser tries again by itself
    setTimeout(() => {
      if (events.source !== source) return;
      events.of = null;
      follow(streams);
    }, againMs);
  });
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
  button.textContent = yes ?? t("yes");
  button.classList.toggle("risk", Boolean(risk));
  dialog.querySelector("form").onsubmit = async (e) => { // by the button, or by Enter in a field
    e.preventDefault();
    button.disabled = true;
    try {
      await act(Object.fromEntries(inputs.map((i) => [i.input.name, i.input.value])));
      dialog.close();
    } catch (e) {
      set("#ask-problem", e.message);
    } finally {
      button.disabled = false;
    }
  };
  dialog.showModal();
}

document.querySelector("#ask-no").addEventListener("click", () => document.querySelector("#ask").close());
document.querySelector("#language").addEventListener("click", () => { switchLanguage(); translate(); show(); });
document.querySelector("#theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme !== "dark";
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  keep("conclave-theme", dark ? "dark" : "light");
});
document.documentElement.dataset.theme = kept("conclave-theme") ||
  (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
addEventListener("hashchange", show);
document.documentElement.lang = languageNow();
translate();
learn();
