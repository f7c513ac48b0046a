// Theme, versions and search. Nothing is fetched: the site works from a directory, too.
(() => {
  const root = document.documentElement;
  let kept = null;
  try { kept = localStorage.getItem("conclave-theme"); } catch { /* a directory may have none */ }
  root.dataset.theme = kept || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.querySelector("#theme").addEventListener("click", () => {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("conclave-theme", root.dataset.theme); } catch { /* the same */ }
  });

  const main = document.querySelector("main");
  const base = main.dataset.root;
  const choice = document.querySelector("#version");
  const here = main.dataset.version;
  choice.replaceChildren(...[...new Set([here, ...(window.siteVersions || [])])].map((v) => new Option(v, v, v === here, v === here)));
  choice.addEventListener("change", () => { location.href = `${base}../${choice.value}/index.html`; });

  const query = document.querySelector("#query");
  const results = document.querySelector("#results");
  const shownMax = 20;

  // A heading counts more than a text, a whole word more than a part of one; all words must be there.
  function score(section, words) {
    let sum = 0;
    for (const w of words) {
      const heading = section.h.toLowerCase(), title = section.t.toLowerCase(), text = section.lower ??= section.x.toLowerCase();
      let best = 0;
      if (heading.includes(w)) best = Math.max(best, heading.split(/[^\p{L}\p{N}.]+/u).includes(w) ? 60 : 30);
      if (title.includes(w)) best = Math.max(best, 20);
      const at = text.indexOf(w);
      if (at >= 0) best = Math.max(best, 8) + Math.min(6, text.split(w).length - 1);
      if (best === 0) return 0;
      sum += best;
    }
    return sum;
  }

  function excerpt(text, words) {
    const lower = text.toLowerCase();
    const at = Math.max(0, ...words.map((w) => lower.indexOf(w)));
    const begin = Math.max(0, at - 60);
    const part = (begin > 0 ? "… " : "") + text.slice(begin, begin + 180);
    const small = document.createElement("small");
    const pattern = new RegExp(`(${words.map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "gi");
    for (const piece of part.split(pattern)) {
      if (words.includes(piece.toLowerCase())) {
        const mark = document.createElement("mark");
        mark.textContent = piece;
        small.append(mark);
      } else small.append(piece);
    }
    return small;
  }

  function search() {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = words.length === 0 ? [] : window.searchIndex.map((s) => [score(s, words), s]).filter(([n]) => n > 0).sort((a, b) => b[0] - a[0]);
    results.hidden = words.length === 0;
    results.replaceChildren(...all.slice(0, shownMax).map(([, s]) => {
      const li = document.createElement("li"), a = document.createElement("a");
      a.href = `${base}${s.p}${s.i ? "#" + s.i : ""}`;
      a.append(s.h === s.t ? s.t : `${s.t}: ${s.h}`, excerpt(s.x, words));
      li.append(a);
      return li;
    }));
    if (words.length > 0 && all.length === 0) {
      const li = document.createElement("li");
      li.textContent = root.lang === "zh-CN" ? "没有结果" : "Nothing is found.";
      results.append(li);
    }
  }
  query.addEventListener("input", search);
  addEventListener("keydown", (e) => {
    const links = [...results.querySelectorAll("a")], at = links.indexOf(document.activeElement);
    if (e.key === "/" && document.activeElement.tagName !== "INPUT") { e.preventDefault(); query.focus(); }
    else if (e.key === "Escape") { results.hidden = true; query.focus(); }
    else if ((e.key === "ArrowDown" || e.key === "ArrowUp") && !results.hidden && (at >= 0 || document.activeElement === query)) {
      e.preventDefault();
      const next = at + (e.key === "ArrowDown" ? 1 : -1);
      (links[next] ?? (next < 0 ? query : links.at(-1)))?.focus();
    } else if (e.key === "Enter" && document.activeElement === query && links.length > 0) location.href = links[0].href;
  });
  document.addEventListener("click", (e) => { if (!e.target.closest(".find")) results.hidden = true; });
})();
