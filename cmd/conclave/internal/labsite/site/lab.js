// The page: what is chosen, how time passes, and what is shown beside the scene.

import { Engine } from "./engine.js";
import { Scene } from "./scene.js";
import { currentLanguage, setLanguage, translate, say } from "./text.js";

const $ = (id) => document.getElementById(id);
const engine = new Engine();
const scene = new Scene($("scene"), { choose, part: (group) => act("part", group.join(".")) });

let scenarios = [];
let algorithms = {};
let scenario = null;      // the one that is shown, null for a run of one's own
let frame = null;         // the latest
let nowUs = 0;            // what is drawn
let playing = false;
let chosen = null;        // a server's id, or a message's number
let seen = 0;             // notes that are shown
let caption = -1;
let drawn = "";           // what of the side panels is up to date

// start loads the machines and opens what the URL says.
async function start() {
  try { restore(); } catch { /* storage may be off limits: the defaults do */ }
  showTexts();
  $("caption").textContent = say("loading");
  const reply = await engine.ask("scenarios");
  if (reply.error) {
    $("caption").textContent = say("failed") + reply.error;
    return;
  }
  ({ scenarios, algorithms } = reply);
  fillChoices();
  await openURL();
  requestAnimationFrame(animate);
}

// openURL opens the run that stands in the URL, or the first scenario.
async function openURL() {
  const hash = location.hash.slice(1);
  const values = new URLSearchParams(hash);
  const own = ["alg", "servers", "seed", "do"].some((key) => values.has(key));
  const name = own ? null : values.get("scenario") ?? (hash ? null : scenarios[0].name);
  const named = scenarios.find((s) => s.name === name) ?? null;
  const reply = name !== null && !named ? { error: say("unknown") + name } : await engine.ask("open", { spec: named?.spec ?? hash });
  if (reply.error) { // the run that is shown stays, or there is the first scenario
    if (!frame) begin(await engine.ask("open", { spec: (scenario = scenarios[0]).spec }));
    return fail(reply.error);
  }
  scenario = named;
  begin(reply);
  const toMs = Number(values.get("at") ?? 0);
  if (toMs > 0) await go(toMs * 1000);
}

// begin shows a run that was just opened.
function begin(reply) {
  chosen = null;
  caption = -1;
  drawn = "";
  seen = 0;
  $("log").replaceChildren();
  $("moment").max = scenario?.untilMs ?? 15000;
  take(reply);
  play(false);
}

// take takes a reply: it has a frame, and says what went wrong.
function take(reply) {
  fail(reply.error ?? "");
  if (!reply.frame) return;
  const changed = frame?.spec !== reply.frame.spec;
  frame = reply.frame;
  if (frame.seen < seen || frame.nowUs < nowUs) {
    seen = 0;
    $("log").replaceChildren();
  }
  const first = frame.seen - frame.notes.length; // other replies may have come since it was asked for
  if (first > seen) return void again();
  nowUs = frame.nowUs;
  addNotes(frame.notes.slice(seen - first));
  seen = frame.seen;
  if (changed) showSpec();
  show();
}

// again asks for the whole log.
async function again() { take(await engine.ask("run", { toUs: frame.nowUs, since: 0 })); }

// show draws all that may have changed.
function show() {
  if (!frame) return;
  scene.draw(frame, nowUs, chosen);
  const ms = nowUs / 1000;
  if (ms > Number($("moment").max)) $("moment").max = Math.ceil(ms / 5000 + 1) * 5000;
  $("moment").value = ms;
  $("now").textContent = (ms / 1000).toFixed(3) + " s";
  showCaption();
  showRules();
  showChosen();
}

function showCaption() {
  const captions = scenario?.captions ?? [];
  let at = -1;
  while (at + 1 < captions.length && captions[at + 1].atMs * 1000 <= nowUs) at++;
  const text = at < 0 ? (scenario ? "" : translate(algorithms[algorithm()] ?? "")) : captions[at].text[currentLanguage()];
  if ($("caption").textContent !== text) $("caption").textContent = text;
  if (at > caption && caption >= 0 && playing && $("stops").checked) play(false);
  caption = at;
}

function showRules() {
  const key = JSON.stringify([frame.rules, currentLanguage()]);
  if (drawn === key) return;
  drawn = key;
  $("rules").replaceChildren(...frame.rules.map((r) => {
    const item = document.createElement("li");
    item.className = r.broken ? (r.promised ? "broken" : "broken wish") : "";
    item.append(tag("span", "mark", r.broken ? "✗" : "✓"));
    const text = tag("div", "", translate(r.text));
    text.append(tag("span", "hidden", ": " + say(r.broken ? "broken" : "holds")), tag("small", "", r.id + (r.promised ? "" : ", " + say("wish"))));
    if (r.broken) {
      const why = tag("span", "why", r.broken + " ");
      why.append(button(say("show"), () => go(r.atUs)));
      text.append(why);
    }
    item.append(text);
    return item;
  }));
}

// showChosen shows the chosen server or message, and what can be done to it.
function showChosen() {
  const server = frame.servers.find((s) => s.id === chosen);
  const flight = frame.flights.find((f) => f.number === chosen);
  const title = server ? server.id : flight ? `${say("message")} ${flight.number}` : say("choose");
  if ($("selected-title").textContent !== title) $("selected-title").textContent = title;
  const fields = server ? serverFields(server) : flight ? [[say("from"), flight.from], [say("to"), flight.to], [flight.kind, flight.text]] : [];
  const text = JSON.stringify(fields);
  if ($("fields").dataset.shown !== text) {
    $("fields").dataset.shown = text;
    $("fields").replaceChildren(...fields.flatMap(([name, value]) => [tag("dt", "", name), tag("dd", "", value)]));
  }
  showActions(server, flight);
}

function serverFields(s) {
  const fields = [[say("state"), say(s.state)], [say("role"), s.role || "-"], ...s.fields.map((f) => [f.name, f.value])];
  if (s.leaseOfMs) fields.push([say("lease"), Math.max(0, s.leaseMs) + " ms"]);
  if (s.clockPpm) fields.push([say("clock"), (s.clockPpm > 0 ? "+" : "") + s.clockPpm / 10000 + " %"]);
  return fields;
}

// showActions makes the buttons again only when others are needed, so that none goes away under a finger.
function showActions(server, flight) {
  const key = JSON.stringify([server?.id, server?.state, server?.shape, server?.leads, server?.fields.find((f) => f.name === "ensemble")?.value, flight?.number, frame.spec.split("&")[0], currentLanguage(), frame.servers.length]);
  if ($("actions").dataset.key === key) return;
  $("actions").dataset.key = key;
  const made = [];
  const add = (name, ...action) => made.push(button(say(name), () => act(...action)));
  if (flight) for (const verb of ["drop", "delay", "repeat"]) add(verb, verb, String(flight.number), ...(verb === "delay" ? ["1000"] : []));
  if (server?.state === "down") {
    add("start", "start", server.id);
    add("wipe", "wipe", server.id);
  } else if (server) {
    add("kill", "kill", server.id);
    if (server.state === "up") add("pause-server", "pause", server.id);
    else add("resume", "resume", server.id);
    const others = frame.servers.filter((s) => s.id !== server.id).map((s) => s.id);
    if (server.shape === "server") made.push(...ownActions(server, others));
    for (const verb of ["cut", "heal", "dropnext"]) made.push(withServer(verb, others, (other) => act(verb, server.id, other)));
    made.push(clocks(server.id));
  }
  $("actions").replaceChildren(...made);
}

// ownActions are those of the algorithm.
function ownActions(server, others) {
  const made = [];
  const add = (verb) => made.push(button(say(verb), () => act(verb, server.id)));
  const members = others.filter((id) => /^[sc]\d$/.test(id));
  switch (algorithm()) {
    case "zab":
      made.push(button(say("write"), () => act("write", server.id, "v" + (frame.done + 1))));
      if (server.leads) made.push(...reconfigs(server, [server.id, ...members]));
      add("full");
      add("space");
      break;
    case "lease": case "unfenced":
      add("resign");
      made.push(withServer("transfer", members, (other) => act("transfer", server.id, other)));
      break;
    default:
      add("campaign");
      add("withdraw");
      if (algorithm() === "raft") made.push(withServer("transfer", members, (other) => act("transfer", server.id, other)));
  }
  return made;
}

// reconfigs take a server out of the ensemble, or into it.
function reconfigs(leader, servers) {
  const ensemble = (leader.fields.find((f) => f.name === "ensemble")?.value ?? "").split(" ");
  const change = (ids) => act("reconfig", leader.id, ids.toSorted().join("."));
  return [
    withServer("takeout", ensemble, (id) => change(ensemble.filter((other) => other !== id))),
    withServer("takein", servers.filter((id) => !ensemble.includes(id)), (id) => change([...ensemble, id])),
  ];
}

// withServer is a choice of another server that acts when it is made.
function withServer(verb, others, then) {
  const choice = document.createElement("select");
  choice.setAttribute("aria-label", say(verb));
  choice.append(new Option(say(verb) + " …", ""), ...others.map((id) => new Option(id, id)));
  choice.addEventListener("change", () => {
    if (choice.value) then(choice.value);
    choice.value = "";
  });
  return choice;
}

function clocks(id) {
  const choice = document.createElement("select");
  choice.setAttribute("aria-label", say("clock"));
  choice.append(new Option(say("clock") + " …", ""), new Option(say("fast"), "50000"), new Option(say("slow"), "-50000"), new Option(say("right"), "0"));
  choice.addEventListener("change", () => {
    if (choice.value) act("clock", id, choice.value);
    choice.value = "";
  });
  return choice;
}

function addNotes(notes) {
  const list = $("log");
  const atEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 30;
  for (const e of notes) {
    const item = tag("li", e.kind, "");
    const time = button((e.atUs / 1000).toFixed(1), () => go(e.atUs));
    item.append(time, tag("span", "", e.server), tag("span", "", e.text));
    list.append(item);
  }
  while (list.children.length > 2000) list.firstChild.remove();
  if (atEnd) list.scrollTop = list.scrollHeight;
}

// act does something now. What the run had planned for later is dropped: the URL is that of this run.
async function act(verb, ...args) {
  play(false);
  const reply = await engine.ask("do", { verb, args, since: seen });
  take(reply);
  $("actions").dataset.key = "";
  show();
}

// go shows another moment.
async function go(us) {
  play(false);
  const back = us < frame.nowUs;
  take(await engine.ask(back ? "back" : "run", { toUs: Math.round(us), since: back ? 0 : seen }));
}

async function step() {
  play(false);
  take(await engine.ask("step", { since: seen }));
}

// backOne goes to the moment before the last thing that happened.
async function backOne() {
  const moments = frame.flights.map((f) => f.sentUs).filter((us) => us < frame.nowUs);
  await go(Math.max(0, ...moments, frame.nowUs - 60000) - 1);
}

function play(on) {
  playing = on;
  $("play").textContent = on ? "❚❚" : "▶";
  $("play").title = say(on ? "pause" : "play");
  $("play").setAttribute("aria-label", $("play").title);
  $("play").setAttribute("aria-pressed", String(on));
}

// animate lets time pass, one frame of the screen after the other.
let before = 0;
function animate(time) {
  const passed = Math.min(100, time - before);
  before = time;
  if (playing && !engine.busy) {
    const endUs = (scenario && nowUs < scenario.untilMs * 1000 ? scenario.untilMs : 600000) * 1000;
    const toUs = Math.min(endUs, nowUs + passed * 1000 * 2 ** Number($("speed").value));
    if (nowUs >= endUs || (scenario && toUs === scenario.untilMs * 1000)) play(false);
    engine.ask("run", { toUs: Math.round(toUs), since: seen }).then(take);
  }
  requestAnimationFrame(animate);
}

function choose(what) {
  chosen = chosen === what ? null : what;
  show();
}

function algorithm() { return new URLSearchParams(frame?.spec ?? "").get("alg") ?? "raft"; }

// showSpec writes the run into the URL and the form.
function showSpec() {
  const values = new URLSearchParams(frame.spec);
  $("algorithm").value = values.get("alg");
  $("servers").value = values.get("servers");
  $("seed").value = values.get("seed");
  if (scenario && scenario.spec !== frame.spec) scenario = null;
  $("scenario").value = scenario?.name ?? "";
  history.replaceState(null, "", "#" + (scenario ? "scenario=" + scenario.name : frame.spec));
}

function fillChoices() {
  $("scenario").replaceChildren(new Option(say("free"), ""), ...scenarios.map((s) => new Option(s.title[currentLanguage()], s.name)));
  $("algorithm").replaceChildren(...Object.entries(algorithms).map(([name, title]) => new Option(translate(title), name)));
  $("scenario").value = scenario?.name ?? "";
  if (frame) $("algorithm").value = algorithm();
}

// openOwn opens a run of what the form says.
async function openOwn() {
  const spec = `alg=${$("algorithm").value}&servers=${$("servers").value || 5}&seed=${$("seed").value || 1}`;
  const reply = await engine.ask("open", { spec });
  if (reply.error) return fail(reply.error);
  scenario = null;
  begin(reply);
}

function fail(text) { $("failure").textContent = text; }

function tag(name, kind, text) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  made.textContent = text;
  return made;
}

function button(text, act) {
  const made = tag("button", "", text);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

// showTexts puts the texts of the language into the page.
function showTexts() {
  document.documentElement.lang = currentLanguage() === "zh" ? "zh-CN" : "en";
  for (const e of document.querySelectorAll("[data-text]")) e.textContent = say(e.dataset.text);
  for (const e of document.querySelectorAll("[data-title]")) {
    e.title = say(e.dataset.title);
    e.setAttribute("aria-label", e.title);
  }
  for (const e of document.querySelectorAll("[data-label]")) e.setAttribute("aria-label", say(e.dataset.label));
  $("language").textContent = currentLanguage() === "zh" ? "English" : "中文";
  $("language").lang = currentLanguage() === "zh" ? "en" : "zh-CN";
  play(playing);
}

function restore() {
  setLanguage(localStorage.getItem("language") ?? (navigator.language.startsWith("zh") ? "zh" : "en"));
  setTheme(localStorage.getItem("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
}

function setTheme(theme) { document.documentElement.dataset.theme = theme; }

function remember(key, value) {
  try { localStorage.setItem(key, value); } catch { /* it is for this page only, then */ }
}

$("language").addEventListener("click", () => {
  setLanguage(currentLanguage() === "zh" ? "en" : "zh");
  remember("language", currentLanguage());
  showTexts();
  fillChoices();
  drawn = "";
  show();
});
$("theme").addEventListener("click", () => {
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  remember("theme", document.documentElement.dataset.theme);
});
$("choice").addEventListener("submit", (event) => event.preventDefault());
$("scenario").addEventListener("change", () => {
  if ($("scenario").value) location.hash = "scenario=" + $("scenario").value;
  else openOwn();
});
for (const id of ["algorithm", "servers", "seed"]) $(id).addEventListener("change", openOwn);
addEventListener("hashchange", openURL);
$("play").addEventListener("click", () => play(!playing));
$("step").addEventListener("click", step);
$("back").addEventListener("click", backOne);
$("restart").addEventListener("click", () => go(0));
$("moment").addEventListener("input", () => { if (!engine.busy) go(Number($("moment").value) * 1000); });
$("moment").addEventListener("change", () => go(Number($("moment").value) * 1000));
$("healall").addEventListener("click", () => act("healall"));
$("copy").addEventListener("click", async () => {
  const url = `${location.href.split("#")[0]}#${frame.spec}&at=${Math.round(nowUs / 1000)}`;
  try {
    await navigator.clipboard.writeText(url);
    $("copy").textContent = say("copied");
    setTimeout(() => { $("copy").textContent = say("copy"); }, 1500);
  } catch {
    fail(url);
  }
});
addEventListener("keydown", (event) => {
  if (event.target.closest(event.key === " " ? "input, select, button, a, ol" : "input, select, ol") || event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = { " ": () => play(!playing), ArrowRight: step, ArrowLeft: backOne, Home: () => go(0) };
  if (keys[event.key] && frame) {
    event.preventDefault();
    keys[event.key]();
  }
});

start();
