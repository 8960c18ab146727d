// The question: method, rule, sliders.

import { digits, h, replace } from "./dom.js";
import { go, methodOf, state } from "./state.js";
import { text } from "./strings.js";

const STEPS = 200;
const words = text.settings;

export function settingsCard(summary) {
  const body = h("div", { class: "settings" });
  const card = h("section", { class: "card", "aria-labelledby": "question" }, h("h2", { id: "question" }, words.heading), body);
  let built = null;
  let controls = [];

  function update() {
    const now = state();
    const key = `${now.method} ${now.parameters.solver}`;
    if (built !== key) {
      controls = build(summary, now);
      const focused = document.activeElement?.id;
      replace(body, controls.map((control) => control.element));
      if (focused) document.getElementById(focused)?.focus();
      built = key;
    }
    controls.forEach((control) => control.update(now));
  }
  return { element: card, update };
}

function build(summary, now) {
  const method = methodOf(now.method);
  const exact = now.parameters.solver === "exact";
  const sliders = exact ? [] : method.sliders.map(parameterSlider);
  const choices = Object.entries(method.choices).map(([name, values]) => choice(name, values));
  return [presets(summary), methods(summary), ...choices, ...sliders, threshold(summary), reset(summary)];
}

const switchTo = (name) => go({ method: name, parameters: { ...methodOf(name).usual } });

function presets(summary) {
  const names = ["SRC", "CRC", "SoftNRC", "NRC"].filter((name) => summary.controls.methods.some((each) => each.name === name));
  const buttons = names.map((name) => h("button", { type: "button", id: `preset-${name}`, onclick: () => switchTo(name) }, words.presets[name]));
  return {
    element: h("div", { class: "presets", role: "group", "aria-label": words.presets.legend }, buttons),
    update: (now) => buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(names[i] === now.method))),
  };
}

function selection(id, label, options, chosen, changed) {
  const select = h("select", { id, onchange: (event) => changed(event.target.value) }, options.map(([value, shown]) => h("option", { value }, shown)));
  return {
    element: h("div", null, h("label", { for: id }, label), select),
    update: (now) => (select.value = chosen(now)),
  };
}

const methods = (summary) =>
  selection("method", words.method, summary.controls.methods.map(({ name }) => [name, words.methods[name] ?? name]), (now) => now.method, switchTo);

function choice(name, values) {
  const label = name === "rule" ? words.rule : words.names[name];
  const shown = (value) => (name === "rule" ? words.rules[value] : words[name][value]);
  return selection(
    name,
    label,
    values.map((value) => [String(value), shown(value)]),
    (now) => String(now.parameters[name]),
    (text_) => go({ parameters: { ...state().parameters, [name]: values.find((value) => String(value) === text_) } }),
  );
}

// Positions 0 to STEPS; values beyond the ends, such as 0 and infinity, have positions of their own.
function scale({ low, high, logarithmic, ends, whole }) {
  const below = ends.filter((end) => end !== "inf" && end < low);
  const above = ends.filter((end) => end === "inf" || end > high);
  const steps = whole && !logarithmic ? high - low : STEPS;
  const rounded = (value) => (whole ? Math.round(value) : Number(value.toPrecision(3)));
  const inside = (value) => Math.min(high, Math.max(low, rounded(value)));
  return {
    least: -below.length,
    most: steps + above.length,
    value(position) {
      if (position < 0) return below[below.length + position];
      if (position > steps) return above[position - steps - 1];
      const part = position / steps;
      return inside(logarithmic ? low * (high / low) ** part : low + (high - low) * part);
    },
    position(value) {
      const under = below.indexOf(value);
      if (under >= 0) return under - below.length;
      const over = above.indexOf(value);
      if (over >= 0) return steps + 1 + over;
      const part = logarithmic ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low || 1);
      return Math.round(steps * part);
    },
  };
}

function slider(id, label, scaled, read, write) {
  const output = h("output", { for: id });
  const input = h("input", { type: "range", id, min: scaled.least, max: scaled.most, step: 1 });
  let moving = false;
  const moved = (quietly) => write(scaled.value(Number(input.value)), quietly);
  input.addEventListener("input", () => {
    // The first move makes an entry in the history, the following ones change it.
    moved(moving);
    moving = true;
  });
  input.addEventListener("change", () => (moving = false));
  return {
    element: h("div", { class: "slider" }, h("div", { class: "row" }, h("label", { for: id }, label), output), input),
    update(now) {
      const value = read(now);
      const position = scaled.position(value);
      if (Number(input.value) !== position) input.value = position;
      const shown = value === "inf" ? words.infinite : digits(value);
      input.setAttribute("aria-valuetext", shown);
      replace(output, shown);
    },
  };
}

const parameterSlider = (range) =>
  slider(
    range.name,
    words.names[range.name] ?? range.name,
    scale(range.name === "max_iter" ? { ...range, logarithmic: false } : range),
    (now) => now.parameters[range.name],
    (value, quietly) => go({ parameters: { ...state().parameters, [range.name]: value } }, { quietly }),
  );

function threshold(summary) {
  const margin = summary.reject_by === "margin";
  return slider(
    "threshold",
    margin ? words.names.threshold : words.names.thresholdConcentration,
    scale({ low: 0, high: Math.max(margin ? 0.5 : 1, summary.controls.start.threshold), logarithmic: false, ends: [], whole: false }),
    (now) => now.threshold,
    (value, quietly) => go({ threshold: value }, { quietly }),
  );
}

function reset(summary) {
  const { start } = summary.controls;
  const button = h(
    "button",
    { type: "button", class: "plain", id: "reset", onclick: () => go({ method: start.method, parameters: { ...methodOf(start.method).usual }, threshold: start.threshold }) },
    words.reset,
  );
  const same = (now) =>
    now.method === start.method &&
    now.threshold === start.threshold &&
    Object.entries(methodOf(start.method).usual).every(([name, value]) => now.parameters[name] === value);
  return { element: h("div", null, button), update: (now) => (button.disabled = same(now)) };
}
