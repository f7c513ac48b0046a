// The transactions: as they are committed, and those of a path or a session back to the oldest log.

import { absolute, fill, get, h, table, time } from "./dom.js";
import { t } from "./text.js";

const shownMax = 500;
const ops = ["", "create", "create2", "createContainer", "createTTL", "delete", "deleteContainer", "setData", "setACL", "multi", "createSession", "closeSession", "reconfig", "error"];

function what(x) {
  const parts = [];
  if (x.path) parts.push(h("a", { href: `#tree${x.path.split("/").map(encodeURIComponent).join("/")}` }, x.path));
  const facts = [x.ephemeral && t("ephemeral"), x.ttlMs && `ttl ${x.ttlMs} ms`, x.bytes !== undefined && `${x.bytes} B`, x.version !== undefined && `${t("version")} ${x.version}`,
    x.timeoutMs && `${t("timeout")} ${x.timeoutMs} ms`, x.error, ...(x.paths ?? [])].filter(Boolean);
  if (facts.length) parts.push(` ${facts.join(", ")} `);
  for (const part of x.parts ?? []) parts.push(h("span", { class: "tag" }, part.op), ...what(part), " ");
  return parts;
}

const row = (x) => ({ class: "logrow", cells: [time(x.time), h("span", { class: "mono" }, x.zxid), x.op, h("span", {}, what(x)),
  h("a", { href: `#log/?session=${x.session}` }, x.session)] });

function matches(x, q) {
  const below = (p) => p === q.path || p?.startsWith(q.path === "/" ? "/" : q.path + "/");
  const touches = (y) => below(y.path) || (y.paths ?? []).some(below) || (y.parts ?? []).some(touches);
  const does = (y) => y.op === q.op || (y.parts ?? []).some(does);
  return (!q.session || x.session === q.session) && (!q.path || q.path === "/" || touches(x)) && (!q.op || does(x));
}

export function log(app, rest, raw) {
  if (!app.about.log) return { elements: [h("p", { class: "panel" }, t("nolog"))] };
  const asked = raw.startsWith("?") ? new URLSearchParams(raw) : null; // in a path it is encoded
  const path = h("input", { value: rest && !asked ? "/" + rest.replace(/^\/+/, "") : "", placeholder: "/", "aria-label": t("path"), spellcheck: "false" });
  const session = h("input", { value: asked?.get("session") ?? "", placeholder: "0x100…", "aria-label": t("session"), spellcheck: "false" });
  const op = h("select", { "aria-label": t("op") }, ops.map((o) => h("option", { value: o }, o || t("any"))));
  const live = h("button", { type: "button", "aria-pressed": "true", onclick: () => {
    following = !following;
    live.setAttribute("aria-pressed", String(following));
    if (following) search(); // what was committed meanwhile
  } }, t("follow"));
  const list = h("section", { class: "panel" });
  const note = h("p", { class: "soft", role: "status" });
  let shown = [], following = true, gone = false, lost = 0, waiting = false;
  let q = {}, fresh = [], searching = null; // what is searched for, what has come since, what ends the search
  const query = () => ({ path: path.value && absolute(path.value), session: session.value.trim().toLowerCase(), op: op.value });

  function draw() {
    waiting = false;
    if (gone) return;
    fill(list, table(t("thelog"), [{ name: t("at") }, { name: t("zxid") }, { name: t("op") }, { name: t("what"), wide: true }, { name: t("session") }],
      shown.map(row)));
  }

  function drawSoon() {
    if (waiting) return;
    waiting = true;
    setTimeout(draw, 150);
  }

  // search shows the answer to the newest question alone: an older one is not waited for.
  async function search() {
    searching?.abort();
    const mine = searching = new AbortController();
    q = query();
    fresh = [];
    note.textContent = t("loading");
    try {
      const found = await get("log", { ...q, limit: shownMax }, mine.signal);
      if (gone || mine !== searching) return;
      const known = new Set(found.transactions.map((x) => x.zxid));
      shown = [...fresh.filter((x) => !known.has(x.zxid)), ...found.transactions.reverse()].slice(0, shownMax);
      note.textContent = [found.from && `${t("from")} ${found.from}.`, !found.whole && t("partly")].filter(Boolean).join(" ");
      draw();
    } catch (e) {
      if (gone || mine !== searching) return;
      shown = fresh;
      note.textContent = "";
      fill(list, h("p", { class: "error" }, e.message));
    }
  }

  search();
  return {
    elements: [h("form", { class: "path", onsubmit: (e) => { e.preventDefault(); search(); } }, path, session, op, h("button", { type: "submit" }, t("search")), live), note, list],
    streams: ["look", "log"],
    seen(name, value) {
      if (name === "again" && following) search();
      if (name === "lost" && value.of === "log") {
        lost += value.events;
        note.textContent = `${t("lostevents")} ${lost}`;
      }
      if (name !== "log" || !value?.transactions || !following) return;
      const more = value.transactions.filter((x) => matches(x, q) && !shown.some((y) => y.zxid === x.zxid)).reverse();
      fresh = [...more, ...fresh].slice(0, shownMax);
      shown = [...more, ...shown].slice(0, shownMax);
      if (value.skipped) {
        lost += value.skipped;
        note.textContent = `${t("lostevents")} ${lost}`;
      }
      if (more.length) drawSoon();
    },
    leave() {
      gone = true;
      searching.abort();
    },
  };
}
