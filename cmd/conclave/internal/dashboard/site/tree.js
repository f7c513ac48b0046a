// The tree: children in pages, and all about one znode.

import { absolute, fill, get, h, number, post, table, time } from "./dom.js";
import { t } from "./text.js";

const link = (path) => `#tree${path.split("/").map(encodeURIComponent).join("/")}`;
const join = (parent, name) => (parent === "/" ? "" : parent) + "/" + name;
const pageSize = 200;

function bytesOf(z) {
  if (z.data !== undefined) return new TextEncoder().encode(z.data);
  return Uint8Array.from(atob(z.dataBase64 ?? ""), (c) => c.charCodeAt(0));
}

// A field for text knows one end of a line: what has others cannot be edited there, unless all are of one kind.
const crlf = (data) => data.includes("\r\n") && !/[\r\n]/.test(data.replaceAll("\r\n", ""));
const editable = (z) => z.dataBase64 === undefined && (!z.data?.includes("\r") || crlf(z.data));

// hex writes 16 bytes a line, with those that are letters behind them.
function hex(bytes) {
  const lines = [];
  for (let at = 0; at < Math.min(bytes.length, 64 << 10); at += 16) {
    const part = [...bytes.subarray(at, at + 16)];
    lines.push(at.toString(16).padStart(6, "0") + "  " + part.map((b) => b.toString(16).padStart(2, "0")).join(" ").padEnd(48) + " " +
      part.map((b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : ".")).join(""));
  }
  return lines.join("\n");
}

function viewer(z) {
  if (z.data === undefined && z.dataBase64 === undefined) return h("p", { class: "soft" }, t("nulldata"));
  const bytes = bytesOf(z);
  const forms = { hex: () => hex(bytes) };
  if (z.data !== undefined) {
    forms.text = () => z.data;
    try {
      const value = JSON.parse(z.data);
      if (typeof value === "object") forms.json = () => JSON.stringify(value, null, 2);
    } catch { /* it is no JSON */ }
  }
  const pre = h("pre", { tabindex: "0", "aria-label": t("data") });
  const choose = (form) => {
    pre.textContent = forms[form]() || t("empty");
    for (const b of bar.children) b.setAttribute("aria-pressed", String(b.dataset.form === form));
  };
  const bar = h("div", { class: "row", role: "group", "aria-label": t("data") }, ["text", "json", "hex"].filter((f) => forms[f]).map((f) =>
    h("button", { type: "button", "data-form": f, onclick: () => choose(f) }, t(f))));
  choose(forms.json ? "json" : forms.text ? "text" : "hex");
  return h("div", {}, bar, pre);
}

export function tree(app, rest) {
  const path = rest ? "/" + rest.replace(/^\/+/, "") : "/";
  const names = h("ul", { class: "names", "aria-label": t("children") });
  const count = h("p", { class: "soft", role: "status" });
  const filter = h("input", { type: "search", "aria-label": t("filter"), placeholder: t("filter"), oninput: () => sift() });
  const more = h("button", { type: "button", hidden: true, onclick: () => load() }, t("next"));
  const znode = h("section", { class: "panel", "aria-label": path });
  const problem = h("p", { class: "error", role: "alert" });
  let cursor = "", shown = 0, gone = false, round = 0; // round: answers of those before do not count

  function sift() {
    const text = filter.value.toLowerCase();
    for (const li of names.children) li.hidden = !li.dataset.name.toLowerCase().includes(text);
  }

  async function load() {
    const mine = round;
    more.disabled = true;
    try {
      const page = await get("children", { path, cursor, limit: pageSize });
      if (gone || mine !== round) return;
      problem.textContent = "";
      names.append(...page.children.map((c) => h("li", { "data-name": c.name }, h("a", { href: link(join(path, c.name)) }, c.name),
        c.locked ? h("span", { class: "tag" }, t("locked")) : "", c.ephemeral ? h("span", { class: "tag" }, t("ephemeral")) : "",
        c.children ? h("span", { class: "tag" }, `${number(c.children)} ›`) : "", c.bytes ? h("span", { class: "tag" }, `${number(c.bytes)} B`) : "")));
      shown += page.children.length;
      cursor = page.next ?? "";
      more.hidden = !cursor;
      count.textContent = `${number(shown)} ${t("of")} ${number(page.total)}${page.sorted ? "" : ", " + t("notsorted")}`;
      sift();
    } catch (e) {
      if (gone || mine !== round) return;
      problem.textContent = e.message;
      if (e.status === 400 && cursor) { // the list has moved on
        cursor = "";
        shown = 0;
        names.replaceChildren();
        more.hidden = false;
        more.textContent = t("start");
      }
    } finally {
      if (mine === round) more.disabled = false;
    }
  }

  async function look() {
    const mine = round;
    try {
      const z = await get("znode", { path });
      if (gone || mine !== round) return;
      const s = z.stat;
      const meta = [["bytes", number(s.dataLength)], ["children", number(s.numChildren)], ["version", `${s.version} (${t("children")} ${s.cversion}, ${t("acl")} ${s.aversion})`],
        ["created", h("span", {}, time(s.ctime), ` ${s.czxid}`)], ["modified", h("span", {}, time(s.mtime), ` ${s.mzxid}`)], ["owner", s.ephemeralOwner]];
      const watches = h("div", {});
      fill(znode, h("h2", { class: "mono" }, path),
        h("div", { class: "row" },
          app.about.changes && h("button", { type: "button", onclick: create }, t("newchild")),
          app.about.changes && editable(z) && h("button", { type: "button", onclick: () => edit(z) }, t("edit")),
          app.about.changes && path !== "/" && h("button", { type: "button", class: "risk", onclick: () => remove(s.version) }, t("remove")),
          app.about.log && h("a", { href: `#log${path.split("/").map(encodeURIComponent).join("/")}` }, t("why")),
          h("button", { type: "button", onclick: () => whoWatches(watches) }, t("whowatches"))),
        h("h3", {}, t("data")), viewer(z),
        h("h3", {}, t("meta")), h("dl", {}, meta.filter(([, v]) => v).map(([key, v]) => [h("dt", {}, t(key)), h("dd", {}, v)])),
        h("h3", {}, t("acl")), z.aclProblem ? h("p", { class: "error" }, z.aclProblem) : h("p", { class: "mono" }, z.acl.join(", ")), watches);
    } catch (e) {
      if (!gone && mine === round) fill(znode, h("h2", { class: "mono" }, path), h("p", { class: "error" }, e.message));
    }
  }

  async function whoWatches(place) {
    try {
      const found = await get("watches", { path });
      fill(place, table(t("whowatches"), [{ name: t("session") }, { name: t("server") }, { name: t("path"), wide: true }],
        found.watches.map((w) => ({ cells: [w.session, w.server, w.path] }))), found.moreWatches ? h("p", {}, `${found.moreWatches} ${t("more")}`) : "");
    } catch (e) {
      fill(place, h("p", { class: "error" }, e.message));
    }
  }

  function again() {
    round++;
    cursor = "";
    shown = 0;
    names.replaceChildren();
    load();
    look();
  }

  const edit = (z) => app.asks({ title: t("editask"), text: path, yes: t("edit"), fields: [{ name: "data", label: t("data"), long: true, value: z.data ?? "" }],
    act: async (f) => {
      await post("znode", { do: "set", path, data: crlf(z.data ?? "") ? f.data.replaceAll("\n", "\r\n") : f.data, version: z.stat.version });
      again();
    } });
  const create = () => app.asks({ title: `${t("newask")} ${path}`, yes: t("newchild"),
    fields: [{ name: "name", label: t("name") }, { name: "data", label: t("data"), long: true }, { name: "mode", label: t("mode"), choices: [["", t("persistent")], ["sequential", t("sequential")], ["container", t("container")]] }],
    act: async (f) => { await post("znode", { do: "create", path: join(path, f.name), data: f.data, mode: f.mode }); again(); } });
  const remove = (version) => app.asks({ title: t("removeask"), text: path, yes: t("remove"), risk: true,
    act: async () => { await post("znode", { do: "delete", path, version }); location.hash = link(path.slice(0, path.lastIndexOf("/")) || "/"); } });

  const input = h("input", { value: path, "aria-label": t("path"), spellcheck: "false", autocomplete: "off", class: "mono" });
  const bar = h("form", { class: "path", onsubmit: (e) => { e.preventDefault(); location.hash = link(absolute(input.value)); } },
    path === "/" ? "" : h("a", { href: link(path.slice(0, path.lastIndexOf("/")) || "/") }, t("up")), input, h("button", { type: "submit" }, t("go")));
  again();
  return {
    elements: [h("div", { class: "two" }, h("section", { class: "panel", "aria-label": t("children") }, bar, filter, count, problem, names, more), znode)],
    leave() { gone = true; },
  };
}
