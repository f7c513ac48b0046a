// The elections of the tree: who leads, who waits, who has led.

import { fill, get, h, post, seconds, table, time } from "./dom.js";
import { t } from "./text.js";

// timeline draws leaderships as bars over time, a row for each candidate. Two that overlap are marked.
function timeline(tenures, now) {
  const begin = Math.min(...tenures.map((p) => Date.parse(p.since)));
  const end = Math.max(now, ...tenures.map((p) => Date.parse(p.until ?? p.since)));
  const who = [...new Set(tenures.map((p) => p.leader))];
  const left = 190, width = 1000, row = 26;
  const x = (ms) => left + ((ms - begin) / Math.max(end - begin, 1)) * (width - left - 8);
  const height = who.length * row + 30;
  const bars = tenures.map((p, i) => {
    const from = Date.parse(p.since), to = p.until ? Date.parse(p.until) : now;
    const before = tenures[i - 1];
    const over = before && (before.until ? Date.parse(before.until) : now) > from + 1;
    return h("rect", { class: `led ${p.reason === "expired" || p.reason === "taken" ? "lost" : i % 2 ? "odd" : ""} ${over ? "over" : ""}`, x: x(from), width: Math.max(x(to) - x(from), 2), y: who.indexOf(p.leader) * row + 4, height: row - 9, rx: 3 },
      h("title", {}, `${p.leader} #${p.token}: ${p.since} - ${p.until ?? t("leads")} ${p.reason ?? ""}${over ? "; " + t("overlap") : ""}`));
  });
  return h("svg", { class: "times", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${t("timeline")}: ${tenures.map((p) => `${p.leader} ${seconds(((p.until ? Date.parse(p.until) : now) - Date.parse(p.since)) / 1000)}`).join(", ")}` },
    who.map((name, i) => h("text", { x: 0, y: i * row + 19 }, name.length > 24 ? name.slice(0, 23) + "…" : name)),
    bars,
    h("line", { class: "axis", x1: left, x2: width - 8, y1: height - 22, y2: height - 22 }),
    h("text", { class: "tick", x: left, y: height - 6 }, new Date(begin).toLocaleString(document.documentElement.lang)),
    h("text", { class: "tick", x: width - 8, y: height - 6, "text-anchor": "end" }, new Date(end).toLocaleString(document.documentElement.lang)));
}

// showHistory shows who has led, unless something newer is wanted when the answer comes.
async function showHistory(place, name, wanted) {
  fill(place, h("p", { class: "soft" }, t("loading")));
  try {
    const tenures = await get("elections/history", { election: name });
    if (!wanted()) return;
    const now = Date.now();
    fill(place, h("h2", {}, `${t("history")}: ${name}`), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("timeline") }, timeline(tenures, now)),
      table(t("history"), [{ name: t("token"), number: true }, { name: t("who"), wide: true }, { name: t("since") }, { name: t("until") }, { name: t("lasted"), number: true }, { name: t("reason") }],
        [...tenures].reverse().map((p) => ({ class: p.until ? null : "leads", cells: [String(p.token), p.leader, time(p.since), p.until ? time(p.until) : "-",
          p.until ? seconds((Date.parse(p.until) - Date.parse(p.since)) / 1000) : "-", p.reason ?? (p.until ? "-" : t("leads"))] }))));
  } catch (e) {
    if (wanted()) fill(place, h("p", { class: "error" }, e.message));
  }
}

export function elections(app, chosen) {
  const list = h("section", { class: "panel" });
  const past = h("section", { class: "panel", hidden: true, "aria-live": "polite" });
  const others = h("section", { class: "panel", hidden: true });
  const said = h("p", { role: "status" });
  let shown = null; // the leader whose history is shown
  const ask = async (election, to) => {
    await post("elections/ask", { election, to });
    said.textContent = t("asked");
  };
  const buttons = (e) => !app.about.changes || !e.leader ? null : h("span", { class: "row" },
    h("button", { type: "button", "aria-label": `${t("resign")}: ${e.election}`, onclick: () => app.asks({ title: t("resignask"), text: `${e.election}: ${e.leader} #${e.token}`, yes: t("resign"), risk: true, act: () => ask(e.election, "") }) }, t("resign")),
    e.candidates.length > 0 && h("button", { type: "button", "aria-label": `${t("transfer")}: ${e.election}`, onclick: () => app.asks({
      title: t("transferask"), text: `${e.election}: ${e.leader} #${e.token}`, yes: t("transfer"), risk: true,
      fields: [{ name: "to", label: t("to"), choices: e.candidates.map((c) => [c, c]) }], act: (f) => ask(e.election, f.to),
    }) }, t("transfer")));
  let drawn = "";
  return {
    elements: [list, past, others],
    streams: ["look", "elections"],
    seen(name, value) {
      if (name !== "elections" || !value) return;
      const text = JSON.stringify(value);
      if (text === drawn) return; // what has the focus keeps it
      drawn = text;
      const all = value.elections ?? [];
      fill(list, 
        value.error || value.problem ? h("p", { class: "error" }, value.error ?? value.problem) : null,
        all.length === 0 ? !(value.error || value.problem) && h("p", { class: "soft" }, t("noelections")) : table(t("elections"),
          [{ name: t("election") }, { name: t("who"), wide: true }, { name: t("token"), number: true }, { name: t("since") }, { name: t("waiters"), wide: true }, { name: t("actions") }],
          all.map((e) => ({ class: e.leader ? "leads" : null, cells: [h("a", { href: `#elections/${e.election.split("/").map(encodeURIComponent).join("/")}` }, e.election),
            e.error ? h("span", { class: "bad" }, e.error) : e.leader ? `${e.leader}${e.unconfirmed ? ` (${t("unconfirmed")})` : ""}` : h("span", { class: "bad" }, t("nobody")),
            String(e.token), time(e.since), e.candidates.join(", ") || "-", buttons(e) ?? ""] }))),
        value.moreElections ? h("p", {}, `${value.moreElections} ${t("more")}`) : "", said);
      others.hidden = !value.others?.length;
      fill(others, table(t("others"), [{ name: t("path") }, { name: t("library") }, { name: t("kind") }, { name: t("who"), wide: true }, { name: t("session") }, { name: t("waiters"), number: true }],
        (value.others ?? []).map((o) => ({ class: "leads", cells: [h("a", { href: `#tree${o.path.split("/").map(encodeURIComponent).join("/")}` }, o.path), o.library, t(o.kind), o.leader, o.session, String(o.waiting.length)] }))));
      const one = all.find((e) => e.election === chosen);
      const who = `${chosen} ${one?.leader} ${one?.token}`;
      if (chosen && who !== shown) {
        shown = who;
        past.hidden = false;
        showHistory(past, chosen, () => who === shown);
      }
    },
  };
}
