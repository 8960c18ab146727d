// The view of one query.

import { Refused, ask, newestOnly } from "./api.js";
import * as colours from "./colours.js";
import { digits, h, replace } from "./dom.js";
import { certificate, classBars, codePlot, features, headline, notes, sum } from "./parts.js";
import { queryCard } from "./query.js";
import { settingsCard } from "./settings.js";
import { go, settings, state } from "./state.js";
import { text } from "./strings.js";
import { sent, whatIfCard } from "./whatif.js";

export function explainView(summary) {
  const region = (id, heading) => h("section", { class: "card", id, "aria-labelledby": heading });
  const parts = {
    headline: h("section", { class: "card headline", id: "headline", "aria-label": text.headline.answer }),
    sum: region("sum-card", "sum"),
    code: region("code-card", "code-heading"),
    classes: region("classes-card", "classes-heading"),
    features: region("features-card", "features-heading"),
    notes: h("section", { class: "card", id: "notes-card" }),
    certificate: h("section", { class: "card", id: "certificate" }),
  };
  const error = h("p", { class: "error", role: "alert", hidden: true });
  const aloud = h("p", { class: "aloud", "aria-live": "polite" });
  const failed = (reason) => {
    error.hidden = false;
    replace(error, reason instanceof Refused ? text.failed(reason.message) : String(reason));
  };
  const query = queryCard(summary, failed);
  const question = settingsCard(summary);
  const whatIf = whatIfCard(summary, failed);
  const element = h(
    "div",
    { class: "explain", "data-ready": "false" },
    h("div", { class: "read" }, query.element, error, parts.headline, parts.features, parts.sum, parts.code, parts.classes, parts.notes),
    h("aside", { class: "ask", "aria-label": text.settings.heading }, question.element, whatIf.element, parts.certificate),
    aloud,
  );

  const remove = (sample) => go({ samples: [...new Set([...state().samples, sample])] });
  const removeClass = (k) => go({ classes: [...new Set([...state().classes, k])] });
  let before = { key: null, found: null }; // the explanation with all samples

  const fetchAll = newestOnly(async () => {
    const now = state();
    const address = location.hash;
    element.classList.add("busy");
    element.dataset.ready = "false";
    const base = { query: sent(now.query), settings: settings(now) };
    const key = JSON.stringify(base);
    try {
      if (before.key !== key) before = { key, found: await ask("/api/explain", base) };
      let found = before.found;
      if (now.samples.length || now.classes.length) {
        found = await ask("/api/explain", { ...base, removed: { samples: now.samples, classes: now.classes } });
      }
      error.hidden = true;
      draw(found, now);
    } catch (reason) {
      failed(reason);
      shown(false); // what is there answers another question
    }
    element.classList.remove("busy");
    element.dataset.shown = address;
    if (now === state()) element.dataset.ready = "true";
  });

  function shown(yes) {
    [...Object.values(parts), whatIf.element].forEach((part) => (part.hidden = !yes));
  }

  function draw(found, now) {
    shown(true);
    found.number = now.query.number;
    colours.rank(found.ranking);
    const brought = now.query.number === undefined;
    replace(parts.headline, headline(found, summary));
    replace(parts.sum, sum(found, summary, brought, remove, now.query.preview));
    replace(parts.code, codePlot(found, summary));
    replace(parts.classes, classBars(found, summary, removeClass, () => draw(found, now)));
    const table = features(found, summary);
    parts.features.hidden = !table;
    if (table) replace(parts.features, table);
    const told = notes(found);
    parts.notes.hidden = !told;
    if (told) replace(parts.notes, told);
    replace(parts.certificate, certificate(found));
    query.show(found);
    whatIf.update(found, before.found);
    const answer = found.rejected ? text.headline.none : summary.classes[found.winner];
    replace(aloud, text.headline.aloud(answer, digits(found.margin)));
  }

  return {
    element,
    update() {
      query.update();
      question.update();
      fetchAll();
    },
  };
}
