// The drawing: servers on a circle, links between them, messages on their way.

import { say } from "./text.js";

const svg = "http://www.w3.org/2000/svg";
// The stage is smaller on a narrow screen, so that what is on it is larger.
const wide = { width: 1000, height: 720, centre: { x: 500, y: 350 }, radius: { x: 360, y: 270 } };
const narrow = { width: 680, height: 640, centre: { x: 340, y: 310 }, radius: { x: 245, y: 235 } };
const isNarrow = matchMedia("(max-width: 600px)");

// element returns the element of a key below a parent, made once.
function element(parent, key, make) {
  let found = parent.querySelector(`:scope > [data-key="${CSS.escape(key)}"]`);
  if (!found) {
    found = make();
    found.dataset.key = key;
    parent.append(found);
  }
  return found;
}

function node(name, attributes = {}, ...children) {
  const made = document.createElementNS(svg, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// prune takes away what is not among the keys.
function prune(parent, keys) {
  for (const child of [...parent.children]) if (!keys.has(child.dataset.key)) child.remove();
}

const kinds = [
  [/vote|election|answer|coordinator|token|elected/i, "vote"],
  [/heartbeat|ping|alive|passed|watch|changed/i, "heart"],
  [/proposal|commit|ack|write|written|value|snap|diff|trunc/i, "data"],
];

export class Scene {
  constructor(root, { choose, part }) {
    this.root = root;
    this.links = root.querySelector("#links");
    this.flights = root.querySelector("#flights");
    this.nodes = root.querySelector("#nodes");
    this.choose = choose;
    this.places = new Map();
    this.#knife(part);
  }

  // draw shows a frame as it is at a time that is not after it.
  draw(frame, nowUs, chosen) {
    this.#place(frame.servers);
    this.#drawLinks(frame);
    for (const server of frame.servers) this.#drawServer(server, chosen, frame.servers.filter((s) => s.vote === server.id).length);
    prune(this.nodes, new Set(frame.servers.map((s) => s.id)));
    for (const flight of frame.flights) this.#drawFlight(flight, nowUs, chosen);
    prune(this.flights, new Set(frame.flights.map((f) => String(f.number))));
  }

  #place(servers) {
    const { width, height, centre, radius } = isNarrow.matches ? narrow : wide;
    this.root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const around = servers.filter((s) => s.shape === "server");
    this.places.clear();
    around.forEach((s, i) => {
      const angle = (i / around.length) * 2 * Math.PI - Math.PI / 2 - (around.length % 2 ? 0 : Math.PI / around.length);
      this.places.set(s.id, { x: centre.x + radius.x * Math.cos(angle), y: centre.y + radius.y * Math.sin(angle) });
    });
    servers.filter((s) => s.shape !== "server").forEach((s, i) => {
      this.places.set(s.id, { x: centre.x + (i ? 130 : -130), y: centre.y });
    });
  }

  #drawLinks(frame) {
    const keys = new Set();
    const pairs = [];
    frame.servers.forEach((a, i) => frame.servers.slice(i + 1).forEach((b) => {
      if (a.shape === "server" && b.shape === "server" && frame.servers.some((s) => s.shape !== "server")) return;
      if (a.shape !== "server" && b.shape !== "server") return;
      pairs.push([a.id, b.id]);
    }));
    for (const [a, b] of pairs) {
      const key = a + " " + b;
      keys.add(key);
      this.#line(key, "link", this.places.get(a), this.places.get(b), 0);
    }
    for (const [a, b] of frame.cuts) {
      if (!this.places.has(a) || !this.places.has(b)) continue;
      const key = "cut " + a + " " + b;
      keys.add(key);
      this.#line(key, "cut", this.places.get(a), this.places.get(b), 8).setAttribute("marker-end", "url(#arrow)");
    }
    for (const { id, vote } of frame.servers) {
      if (!vote || vote === id || !this.places.has(vote)) continue;
      const key = "vote " + id;
      keys.add(key);
      this.#line(key, "votes-for", this.places.get(id), this.places.get(vote), -8).setAttribute("marker-end", "url(#votes-for)");
    }
    prune(this.links, keys);
  }

  #line(key, kind, a, b, aside) {
    const line = element(this.links, key, () => node("line", { class: kind }));
    const p = between(a, b, 0.14, aside), q = between(a, b, 0.86, aside);
    line.setAttribute("x1", p.x); line.setAttribute("y1", p.y);
    line.setAttribute("x2", q.x); line.setAttribute("y2", q.y);
    return line;
  }

  #drawServer(s, chosen, votes) {
    const at = this.places.get(s.id);
    const g = element(this.nodes, s.id, () => this.#makeServer(s));
    g.setAttribute("transform", `translate(${at.x} ${at.y})`);
    g.setAttribute("class", ["node", s.state, s.leads ? "leads" : "", chosen === s.id ? "chosen" : ""].join(" ").trim());
    const state = s.state === "up" ? s.role : say(s.state);
    g.querySelector(".role").textContent = " " + state + " ";
    const detail = s.fields.find((f) => ["term", "token", "epoch", "value", "leader", "holder"].includes(f.name));
    g.querySelector(".detail").textContent = s.vote ? `${say("votesfor")} ${s.vote}` : detail ? `${detail.name} ${detail.value}` : "";
    g.querySelector(".votes").textContent = votes ? `${votes} ${say(votes === 1 ? "vote" : "votes")}` : "";
    const share = s.leaseOfMs ? Math.min(1, Math.max(0, s.leaseMs / s.leaseOfMs)) : 0;
    g.querySelector(".lease").setAttribute("d", share > 0 ? arc(66, share) : "");
    this.#drawLog(g.querySelector(".cells"), s.log ?? []);
  }

  #makeServer(s) {
    const body = s.shape === "server" ? node("circle", { class: "body", r: 56 })
      : node("rect", { class: "body", x: -68, y: -52, width: 136, height: 104, rx: s.shape === "store" ? 26 : 6 });
    const g = node("g", { tabindex: "0", role: "button" }, body,
      node("path", { class: "lease" }),
      node("path", { class: "crown", d: "M-16 -34 l4 -16 l9 8 l3 -13 l3 13 l9 -8 l4 16 z" }),
      node("text", { class: "votes small", y: -64 }), node("text", { class: "name", y: -8 }), node("text", { class: "role", y: 16 }), node("text", { class: "detail small", y: 36 }),
      node("g", { class: "cells" }));
    g.querySelector(".name").textContent = s.id;
    this.#chosenBy(g, s.id);
    return g;
  }

  // chosenBy has a click choose what is drawn, or a key.
  #chosenBy(g, what) {
    g.addEventListener("click", () => this.choose(what));
    g.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        event.stopPropagation();
        this.choose(what);
      }
    });
  }

  // drawLog shows the newest transactions as cells below the server.
  #drawLog(parent, log) {
    const keys = new Set(log.map((c) => c.zxid));
    log.forEach((c, i) => {
      const cell = element(parent, c.zxid, () => node("g", {}, node("rect", { width: 38, height: 22, rx: 3 }), node("text", { class: "small", x: 19, y: 16 })));
      cell.setAttribute("transform", `translate(${(i - log.length / 2) * 41} 64)`);
      cell.firstChild.setAttribute("class", ["cell", c.durable ? "durable" : "", c.shown ? "shown" : ""].join(" ").trim());
      cell.lastChild.textContent = c.zxid;
    });
    prune(parent, keys);
  }

  #drawFlight(f, nowUs, chosen) {
    const a = this.places.get(f.from), b = this.places.get(f.to);
    const g = element(this.flights, String(f.number), () => this.#makeFlight(f));
    if (!a || !b) return;
    const untilUs = f.lost ? Math.min(nowUs, f.lostUs) : nowUs;
    const way = Math.min(1, Math.max(0, (untilUs - f.sentUs) / (f.arrivesUs - f.sentUs)));
    const at = between(a, b, 0.12 + 0.76 * way, 10);
    g.setAttribute("transform", `translate(${at.x} ${at.y})`);
    g.classList.toggle("lost", f.lost);
    g.classList.toggle("chosen", chosen === f.number);
  }

  #makeFlight(f) {
    const kind = kinds.find(([pattern]) => pattern.test(f.kind))?.[1] ?? "other";
    const g = node("g", { class: "flight " + kind, tabindex: "0", role: "button" }, node("circle", { class: "near", r: 22 }), node("circle", { class: "dot", r: kind === "heart" ? 6 : 9 }));
    if (kind !== "heart") {
      const text = node("text", { y: -13 });
      text.textContent = f.kind;
      g.append(text);
    }
    const title = node("title");
    title.textContent = `${f.from} → ${f.to}: ${f.text}`;
    g.append(title);
    this.#chosenBy(g, f.number);
    return g;
  }

  // knife lets a line be drawn that parts the servers.
  #knife(part) {
    const line = this.root.querySelector("#knife");
    let from = null;
    const point = (event) => {
      const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.root.getScreenCTM().inverse());
      return { x: p.x, y: p.y };
    };
    this.root.addEventListener("pointerdown", (event) => {
      if (event.target.closest(".node, .flight")) return;
      from = point(event);
      this.root.setPointerCapture(event.pointerId);
    });
    this.root.addEventListener("pointermove", (event) => {
      if (!from) return;
      const to = point(event);
      for (const [key, value] of Object.entries({ x1: from.x, y1: from.y, x2: to.x, y2: to.y })) line.setAttribute(key, value);
      line.classList.toggle("drawn", Math.hypot(to.x - from.x, to.y - from.y) > 40);
    });
    const end = (event) => {
      const to = from && point(event);
      const side = from && this.#side(from, to);
      if (side?.length && side.length < this.places.size && line.classList.contains("drawn")) part(side);
      line.classList.remove("drawn");
      from = null;
    };
    this.root.addEventListener("pointerup", end);
    this.root.addEventListener("pointercancel", () => { line.classList.remove("drawn"); from = null; });
  }

  // side returns the servers on the left of a line.
  #side(from, to) {
    return [...this.places].filter(([, p]) => (to.x - from.x) * (p.y - from.y) - (to.y - from.y) * (p.x - from.x) < 0).map(([id]) => id);
  }
}

// between is a point on the way from a to b, a little to the right of it, so that the two ways can be seen apart.
function between(a, b, share, aside) {
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  return {
    x: a.x + (b.x - a.x) * share - ((b.y - a.y) / length) * aside,
    y: a.y + (b.y - a.y) * share + ((b.x - a.x) / length) * aside,
  };
}

// arc is the path of a share of a circle, from the top on.
function arc(r, share) {
  const angle = Math.min(share, 0.9999) * 2 * Math.PI;
  return `M0 ${-r} A${r} ${r} 0 ${share > 0.5 ? 1 : 0} 1 ${r * Math.sin(angle)} ${-r * Math.cos(angle)}`;
}
