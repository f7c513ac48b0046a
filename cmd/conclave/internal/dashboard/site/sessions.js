// The sessions of the ensemble, and where their clients are.

import { fill, get, h, number, seconds, table, time } from "./dom.js";
import { t } from "./text.js";

const shownMax = 500;

export function sessions(app) {
  const list = h("section", { class: "panel" });
  const filter = h("input", { type: "search", "aria-label": t("filter"), placeholder: t("filter"), oninput: () => draw() });
  const again = h("button", { type: "button", onclick: () => load() }, t("refresh"));
  let found = null, gone = false;

  async function load() {
    try {
      found = await get("sessions");
      if (!gone) draw();
    } catch (e) {
      fill(list, h("p", { class: "error" }, e.message));
    }
  }

  function draw() {
    if (!found) return;
    const rates = new Map((app.look?.clients ?? []).map((c) => [c.session, c]));
    const text = filter.value.toLowerCase();
    const all = found.sessions.filter((s) => `${s.session} ${s.client ?? ""} ${s.server ?? ""}`.toLowerCase().includes(text));
    all.sort((a, b) => (rates.get(b.session)?.requestsPerSecond ?? 0) - (rates.get(a.session)?.requestsPerSecond ?? 0));
    fill(list, 
      (found.problems ?? []).length ? h("p", { class: "error" }, found.problems.join("; ")) : "",
      table(`${t("sessions")}: ${number(all.length)} ${t("of")} ${number(found.sessions.length)}`,
        [{ name: t("session") }, { name: t("client") }, { name: t("server") }, { name: t("since") }, { name: t("timeout"), number: true }, { name: t("persecond"), number: true }, { name: t("requests"), number: true }, { name: t("queued"), number: true }, { name: t("ephemerals"), number: true }],
        all.slice(0, shownMax).map((s) => {
          const rate = rates.get(s.session);
          return { cells: [app.about.log ? h("a", { href: `#log/?session=${s.session}` }, s.session) : s.session, s.client, s.server, time(s.since), s.timeoutMs ? seconds(s.timeoutMs / 1000) : "-",
            number(rate?.requestsPerSecond, 1), number(s.received), number(rate?.queued), number(s.ephemerals)] };
        })),
      all.length > shownMax ? h("p", {}, `${number(all.length - shownMax)} ${t("more")}`) : "");
  }

  load();
  return { elements: [h("div", { class: "row" }, filter, again), list], streams: ["look"], leave() { gone = true; } };
}
