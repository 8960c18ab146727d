// What if some training samples or classes were not there?

import { ask } from "./api.js";
import { colour } from "./colours.js";
import { digits, h, name, replace } from "./dom.js";
import { go, settings, state } from "./state.js";
import { text } from "./strings.js";

const words = text.whatIf;

export function whatIfCard(summary, failed) {
  const body = h("div", { class: "whatif" });
  const result = h("div", { id: "smallest", "aria-live": "polite" });
  const search = h("button", { type: "button", id: "find-smallest", onclick: () => find() }, words.search);
  const card = h("section", { class: "card", "aria-labelledby": "what-if" }, h("h2", { id: "what-if" }, words.heading), body, h("p", null, search), result);
  const classOf = new Map();
  summary.classes.forEach((_, k) => summary.samples.slice(summary.starts[k], summary.starts[k + 1]).forEach((sample) => classOf.set(sample, k)));
  const nameOf = new Map(summary.samples.map((sample, j) => [sample, summary.names[j]]));
  let controller = null;
  let askedFor = null;

  const signature = () => JSON.stringify([state().query, settings(), state().samples, state().classes]);

  async function find() {
    controller?.abort();
    controller = new AbortController();
    askedFor = signature();
    search.disabled = true;
    replace(result, h("p", { class: "soft" }, words.searching));
    try {
      const { query, samples, classes } = state();
      const found = await ask("/api/smallest", { query: sent(query), settings: settings(), removed: { samples, classes } }, controller.signal);
      replace(result, told(found));
    } catch (error) {
      if (error.name !== "AbortError") failed(error);
      replace(result);
    }
    search.disabled = false;
  }

  function told(found) {
    if (!found.samples) return h("p", { class: "outcome" }, found.ended_early ? words.earlier : words.never);
    const count = found.samples.length;
    const { samples } = state();
    return h(
      "div",
      { class: "outcome" },
      h("p", null, words.found(count, summary.classes[found.answer]), " ", found.exact ? words.exact : words.bounds(found.at_least, count), found.ended_early ? ` ${words.earlier}` : null),
      h("button", { type: "button", id: "apply-smallest", onclick: () => go({ samples: [...new Set([...samples, ...found.samples])] }) }, words.apply(count)),
    );
  }

  function update(found, before) {
    const { samples, classes } = state();
    if (askedFor !== null && askedFor !== signature()) {
      controller?.abort();
      replace(result);
      askedFor = null;
    }
    if (!samples.length && !classes.length) {
      replace(body, h("p", { class: "soft small" }, words.hint));
      return;
    }
    const undo = (what, k, changes) =>
      h("button", { type: "button", class: colour(k), "aria-label": words.back(what), title: words.back(what), onclick: () => go(changes) },
        h("span", { class: `chip ${colour(k)}`, "aria-hidden": "true" }), h("span", { class: "clipped" }, name(what)), " ×");
    const chips = [
      ...classes.map((k) => undo(words.cls(summary.classes[k]), k, { classes: classes.filter((each) => each !== k) })),
      ...samples.map((sample) => undo(words.sample(nameOf.get(sample) ?? sample, summary.classes[classOf.get(sample)] ?? ""), classOf.get(sample), { samples: samples.filter((each) => each !== sample) })),
    ];
    const holds = before && found.winner === before.winner && found.rejected === before.rejected;
    const called = (each) => (each.rejected ? text.headline.none : summary.classes[each.winner]);
    replace(
      body,
      before
        ? h("p", { class: `outcome ${holds ? "holds" : "changed"}`, id: "outcome", role: "status" },
            holds ? words.holds(called(found), digits(before.margin), digits(found.margin)) : words.changes(called(before), called(found)))
        : null,
      h("p", { class: "small soft" }, words.without),
      h("div", { class: "chips", id: "removed" }, chips),
      h("p", null, h("button", { type: "button", class: "plain", id: "put-back", onclick: () => go({ samples: [], classes: [] }) }, words.backAll)),
    );
  }
  return { element: card, update };
}

// The query as the server takes it.
export function sent(query) {
  const { number, values, row, picture } = query;
  return values ? { values } : row ? { row } : picture ? { picture } : { number };
}
