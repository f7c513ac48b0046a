// Elements, and the API.

import { t } from "./text.js";

// h makes an element: attributes, listeners as on..., and children, which are text unless they are elements.
export function h(name, attributes, ...children) {
  const svg = ["svg", "path", "rect", "line", "text", "title", "g"].includes(name) && attributes?.svg !== false;
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false || key === "svg") continue;
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (key === "value") e.value = value;
    else e.setAttribute(key, value === true ? "" : value);
  }
  e.append(...real(children));
  return e;
}

// real leaves out what is none: a part that is shown under a condition.
const real = (children) => children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false && c !== "");

// places has what keys reach, by what it is called; null is what several are called.
function places(e) {
  const found = new Map();
  for (const part of e.querySelectorAll("[tabindex], a, button, summary")) {
    const name = `${part.tagName} ${part.getAttribute("aria-label") ?? part.getAttribute("href") ?? part.textContent}`;
    found.set(name, found.has(name) ? null : part);
  }
  return found;
}

// fill makes these the children of an element. A part that scrolls stays where it is, what is open stays open, and what
// had the focus has it.
export function fill(e, ...children) {
  const kept = [...places(e)].filter(([, part]) => part).map(([name, part]) => [name, part.scrollLeft, part.scrollTop, part.parentNode.open, part === document.activeElement]);
  e.replaceChildren(...real(children));
  const now = places(e);
  for (const [name, left, top, open, focused] of kept) {
    const part = now.get(name);
    if (!part) continue;
    if (left || top) part.scrollTo(left, top);
    if (open) part.parentNode.open = true;
    if (focused) part.focus({ preventScroll: true });
  }
}

export class Failure extends Error {
  constructor(problem, status) {
    super(problem.hint ? `${problem.error} (${problem.hint})` : problem.error);
    this.status = status;
  }
}

// answer returns what the dashboard has answered. What is no JSON is from something between: a proxy, a login.
async function answer(asked) {
  let response;
  try {
    response = await asked;
  } catch (e) {
    throw e.name === "AbortError" ? e : new Failure({ error: t("lost") });
  }
  let value = null;
  try {
    value = await response.json();
  } catch { /* null is no answer */ }
  if (response.ok && value) return value;
  throw new Failure(value?.error ? value : { error: `${response.status} ${response.statusText}`, hint: t("notours") }, response.status);
}

// get asks the API. Parameters that are empty are left out.
export async function get(what, parameters, signal) {
  const query = new URLSearchParams(Object.entries(parameters ?? {}).filter(([, v]) => v !== "" && v !== undefined));
  return answer(fetch(`api/v1/${what}${query.size ? "?" + query : ""}`, { signal }));
}

export async function post(what, body) {
  return answer(fetch(`api/v1/${what}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }));
}

// absolute is a path as somebody has typed it.
export const absolute = (path) => "/" + path.trim().replace(/^\/+|\/+$/g, "");

// table makes one in which wide columns wrap, and numbers are on the right. On a narrow screen a row is
// a list, each value with the name of its column; the roles say that it still is a table.
export function table(caption, columns, rows) {
  const kind = (c) => (c.number ? "n" : c.wide ? "wide" : null);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { role: "table" }, h("caption", {}, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((c) => h("th", { scope: "col", role: "columnheader", class: kind(c) }, c.name)))),
      h("tbody", { role: "rowgroup" }, rows.map((row) => h("tr", { role: "row", class: row.class }, row.cells.map((cell, i) =>
        h("td", { role: "cell", class: kind(columns[i]), "data-column": columns[i].name }, cell ?? "-")))))));
}

// time is a moment as people here write it; the whole of it is its title.
export function time(text) {
  if (!text) return "-";
  const at = new Date(text);
  const here = document.documentElement.lang;
  const date = at.toDateString() === new Date().toDateString() ? "" : at.toLocaleDateString(here) + " ";
  return h("time", { datetime: text, title: text }, date + at.toLocaleTimeString(here));
}

export function number(n, digits) {
  return n === undefined || n === null ? null : n.toLocaleString(document.documentElement.lang, { maximumFractionDigits: digits ?? 0 });
}

// seconds is a length of time for people.
export function seconds(s) {
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 120) return `${s.toFixed(1)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
  return `${(s / 3600).toFixed(1)} h`;
}
