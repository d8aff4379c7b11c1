// What the pages do: a theme that is remembered, and boards that switch, sort and filter. Without it all can be read.
"use strict";

const THEMES = ["auto", "light", "dark"];

function remembered() {
  try { return localStorage.getItem("mlrc-theme") || "auto"; } catch { return "auto"; }
}

function useTheme(theme) {
  const root = document.documentElement;
  if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
  try { localStorage.setItem("mlrc-theme", theme); } catch { /* a browser that keeps nothing */ }
}

useTheme(THEMES.includes(remembered()) ? remembered() : "auto"); // before the first paint

function addThemeButton() {
  const button = document.createElement("button");
  const now = () => document.documentElement.dataset.theme || "auto";
  const say = () => { button.textContent = `Theme: ${now()}`; };
  button.type = "button";
  button.addEventListener("click", () => {
    useTheme(THEMES[(THEMES.indexOf(now()) + 1) % THEMES.length]);
    say();
  });
  say();
  document.querySelector(".top")?.append(button);
}

// An overview: one of two settings is shown.
function makeSwitch(section) {
  const show = () => {
    const chosen = section.querySelector(".switch input:checked")?.value ?? "0";
    for (const part of section.querySelectorAll("[data-s]")) part.hidden = part.dataset.s !== chosen;
  };
  section.addEventListener("change", show);
  show();
}

// A board. Each row knows what it shows for each setting and metric: rank, letters, and the paths of its mark.
class Board {
  constructor(tool) {
    this.form = tool.querySelector("form");
    this.table = tool.querySelector("table");
    this.heads = [...this.table.tHead.rows[0].cells];
    this.rows = [...this.table.querySelectorAll("tbody tr:not(.part)")];
    this.first = { key: "place", direction: "descending" };
    this.sorted = this.first;
    this.read();
    for (const head of this.heads) head.querySelector("button")?.addEventListener("click", () => this.sortBy(head));
    this.form.addEventListener("input", () => this.show());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    window.addEventListener("hashchange", () => { this.read(); this.show(); });
    this.show();
  }

  get setting() { return this.form.elements.setting?.value ?? "0"; }
  get metric() { return this.form.elements.metric?.value ?? "0"; }

  // The address keeps the view, so that a link shows what its sender saw.
  read() {
    const asked = new URLSearchParams(location.hash.slice(1));
    for (const name of ["setting", "metric"]) {
      const wanted = [...this.form.querySelectorAll(`[name=${name}]`)].find((one) => one.value === asked.get(name));
      if (wanted) wanted.checked = true;
    }
    if (asked.has("filter")) this.form.elements.filter.value = asked.get("filter");
    const [key, direction] = (asked.get("sort") || "").split(".");
    const known = this.heads.some((head) => head.querySelector("button")?.dataset.key === key);
    if (known && ["ascending", "descending"].includes(direction)) this.sorted = { key, direction };
  }

  write() {
    const now = new URLSearchParams();
    for (const name of ["setting", "metric"]) {
      const chosen = this.form.querySelector(`[name=${name}]:checked`);
      if (chosen && !chosen.defaultChecked) now.set(name, chosen.value);
    }
    if (this.form.elements.filter.value) now.set("filter", this.form.elements.filter.value);
    if (this.sorted.key !== this.first.key || this.sorted.direction !== this.first.direction) {
      now.set("sort", `${this.sorted.key}.${this.sorted.direction}`);
    }
    const text = now.toString();
    if (text !== location.hash.slice(1)) history.replaceState(null, "", text ? `#${text}` : location.pathname);
  }

  sortBy(head) {
    const { key, first } = head.querySelector("button").dataset;
    const other = { ascending: "descending", descending: "ascending" };
    this.sorted = { key, direction: this.sorted.key === key ? other[this.sorted.direction] : first };
    this.show();
  }

  show() {
    const setting = this.setting, metric = this.metric;
    const metrics = this.heads.filter((head) => head.dataset.m);
    this.chosen = this.heads.findIndex((head) => head.dataset.s === setting && head.dataset.m === metric);
    for (const head of metrics) {
      const at = this.heads.indexOf(head);
      for (const cell of [head, ...this.rows.map((row) => row.cells[at])]) {
        cell.hidden = head.dataset.s !== setting;
        cell.classList.toggle("on", head.dataset.m === metric);
      }
    }
    this.mark(metrics.indexOf(this.heads[this.chosen]));
    this.sort();
    this.filter();
    this.write();
  }

  mark(view) {
    const head = this.heads.find((one) => one.classList.contains("place"));
    head.querySelector("button").textContent = this.heads[this.chosen].textContent.trim();
    head.querySelectorAll("svg").forEach((axis, at) => {
      axis.toggleAttribute("hidden", at !== view);
      axis.querySelector("path").id = at === view ? "grid" : "";
    });
    for (const row of this.rows) {
      const [rank, letters, mean, interval, beyond] = row.dataset.views.split(";")[view].split("|");
      const [place, ...ends] = rank.split(" ");
      row.querySelector(".rank").textContent = place || "–";
      for (const text of ends) {
        row.querySelector(".rank").append(" ", Object.assign(document.createElement("small"), { textContent: text }));
      }
      row.querySelector(".letters").textContent = letters;
      for (const [name, path] of Object.entries({ mean, interval, beyond })) {
        row.querySelector(`.mark .${name}`).setAttribute("d", path);
      }
    }
  }

  sort() {
    const { key, direction } = this.sorted;
    const place = this.heads.findIndex((head) => !head.hidden && head.querySelector("button")?.dataset.key === key);
    this.heads.forEach((head, at) => {
      if (head.hasAttribute("aria-sort")) head.setAttribute("aria-sort", at === place ? direction : "none");
    });
    const column = key === "place" ? this.chosen : place; // a mark lies where its number says
    const text = (row) => row.cells[column].textContent.trim().toLowerCase();
    const sign = direction === "ascending" ? 1 : -1;
    const compare = (one, other) => {
      if (key === "name") return sign * text(one).localeCompare(text(other));
      const [a, b] = [parseFloat(text(one)), parseFloat(text(other))];
      if (isNaN(a) || isNaN(b)) return isNaN(a) - isNaN(b); // what has no number comes last, either way
      return sign * (a - b);
    };
    for (const body of this.table.tBodies) {
      const rows = [...body.rows].filter((row) => !row.classList.contains("part"));
      body.append(...rows.sort(compare));
    }
  }

  filter() {
    const words = this.form.elements.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0, all = 0;
    for (const body of this.table.tBodies) {
      const box = this.form.elements[body.className];
      let any = false;
      for (const row of body.rows) {
        if (row.classList.contains("part")) continue;
        const text = row.cells[1].textContent.toLowerCase(); // name, and family or source
        const unsaid = body.className === "published" && row.cells[this.chosen].textContent.trim() === "–";
        row.hidden = unsaid || !words.every((word) => text.includes(word)); // a paper may not have what is chosen
        all += !unsaid;
        any ||= !row.hidden;
        shown += !row.hidden && (!box || box.checked);
      }
      body.hidden = (box && !box.checked) || !any;
    }
    this.form.elements.count.value = `${shown} of ${all} rows`;
  }
}

document.addEventListener("DOMContentLoaded", () => {
  const icon = Object.assign(document.createElement("link"), { rel: "icon" });
  icon.href = document.querySelector("link[rel=stylesheet]").href.replace("site.css", "icon.svg");
  document.head.append(icon);
  addThemeButton();
  document.querySelectorAll("[data-switch]").forEach(makeSwitch);
  document.querySelectorAll("[data-board]").forEach((tool) => new Board(tool));
});
