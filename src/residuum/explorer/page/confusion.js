// The view of all held-out samples: what they are and what they are answered.

import { Refused, ask, newestOnly, pictureAddress } from "./api.js";
import { h, name, picture, replace } from "./dom.js";
import { settingsCard } from "./settings.js";
import { go, link, settings, state } from "./state.js";
import { text } from "./strings.js";

const words = text.confusion;
const SHOWN = 60;

export function confusionView(summary) {
  const error = h("p", { class: "error", role: "alert", hidden: true });
  const figure = h("section", { class: "card result", "aria-labelledby": "confusion-heading" });
  const gallery = h("section", { class: "card result", id: "gallery", "aria-live": "polite" });
  const question = settingsCard(summary);
  const element = h(
    "div",
    { class: "explain", "data-ready": "false" },
    h("div", { class: "read" }, error, figure, gallery),
    h("aside", { class: "ask", "aria-label": text.settings.heading }, question.element),
  );
  let known = { key: null, found: null };
  let most = SHOWN;

  const fetchAll = newestOnly(async () => {
    const now = state();
    const address = location.hash;
    element.dataset.ready = "false";
    element.classList.add("busy");
    const key = JSON.stringify(settings(now));
    try {
      if (known.key !== key) known = { key, found: await ask("/api/confusion", { settings: settings(now) }) };
      error.hidden = true;
      draw(known.found, now);
    } catch (reason) {
      error.hidden = false;
      replace(error, reason instanceof Refused ? text.failed(reason.message) : String(reason));
    }
    element.classList.remove("busy");
    element.dataset.shown = address;
    if (now === state()) element.dataset.ready = "true";
  });

  const K = summary.classes.length;
  // The column of an answer: its class, or the one of "none of these"; the row of a class that is not known.
  const column = (found, i) => (found.rejected[i] ? K : found.answered[i]);
  const row = (found, i) => (found.truth[i] < 0 ? K : found.truth[i]);
  const passes = {
    all: () => true,
    wrong: (found, i) => column(found, i) !== row(found, i), // “none of these” is right for a class of no training sample
    close: (found, i) => found.close[i],
    rejected: (found, i) => found.rejected[i],
  };
  const called = (k, other) => (k === K ? other : summary.classes[k]);

  function draw(found, now) {
    const filter = passes[now.filter] ? now.filter : "all";
    const members = found.answered.map((_, i) => i).filter((i) => passes[filter](found, i));
    replace(figure, h("h2", { id: "confusion-heading" }, words.heading),
      h("p", null, h("strong", { id: "accuracy" }, words.right(found.correct, found.truth.length)), summary.held_out.own ? h("span", { class: "soft" }, ` · ${words.own}`) : null),
      filters(filter, found), matrix(found, members, now),
      h("p", { class: "soft small" }, words.closeNote(summary.close)));
    drawGallery(found, members, now);
  }

  function filters(filter, found) {
    return h(
      "fieldset",
      { class: "filters" },
      h("legend", { class: "aloud" }, words.filter.legend),
      Object.keys(passes).map((each) => {
        const count = found.answered.filter((_, i) => passes[each](found, i)).length;
        return h("label", null,
          h("input", { type: "radio", name: "filter", id: `filter-${each}`, value: each, checked: each === filter, onchange: () => { most = SHOWN; go({ filter: each }); requestAnimationFrame(() => document.getElementById(`filter-${each}`)?.focus()); } }),
          words.filter[each], " ", h("span", { class: "soft number" }, count.toLocaleString("en")));
      }),
    );
  }

  function matrix(found, members, now) {
    const unknown = found.truth.some((truth) => truth < 0);
    const rejects = found.rejected.some(Boolean);
    const counts = new Map();
    members.forEach((i) => {
      const key = `${row(found, i)} ${column(found, i)}`;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    });
    const sizes = new Map();
    found.truth.forEach((_, i) => sizes.set(row(found, i), (sizes.get(row(found, i)) ?? 0) + 1));
    const rows = [...summary.classes.keys(), ...(unknown ? [K] : [])];
    const columns = [...summary.classes.keys(), ...(rejects ? [K] : [])];
    const cell = (i, j) => {
      const count = counts.get(`${i} ${j}`) ?? 0;
      if (!count) return h("td");
      const pressed = now.truth === i && now.answered === j;
      const label = words.cell(count, called(i, words.unknownTruth), called(j, words.rejected));
      return h("td", { class: i === j ? "right" : "off", style: { "--strength": `${Math.round(12 + 55 * Math.sqrt(count / sizes.get(i)))}%` } },
        h("button", { type: "button", "aria-pressed": String(pressed), "aria-label": label, title: label, "data-cell": `${i}-${j}`,
          onclick: () => { most = SHOWN; go(pressed ? { truth: null, answered: null } : { truth: i, answered: j }); } }, count));
    };
    const many = columns.length > 14 || Math.max(...summary.classes.map((label) => label.length)) > 5;
    return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": words.caption },
      h("table", { class: `matrix${many ? " many" : ""}`, id: "matrix" },
        h("caption", null, words.caption),
        h("thead", null, h("tr", null, h("td"), columns.map((j) => h("th", { scope: "col" }, name(called(j, words.rejected)))))),
        h("tbody", null, rows.map((i) => h("tr", null, h("th", { scope: "row" }, name(called(i, words.unknownTruth))), columns.map((j) => cell(i, j)))))));
  }

  function drawGallery(found, members, now) {
    const chosen = now.truth === null ? members : members.filter((i) => row(found, i) === now.truth && column(found, i) === now.answered);
    // The closest calls first: they are what one wants to look at.
    const margin = (i) => (typeof found.margin[i] === "number" ? found.margin[i] : Infinity);
    const right = (i) => (passes.wrong(found, i) ? 0 : 1);
    chosen.sort((a, b) => right(a) - right(b) || margin(a) - margin(b));
    const { names } = summary.held_out;
    const item = (i) => {
      const truth = called(row(found, i), words.unknownTruth);
      const answered = called(column(found, i), words.rejected);
      const off = passes.wrong(found, i);
      return h("li", null,
        h("a", { href: link({ view: "explain", query: { number: i }, source: null, samples: [], classes: [] }), title: words.open(names[i], truth, answered), "data-number": i },
          summary.pictures.held_out ? picture(pictureAddress("held-out", i), "", { sharp: summary.pictures.sharp, photo: !summary.pictures.sharp, lazy: true }) : h("span", { class: "clipped" }, name(names[i])),
          h("span", { class: off ? "off" : null }, name(words.item(truth, answered))),
          h("span", { class: "mark test" }, summary.held_out.own ? text.marks.own : text.marks.test)));
    };
    const title = words.samples(chosen.length, now.truth === null ? null : called(now.truth, words.unknownTruth), now.truth === null ? null : called(now.answered, words.rejected));
    replace(gallery,
      h("h2", null, name(title)),
      now.truth === null ? null : h("button", { type: "button", class: "plain", id: "every-cell", onclick: () => go({ truth: null, answered: null }) }, words.everything),
      chosen.length ? h("ul", { class: "gallery" }, chosen.slice(0, most).map(item)) : h("p", { class: "soft" }, words.nothing),
      chosen.length > most ? h("button", { type: "button", class: "plain", onclick: () => { most += 4 * SHOWN; draw(found, now); } }, words.more(chosen.length - most)) : null);
  }

  return {
    element,
    update() {
      question.update();
      fetchAll();
    },
  };
}
