// What an explanation shows: the answer, the sum, the code, the classes, the features, the certificate.

import { pictureAddress } from "./api.js";
import { colour } from "./colours.js";
import { digits, h, name, number, percent, picture, replace, svg } from "./dom.js";
import { text } from "./strings.js";

const CARDS = 6;
const NEAREST = 12;
const BESIDE = 4; // training samples beside the query, feature by feature

const chip = (k) => h("span", { class: `chip ${colour(k)}`, "aria-hidden": "true" });
const mark = (kind, words) => h("span", { class: `mark ${kind}` }, words);
const sharpness = (summary) => ({ sharp: summary.pictures.sharp, photo: !summary.pictures.sharp });

export function sourceMark(found, brought) {
  if (brought) return mark("test", text.marks.yours);
  return found.query.own ? mark("train", text.marks.own) : mark("test", text.marks.test);
}

function truthWords(found, summary) {
  const { truth } = found.query;
  if (truth === null) return null;
  return truth < 0 ? text.marks.foreign : text.marks.truth(summary.classes[truth]);
}

export function headline(found, summary) {
  const words = text.headline;
  const label = summary.classes[found.winner];
  const { truth } = found.query;
  const answer = found.rejected ? words.none : label;
  const right = !found.rejected && truth === found.winner;
  const verdict =
    truth === null || truth < 0
      ? null
      : h("span", { class: `verdict ${right ? "right" : "wrong"}` }, right ? words.right : words.wrong(summary.classes[truth]));
  const probability = found.classes[found.winner].probability;
  return [
    h(
      "div",
      { class: "answer" },
      h("span", { class: "soft" }, words.answer),
      h("strong", { id: "answer", class: String(answer).length > 6 ? "words" : null }, found.rejected ? null : chip(found.winner), name(answer)),
      verdict,
      found.rejected ? h("span", { class: "soft" }, words.nearest(label)) : null,
    ),
    h(
      "dl",
      { class: "facts" },
      found.runner_up === null ? null : fact(words.runnerUp, h("span", { id: "runner-up" }, chip(found.runner_up), name(summary.classes[found.runner_up]))),
      h("div", { id: "margin" }, h("dt", null, words.margin), h("dd", null, number(found.margin), gauge(found))),
      fact(
        words.probability,
        h("span", { id: "probability" }, probability === null ? h("span", { class: "soft small" }, summary.calibrated ? words.notCalibrated : words.neverCalibrated) : percent(probability)),
      ),
      found.threshold > 0 ? fact(words.threshold, h("span", { id: "reject" }, number(found.threshold))) : null,
    ),
  ];
}

const fact = (term, value) => h("div", null, h("dt", null, term), h("dd", null, value));

// The margin as a bar, with the threshold of "none of these" as a line across it.
function gauge(found) {
  const value = found.reject_by === "margin" ? found.margin : found.confidence;
  if (typeof value !== "number") return null;
  const end = Math.max(0.5, value, 1.2 * found.threshold);
  const tone = found.rejected ? "kx" : colour(found.winner);
  return svg(
    "svg",
    { class: `gauge ${tone}`, viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { width: 100, height: 8, fill: "var(--band)", rx: 2 }),
    svg("rect", { width: (100 * value) / end, height: 8, fill: "var(--k)", rx: 2 }),
    found.threshold > 0 ? svg("rect", { x: (100 * found.threshold) / end, width: 1, height: 8, fill: "var(--ink)" }) : null,
  );
}

export function sum(found, summary, brought, remove, preview) {
  const words = text.sum;
  const drawn = found.pictures;
  const show = (source, caption, { kind = "", marks = null, note = null } = {}) =>
    h("figure", null, picture(source, caption, { ...sharpness(summary), kind }), h("figcaption", null, marks, marks ? h("br") : null, note ?? caption));
  const truth = truthWords(found, summary);
  const queryNote = h("span", null, words.query, truth ? h("span", { class: "soft" }, h("br"), name(truth)) : null);
  const marks = sourceMark(found, brought);
  let row = null;
  if (drawn) {
    row = h(
      "div",
      { class: "sum" },
      show(drawn.query, words.query, { marks, note: queryNote }),
      h("span", { class: "sign", "aria-hidden": "true" }, words.minus),
      show(drawn.reconstruction, words.reconstruction),
      h("span", { class: "sign", "aria-hidden": "true" }, words.equals),
      show(drawn.difference, `${words.difference}: ${words.differenceNote}`, { kind: "difference", note: h("span", null, words.difference, h("br"), h("span", { class: "soft" }, words.differenceNote)) }),
      h("span", { class: "rule", "aria-hidden": "true" }),
      ["winner", "runner_up"].map((role) => {
        const k = found[role];
        if (k === null || !drawn[role]) return null;
        return h("figure", null, picture(drawn[role], words.partOf(summary.classes[k]), sharpness(summary)), h("figcaption", null, chip(k), words.partOf(summary.classes[k])));
      }),
    );
  } else if (brought ? preview : summary.pictures.held_out) {
    const source = brought ? preview : pictureAddress("held-out", found.number);
    row = h("div", { class: "sum" }, show(source, words.query, { marks, note: queryNote }));
  } else {
    row = h("p", null, marks, " ", name(found.query.name), truth ? h("span", { class: "soft" }, " · ", name(truth)) : null);
  }
  return [h("h2", { id: "sum" }, words.heading), row, carriers(found, summary, remove)];
}

let unfolded = false;

function carriers(found, summary, remove) {
  const words = text.sum;
  if (!found.atoms.length) return h("p", { class: "soft" }, words.none);
  const longest = Math.max(...found.atoms.map((atom) => Math.abs(atom.coefficient)));
  const card = (atom) => {
    const label = summary.classes[atom.class];
    const weight = digits(atom.coefficient);
    return h(
      "li",
      { class: `${colour(atom.class)}${atom.coefficient < 0 ? " negative" : ""}`, "data-sample": atom.sample },
      summary.pictures.train ? picture(pictureAddress("train", atom.sample), words.card(atom.name, label, weight), { ...sharpness(summary), lazy: true }) : null,
      h("span", { class: "weight" }, h("data", { value: String(atom.coefficient) }, weight.replace("−", "− ")), summary.pictures.train ? " ×" : null),
      h("span", { class: "bar" }, h("i", { class: atom.coefficient < 0 ? "negative" : null, style: { width: `${(100 * Math.abs(atom.coefficient)) / longest}%` } })),
      h("span", { class: "of" }, chip(atom.class), h("span", { class: "clipped label", title: label }, name(label))),
      h("span", { class: "of soft", title: atom.name }, mark("train", text.marks.train), h("span", { class: "clipped file" }, name(atom.name.split("/").pop()))),
      h("button", { type: "button", class: "remove", "aria-label": words.remove(atom.name), title: words.remove(atom.name), onclick: () => remove(atom.sample) }, "×"),
    );
  };
  const list = h("ul", { class: summary.pictures.train ? "carriers" : "carriers words", id: "carriers" });
  const rest = found.atoms.length - CARDS;
  const toggle = rest > 0 ? h("button", { type: "button", class: "plain", id: "more-carriers", onclick: () => ((unfolded = !unfolded), fill()) }) : null;
  const fill = () => {
    replace(list, found.atoms.slice(0, unfolded ? undefined : CARDS).map(card));
    if (toggle) replace(toggle, unfolded ? words.fewer : words.more(rest));
  };
  fill();
  const shown = Math.min(found.atoms.length, CARDS);
  return h("div", null, h("p", { class: "soft small" }, words.carriers(shown, found.atoms_used)), list, toggle);
}

export function codePlot(found, summary) {
  const words = text.code;
  const { code } = found;
  const { starts, classes } = summary;
  const count = code.length;
  const top = Math.max(...code, 0);
  const bottom = Math.min(...code, 0);
  const span = top - bottom || 1;
  const [high, gap] = [180, 4];
  const y = (value) => gap + ((top - value) / span) * (high - 2 * gap);
  const zero = y(0);
  const width = Math.min(6, Math.max(1, 700 / count));
  const lines = classes.map((_, k) => {
    let d = "";
    for (let j = starts[k]; j < starts[k + 1]; j++) if (code[j] !== 0) d += `M${j + 0.5} ${zero.toFixed(2)}V${y(code[j]).toFixed(2)}`;
    return svg("path", { d, class: colour(k), "stroke-width": width, "data-class": k });
  });
  const used = code.filter((value) => value !== 0).length;
  const negative = code.filter((value) => value < 0).length;
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${count} ${high}`, preserveAspectRatio: "none", role: "img", id: "code", "aria-label": words.label(used, count, negative) },
    svg("line", { class: "zero", x1: 0, x2: count, y1: zero, y2: zero }),
    lines,
  );
  const tip = h("div", { class: "tip", hidden: true });
  const plot = h("div", { class: "plot" }, drawing, bands(summary), tip);
  drawing.addEventListener("pointermove", (event) => point(event));
  drawing.addEventListener("pointerleave", () => (tip.hidden = true));
  function point(event) {
    const box = drawing.getBoundingClientRect();
    const j = Math.min(count - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * count)));
    const k = classes.findIndex((_, each) => starts[each + 1] > j);
    replace(
      tip,
      summary.pictures.train ? picture(pictureAddress("train", summary.samples[j]), "", sharpness(summary)) : "",
      h("span", null, chip(k), words.at(summary.names[j], classes[k], digits(code[j]))),
    );
    tip.hidden = false;
    tip.style.left = `${Math.min(event.clientX - box.left + 12, box.width - 170)}px`;
  }
  return [h("h2", { id: "code-heading" }, words.heading), plot];
}

function bands(summary) {
  const { starts, classes } = summary;
  const count = starts.at(-1);
  const names = classes.length <= 16
    ? h("div", { class: "names", "aria-hidden": "true" }, classes.map((label, k) => h("span", { style: { left: `${(50 * (starts[k] + starts[k + 1])) / count}%` } }, name(label))))
    : null;
  return [
    h("div", { class: "bands", "aria-hidden": "true" }, classes.map((_, k) => h("span", { class: colour(k), style: { flex: String(starts[k + 1] - starts[k]) } }))),
    names,
  ];
}

let everyClass = false;

export function classBars(found, summary, remove, again) {
  const words = text.classes;
  const rule = found.settings.parameters.rule ?? "croc";
  const finite = found.ranking.map((k) => found.classes[k].residual).filter((value) => typeof value === "number");
  const longest = Math.max(...finite, 0) || 1;
  const calibrated = found.calibrated;
  const shown = everyClass ? found.ranking : found.ranking.slice(0, NEAREST);
  const row = (k) => {
    const part = found.classes[k];
    const label = summary.classes[k];
    const role = k === found.winner ? words.winner : k === found.runner_up ? words.runnerUp : null;
    const size = part.residual === "inf" ? 1 : part.residual / longest;
    return h(
      "tr",
      { class: `${colour(k)}${k === found.winner ? " winner" : ""}`, "data-class": k },
      h("th", { scope: "row" }, h("span", { class: "of" }, chip(k), h("span", null, name(label), role ? h("span", { class: "role" }, role) : null))),
      h("td", { class: "bar" }, h("div", { class: "track" }, h("i", { style: { width: `${100 * size}%` } }))),
      h("td", { class: "residual" }, number(part.residual)),
      h("td", { class: "share" }, number(part.share)),
      calibrated ? h("td", null, percent(part.probability)) : null,
      h("td", null, found.ranking.length > 1 ? h("button", { type: "button", class: "cross", "aria-label": words.remove(label), title: words.remove(label), onclick: () => remove(k) }, "×") : null),
    );
  };
  const table = h(
    "table",
    { class: "bars", id: "classes" },
    h("caption", null, words.caption(text.scores[rule] ?? rule)),
    h("thead", null, h("tr", null,
      h("th", { scope: "col" }, words.className),
      h("th", { scope: "col", class: "bar" }, h("span", { class: "aloud" }, words.residual)),
      h("th", { scope: "col" }, words.residual),
      h("th", { scope: "col" }, words.share),
      calibrated ? h("th", { scope: "col" }, words.probability) : null,
      h("td", null))),
    h("tbody", null, shown.map(row)),
  );
  const toggle = found.ranking.length > NEAREST
    ? h("button", { type: "button", class: "plain", id: "more-classes", onclick: () => ((everyClass = !everyClass), again()) }, everyClass ? words.fewer : words.more(found.ranking.length))
    : null;
  return [h("h2", { id: "classes-heading" }, words.heading), h("div", { class: "wide", tabindex: "0", role: "region", "aria-labelledby": "classes-heading" }, table), toggle];
}

const featureValue = (value) => h("data", { value: String(value) }, String(Number(value.toPrecision(4))).replace("-", "−"));

export function features(found, summary) {
  const { comparison } = found;
  if (!comparison) return null;
  const words = text.features;
  const cell = (value) =>
    value === null
      ? h("td")
      : h("td", { class: Math.abs(value.away) > 1 ? "away" : Math.abs(value.away) <= 1 / 3 ? "alike" : null }, featureValue(value.value));
  const rival = comparison.rival;
  const sampleNames = new Map(found.atoms.map((atom) => [atom.sample, atom]));
  const carriersShown = comparison.samples.filter((sample) => sampleNames.has(sample)).slice(0, BESIDE);
  return [
    h("h2", { id: "features-heading" }, words.heading),
    h("div", { class: "wide", tabindex: "0", role: "region", "aria-labelledby": "features-heading" },
      h("table", { class: "compared", id: "features" },
        h("caption", null, words.caption(comparison.features.length, comparison.n_features)),
        h("thead", null, h("tr", null,
          h("th", { scope: "col" }, words.feature),
          h("th", { scope: "col" }, words.query),
          h("th", { scope: "col" }, chip(found.winner), words.mean(summary.classes[found.winner])),
          rival === null ? null : h("th", { scope: "col" }, chip(rival), words.mean(summary.classes[rival])),
          carriersShown.map((sample) => h("th", { scope: "col" }, chip(sampleNames.get(sample).class), words.sample(sampleNames.get(sample).name))))),
        h("tbody", null, comparison.features.map((feature) =>
          h("tr", null,
            h("th", { scope: "row" }, name(feature.name)),
            h("td", null, featureValue(feature.query)),
            cell(feature.winner),
            rival === null ? null : cell(feature.rival),
            feature.samples.slice(0, carriersShown.length).map(cell)))))),
  ];
}

export function certificate(found) {
  const words = text.certificate;
  return [
    h("h2", null, words.heading),
    h("p", { class: "small", id: "ending" }, words.ending(found.certificate)),
    h("dl", { class: "pairs" },
      h("dt", null, words.gap), h("dd", { id: "gap" }, number(found.certificate.gap)),
      h("dt", null, words.violation), h("dd", null, number(found.certificate.violation))),
  ];
}

export const notes = (found) =>
  found.notes.length ? [h("h2", null, text.notes), h("ul", { class: "notes" }, found.notes.map((note) => h("li", null, name(note))))] : null;
