// The frame of the page: title, views, theme, keys.

import { Refused, get, hasToken } from "./api.js";
import * as colours from "./colours.js";
import { confusionView } from "./confusion.js";
import { h, name, replace } from "./dom.js";
import { explainView } from "./explain.js";
import { begin, go, link, onChange, state } from "./state.js";
import { text } from "./strings.js";

const root = document.getElementById("root");

function theme(chosen) {
  if (chosen === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = chosen;
  try {
    localStorage.setItem("theme", chosen);
  } catch {
    // A browser may forbid it; the theme is then that of the system next time.
  }
}

function storedTheme() {
  try {
    return localStorage.getItem("theme") ?? "auto";
  } catch {
    return "auto";
  }
}

function header(summary) {
  const chosen = storedTheme();
  theme(chosen);
  const links = Object.entries(text.views).map(([view, words]) => h("a", { href: "#", "data-view": view }, words));
  const themes = h(
    "select",
    { "aria-label": text.theme.label, id: "theme", onchange: (event) => theme(event.target.value) },
    ["auto", "light", "dark"].map((each) => h("option", { value: each, selected: each === chosen }, text.theme[each])),
  );
  const update = () => {
    for (const each of links) {
      each.href = link({ view: each.dataset.view, truth: null, answered: null });
      if (state().view === each.dataset.view) each.setAttribute("aria-current", "page");
      else each.removeAttribute("aria-current");
    }
  };
  onChange(update);
  update();
  return h(
    "header",
    { class: "top" },
    h("div", { class: "title" }, h("h1", null, name(summary.title)), h("span", { class: "soft small" }, text.about(summary))),
    h("nav", { "aria-label": text.name }, links),
    themes,
  );
}

function keys(summary) {
  document.addEventListener("keydown", (event) => {
    const busy = event.target.closest?.("input, select, textarea, [contenteditable]");
    if (busy || event.altKey || event.ctrlKey || event.metaKey) return;
    const { view, query } = state();
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step && view === "explain" && query.number !== undefined) {
      const count = summary.held_out.names.length;
      go({ query: { number: (query.number + step + count) % count }, samples: [], classes: [] });
      event.preventDefault();
    } else if (event.key === "e") go({ view: "explain" });
    else if (event.key === "c") go({ view: "confusion" });
  });
}

// A file that is dropped beside its place does not replace the page.
function stay() {
  for (const kind of ["dragover", "drop"]) {
    document.addEventListener(kind, (event) => {
      if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
    });
  }
}

async function start() {
  replace(root, h("main", null, h("p", { class: "soft" }, text.loading)));
  theme(storedTheme());
  if (!hasToken) throw new Refused(text.noToken);
  const summary = await get("/api/summary");
  document.title = `${summary.title} · ${text.name}`;
  begin(summary);
  colours.begin(summary);
  const main = h("main", { id: "content", tabindex: "-1" });
  replace(
    root,
    h("a", { class: "skip", href: "#content", onclick: (event) => (event.preventDefault(), main.focus()) }, text.skip),
    header(summary),
    main,
    h("footer", null, h("p", null, text.keys)),
  );
  keys(summary);
  stay();
  const views = { explain: explainView(summary), confusion: confusionView(summary) };
  let shown = null;
  const show = () => {
    const { view } = state();
    if (shown !== view) {
      replace(main, views[view].element);
      window.scrollTo(0, 0);
      shown = view;
    }
    views[view].update();
  };
  onChange(show);
  show();
}

start().catch((error) => {
  replace(root, h("main", null, h("p", { class: "error", role: "alert" }, error instanceof Refused ? text.failed(error.message) : String(error))));
});
