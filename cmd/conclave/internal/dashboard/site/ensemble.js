// The servers: who leads, how far the others are, what they do.

import { fill, get, h, number, table, time } from "./dom.js";
import { t } from "./text.js";

const pointsMax = 120;
const history = new Map(); // of each server: the figures of the last looks
const changes = []; // newest first
const roles = new Map();
const changesMax = 100;
const electionsShown = 12;
let epoch;

// note keeps the figures of a look, and what has changed since the one before.
function note(look) {
  if (!look?.servers || look === note.last) return;
  note.last = look;
  for (const s of look.servers) {
    const points = history.get(s.server) ?? [];
    points.push({ reads: s.readsPerSecond, writes: s.writesPerSecond, readms: s.readMs?.p99, writems: s.writeMs?.p99, lag: s.lag });
    history.set(s.server, points.slice(-pointsMax));
    const role = s.mode ?? "silent";
    const before = roles.get(s.server);
    if (before !== undefined && before !== role) changes.unshift({ at: look.time, server: s, role, before });
    roles.set(s.server, role);
    if (s.mode === "leader" && s.epoch !== undefined) {
      if (epoch !== undefined && s.epoch !== epoch) changes.unshift({ at: look.time, server: s, epoch: s.epoch });
      epoch = s.epoch;
    }
  }
  changes.splice(changesMax);
}

// chart draws the figures of the last two minutes, from zero to their largest.
function chart(label, points, key, unit) {
  const all = points.map((p) => p[key]);
  const known = all.filter((v) => v !== undefined);
  const most = Math.max(...known, key.endsWith("ms") ? 0.1 : 1);
  let d = "";
  all.forEach((v, i) => {
    if (v === undefined) return;
    d += `${d === "" || all[i - 1] === undefined ? "M" : "L"}${(pointsMax - all.length + i) * (200 / (pointsMax - 1))},${38 - (v / most) * 36}`;
  });
  const last = number(all.at(-1), key.endsWith("ms") ? 2 : 0);
  const now = last === null ? "-" : last + unit;
  return h("figure", {}, h("figcaption", {}, label, h("b", {}, now)),
    h("svg", { class: "chart", viewBox: "0 0 200 40", preserveAspectRatio: "none", role: "img", "aria-label": `${label}: ${now}` },
      h("path", { class: key.startsWith("read") ? "a" : "b", d: d || "M0,38" })));
}

function card(s) {
  const role = s.mode ?? "silent";
  const fields = [["epoch", s.epoch], ["zxid", s.zxid], ["lag", s.lag === undefined ? null : number(s.lag) + (s.lagAtLeast ? "+" : "")],
    ["insync", s.inSync === undefined ? null : `${s.inSync} / ${s.followers}`], ["clients", number(s.connections)], ["watches", number(s.watches)],
    ["queued", number(s.outstanding)], ["znodes", number(s.znodes)], ["version", s.version]];
  const points = history.get(s.server) ?? [];
  return h("article", { class: `panel server ${role === "leader" || role === "standalone" ? "leads" : ""} ${s.error ? "down" : ""}`, "data-server": s.server, "data-role": role },
    h("h2", {}, h("span", {}, s.id === undefined ? s.server : `${s.id}  ${s.server}`), h("span", { class: "role" }, t(role))),
    s.error && h("p", { class: "error" }, s.error),
    h("dl", {}, fields.filter(([, v]) => v !== undefined && v !== null).map(([key, v]) => [h("dt", {}, t(key)), h("dd", {}, String(v))])),
    !s.error && h("div", { class: "charts" }, chart(t("reads"), points, "reads", ""), chart(t("writes"), points, "writes", ""),
      chart(t("readms"), points, "readms", " ms"), chart(t("writems"), points, "writems", " ms")),
    s.sinceStart && h("p", { class: "soft" }, `* ${t("sincestart")}`));
}

// hits counts the limits that clients were held to since this page was opened.
const hits = new Map();

function count(look) {
  for (const l of look.limits) hits.set(`${l.server} ${l.limit}`, { ...l, times: (hits.get(`${l.server} ${l.limit}`)?.times ?? 0) + l.times });
}

export function ensemble(app) {
  const servers = h("div", { class: "cards" });
  const problems = h("section", { class: "panel problems", hidden: true });
  const clients = h("section", { class: "panel" });
  const paths = h("section", { class: "panel" });
  const limits = h("section", { class: "panel problems", hidden: true });
  const news = h("section", { class: "panel" });
  const elections = h("section", { class: "panel", id: "votes", hidden: true });
  let asked = null, gone = false; // asked: the change after which the votes were asked for

  // votes shows the elections of the servers, and who voted for whom.
  async function votes() {
    let told;
    try {
      told = await get("votes");
    } catch {
      return; // what was shown stays; the next change asks again
    }
    if (gone) return;
    const all = told.servers.flatMap((s) => s.elections.map((e) => ({ ...e, by: s.id ?? s.server })));
    all.sort((a, b) => (a.began < b.began ? 1 : -1));
    elections.hidden = all.length === 0;
    fill(elections, h("h2", {}, t("votes")), all.slice(0, electionsShown).map((e) => h("details", {},
      h("summary", {}, time(e.began), ` ${t("server")} ${e.by}${e.reason ? `: ${e.reason}` : ""}: ${e.decided ? `${t("leaderis")} ${e.leader}, ${number(Date.parse(e.decided) - Date.parse(e.began))} ms` : t("undecided")}`),
      table(`${t("votes")}: ${t("server")} ${e.by}, ${e.began}`, [{ name: "ms", number: true }, { name: t("server"), number: true }, { name: t("votesfor"), number: true }, { name: t("epoch"), number: true }, { name: t("zxid"), wide: true }, { name: t("round"), number: true }, { name: t("state") }],
        e.votes.map((v) => ({ cells: [number(Date.parse(v.time) - Date.parse(e.began)), number(v.server), number(v.for), number(v.epoch), v.zxid, number(v.round), t(v.state)] }))))));
  }

  return {
    elements: [servers, problems, limits, news, elections, paths, clients],
    streams: ["look"],
    leave() { gone = true; },
    seen(name, look) {
      if (name !== "look" || !look) return;
      if (look.error) {
        fill(servers, h("p", { class: "error" }, look.error));
        return;
      }
      note(look);
      count(look);
      fill(servers, look.servers.map(card));
      problems.hidden = !look.problems?.length;
      fill(problems, h("h2", {}, t("problems")), h("ul", {}, (look.problems ?? []).map((p) => h("li", {}, p))));
      fill(news, h("h2", {}, t("changesseen")), changes.length === 0 ? h("p", { class: "soft" }, t("nochange"))
        : h("ol", { id: "changes" }, changes.map((c) => h("li", {}, time(c.at), " ", c.server.id === undefined ? c.server.server : `${t("server")} ${c.server.id}`, " ",
          c.epoch !== undefined ? `${t("epochis")} ${c.epoch}` : `${t("becomes")} ${t(c.role)} (${t("was")} ${t(c.before)})`))));
      if (asked !== changes[0]) {
        asked = changes[0];
        votes();
      }
      limits.hidden = hits.size === 0;
      fill(limits, table(t("limits"), [{ name: t("server") }, { name: t("limit"), wide: true }, { name: t("times"), number: true }],
        [...hits.values()].map((l) => ({ cells: [l.server, l.limit, number(l.times)] }))));
      fill(paths, table(t("toppaths"), [{ name: t("path"), wide: true }, { name: t("reads"), number: true }, { name: t("writes"), number: true }, { name: t("bytessecond"), number: true }],
        look.paths.slice(0, 10).map((p) => ({ cells: [h("a", { href: `#tree${p.path.split("/").map(encodeURIComponent).join("/")}` }, p.path), number(p.readsPerSecond, 1), number(p.writesPerSecond, 1), number(p.bytesPerSecond)] }))));
      const top = look.clients.slice(0, 10);
      fill(clients, table(t("busiest"),
        [{ name: t("session") }, { name: t("client") }, { name: t("server") }, { name: t("persecond"), number: true }, { name: t("requests"), number: true }, { name: t("queued"), number: true }, { name: t("ms"), number: true }, { name: t("last") }],
        top.map((c) => ({ cells: [c.session, c.client, c.server, number(c.requestsPerSecond, 1), number(c.received), number(c.queued), number(c.averageMs), c.lastOp] }))),
      look.clients.length > 10 && h("p", {}, h("a", { href: "#sessions" }, `${look.clients.length - 10 + (look.moreClients ?? 0)} ${t("more")}`)));
    },
  };
}
