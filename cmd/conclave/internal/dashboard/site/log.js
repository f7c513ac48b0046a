// The transactions: as they are committed, and those of a path or a session back to the oldest log.

import { fill, get, h, table, time } from "./dom.js";
import { t } from "./text.js";

const shownMax = 500;
const ops = ["", "create", "create2", "createContainer", "createTTL", "delete", "setData", "setACL", "multi", "createSession", "closeSession", "reconfig", "error"];

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

export function log(app, rest) {
  if (!app.about.log) return { elements: [h("p", { class: "panel" }, t("nolog"))] };
  const asked = new URLSearchParams(rest.startsWith("?") ? rest : "");
  const path = h("input", { value: rest && !rest.startsWith("?") ? "/" + rest.replace(/^\/+/, "") : "", placeholder: "/", "aria-label": t("path"), spellcheck: "false" });
  const session = h("input", { value: asked.get("session") ?? "", placeholder: "0x100…", "aria-label": t("session"), spellcheck: "false" });
  const op = h("select", { "aria-label": t("op") }, ops.map((o) => h("option", { value: o }, o || t("any"))));
  const live = h("button", { type: "button", "aria-pressed": "true", onclick: () => { following = !following; live.setAttribute("aria-pressed", String(following)); } }, t("follow"));
  const list = h("section", { class: "panel" });
  const note = h("p", { class: "soft", role: "status" });
  let shown = [], following = true, gone = false, lost = 0, waiting = false;
  const query = () => ({ path: path.value.replace(/(.)\/+$/, "$1"), session: session.value, op: op.value });

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

  async function search() {
    try {
      const found = await get("log", { ...query(), limit: shownMax });
      if (gone) return;
      shown = found.transactions.reverse();
      note.textContent = [found.from && `${t("from")} ${found.from}.`, !found.whole && t("partly")].filter(Boolean).join(" ");
      draw();
    } catch (e) {
      fill(list, h("p", { class: "error" }, e.message));
    }
  }

  search();
  return {
    elements: [h("form", { class: "path", onsubmit: (e) => { e.preventDefault(); search(); } }, path, session, op, h("button", { type: "submit" }, t("search")), live), note, list],
    streams: ["look", "log"],
    seen(name, value) {
      if (name === "lost" && value.of === "log") {
        lost += value.events;
        note.textContent = `${t("lostevents")} ${lost}`;
      }
      if (name !== "log" || !value?.transactions || !following) return;
      const q = query();
      const fresh = value.transactions.filter((x) => matches(x, q) && !shown.some((y) => y.zxid === x.zxid));
      shown.unshift(...fresh.reverse());
      shown.splice(shownMax);
      if (value.skipped) {
        lost += value.skipped;
        note.textContent = `${t("lostevents")} ${lost}`;
      }
      if (fresh.length) drawSoon();
    },
    leave() { gone = true; },
  };
}
