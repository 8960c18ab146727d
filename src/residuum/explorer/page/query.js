// The query: a sample of the data, a drawing, a picture or a row.

import { Refused, ask, newestOnly, pictureAddress, toBase64 } from "./api.js";
import { h, name, picture, replace } from "./dom.js";
import { go, settings, state } from "./state.js";
import { text } from "./strings.js";

const LARGEST_FILE = 7e6; // bytes of a picture: base64 makes them a third more, and the server takes 10 MiB

export function queryCard(summary, failed) {
  const kinds = ["number", ...["drawing", "picture", "row"].filter((kind) => summary.brings[kind])];
  const makers = { number: picker, drawing: canvas, picture: dropZone, row: rowField };
  const bodies = {};
  const body = h("div");
  const buttons = kinds.map((kind) => h("button", { type: "button", id: `source-${kind}`, onclick: () => choose(kind) }, text.sources[kind]));
  const bar = kinds.length > 1 ? h("div", { class: "sources", role: "group", "aria-label": text.sources.legend }, buttons) : null;
  const card = h("section", { class: "card", "aria-label": text.sources.legend }, bar, body);
  let shown = null;

  const choose = (kind) => go({ source: kind === "number" ? null : kind, query: { number: state().query.number ?? 0 }, samples: [], classes: [] });

  function update() {
    const now = state();
    const kind = shownKind(now, kinds);
    if (shown !== kind) {
      bodies[kind] ??= makers[kind](summary, failed);
      replace(body, bodies[kind].element);
      buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(kinds[i] === kind)));
      shown = kind;
    }
    bodies[kind].update(now);
  }
  return { element: card, update, show: (found) => bodies[shown].show?.(found) };
}

// Which way to bring a query is shown; values come from a drawing or from a picture.
export function shownKind(now, kinds) {
  const kind = now.query.values ? (now.source ?? "drawing") : now.query.row ? "row" : now.query.picture ? "picture" : (now.source ?? "number");
  return kinds.includes(kind) ? kind : kinds.includes("picture") && now.query.values ? "picture" : "number";
}

function picker(summary) {
  const { names, truth, own } = summary.held_out;
  const words = text.picker;
  const open = (number) => go({ query: { number }, samples: [], classes: [] });
  const label = (i) => words.item(names[i], truth[i] >= 0 ? summary.classes[truth[i]] : null);
  const thumbs = summary.pictures.held_out
    ? names.map((_, i) =>
        h("button", { type: "button", "aria-label": label(i), title: label(i), onclick: () => open(i), tabindex: "-1" },
          picture(pictureAddress("held-out", i), "", { sharp: summary.pictures.sharp, lazy: true })),
      )
    : [];
  const strip = thumbs.length ? h("div", { class: "strip", role: "group", "aria-label": words.label(own), tabindex: "0" }, thumbs) : h("div", { class: "strip" });
  const field = h("input", {
    type: "number", id: "number", min: 1, max: names.length, "aria-label": words.number,
    onchange: (event) => {
      const number = Math.round(Number(event.target.value)) - 1;
      if (number >= 0 && number < names.length) open(number);
      event.target.value = (state().query.number ?? 0) + 1;
    },
  });
  const step = (by) => open((state().query.number + by + names.length) % names.length);
  const called = h("span");
  let current = null;
  return {
    element: h(
      "div",
      null,
      h("div", { class: "picker" },
        h("button", { type: "button", id: "previous", "aria-label": words.previous, onclick: () => step(-1) }, "←"),
        thumbs.length ? strip : h("div", { class: "strip" }, called),
        h("button", { type: "button", id: "next", "aria-label": words.next, onclick: () => step(1) }, "→")),
      h("div", { class: "position" }, field, h("span", { class: "soft" }, words.of(names.length, own))),
    ),
    update(now) {
      const i = now.query.number ?? 0;
      if (current !== null && thumbs[current]) {
        thumbs[current].removeAttribute("aria-current");
        thumbs[current].tabIndex = -1;
      }
      if (thumbs[i]) {
        thumbs[i].setAttribute("aria-current", "true");
        thumbs[i].tabIndex = 0;
        strip.scrollLeft = thumbs[i].offsetLeft - strip.offsetLeft - strip.clientWidth / 2 + 20;
      } else replace(called, name(label(i)));
      current = i;
      field.value = i + 1;
    },
  };
}

function canvas(summary, failed) {
  const words = text.canvas;
  const side = 280;
  const pad = h("canvas", { width: side, height: side, role: "img", "aria-label": words.label, id: "pad" });
  const context = pad.getContext("2d", { willReadFrequently: true });
  const seen = h("div");
  let strokes = [];
  let pen = null;

  function redraw() {
    context.fillStyle = "#000";
    context.fillRect(0, 0, side, side);
    context.strokeStyle = "#fff";
    context.lineWidth = side * 0.1;
    context.lineCap = context.lineJoin = "round";
    for (const stroke of strokes) {
      context.beginPath();
      context.moveTo(...stroke[0]);
      stroke.length > 1 ? stroke.slice(1).forEach((point) => context.lineTo(...point)) : context.lineTo(stroke[0][0] + 0.1, stroke[0][1]);
      context.stroke();
    }
  }

  function ink() {
    const { data } = context.getImageData(0, 0, side, side);
    const half = side / 2;
    const bytes = new Uint8Array(half * half);
    for (let y = 0; y < half; y++) for (let x = 0; x < half; x++) bytes[y * half + x] = data[4 * (2 * y * side + 2 * x)];
    return { width: half, height: half, ink: toBase64(bytes) };
  }

  // Whoever clears the canvas or goes elsewhere is not brought back by an answer that comes later.
  const gone = () => !strokes.length || !pad.isConnected;
  const send = newestOnly(async (quietly) => {
    if (gone()) return;
    try {
      const found = await ask("/api/explain", { query: { drawing: ink() }, settings: settings() });
      if (gone()) return;
      go({ query: { values: found.values }, source: null, samples: [], classes: [] }, { quietly });
    } catch (error) {
      failed(error);
    }
  });

  const at = (event) => {
    const box = pad.getBoundingClientRect();
    return [((event.clientX - box.left) * side) / box.width, ((event.clientY - box.top) * side) / box.height];
  };
  pad.addEventListener("pointerdown", (event) => {
    pad.setPointerCapture(event.pointerId);
    pen = [at(event)];
    strokes.push(pen);
    redraw();
    event.preventDefault();
  });
  pad.addEventListener("pointermove", (event) => {
    if (!pen) return;
    pen.push(at(event));
    redraw();
    send(Boolean(state().query.values));
  });
  const lift = () => {
    if (!pen) return;
    pen = null;
    send(Boolean(state().query.values));
  };
  pad.addEventListener("pointerup", lift);
  pad.addEventListener("pointercancel", lift);
  const clear = () => {
    strokes = [];
    redraw();
    go({ query: { number: 0 }, source: "drawing", samples: [], classes: [] });
  };
  const undo = () => {
    strokes.pop();
    redraw();
    strokes.length ? send(false) : clear();
  };
  redraw();
  return {
    element: h(
      "div",
      { class: "draw" },
      h("div", null, pad,
        h("div", { class: "tools" },
          h("button", { type: "button", id: "undo", onclick: undo }, words.undo),
          h("button", { type: "button", id: "clear", onclick: clear }, words.clear))),
      seen,
    ),
    update(now) {
      if (!now.query.values) replace(seen, h("p", { class: "soft small" }, words.hint));
    },
    show(found) {
      if (!found.values) return;
      const small = picture(found.pictures?.query ?? "", words.seen, { sharp: summary.pictures.sharp });
      replace(seen, h("figure", { class: "seen" }, small, h("figcaption", { class: "soft small" }, words.seen)));
    },
  };
}

function dropZone(summary, failed) {
  const words = text.picture;
  const canLink = summary.brings.row; // pictures of a model that takes image files have no values of their own
  async function take(file) {
    if (!file) return;
    try {
      if (file.size > LARGEST_FILE) throw new Refused(words.tooLarge(file.size, LARGEST_FILE));
      const code = toBase64(new Uint8Array(await file.arrayBuffer()));
      const found = await ask("/api/explain", { query: { picture: code }, settings: settings() });
      if (!zone.isConnected) return; // gone elsewhere meanwhile
      if (found.values) go({ query: { values: found.values }, source: "picture", samples: [], classes: [] });
      else go({ query: { picture: code, preview: URL.createObjectURL(file) }, source: "picture", samples: [], classes: [] });
    } catch (error) {
      failed(error);
    }
  }
  const zone = h(
    "div",
    {
      class: "drop",
      ondragover: (event) => (event.preventDefault(), zone.classList.add("over")),
      ondragleave: () => zone.classList.remove("over"),
      ondrop: (event) => {
        event.preventDefault();
        zone.classList.remove("over");
        take(event.dataTransfer.files[0]);
      },
    },
    h("p", null, h("label", { for: "file" }, words.drop)),
    h("p", null, h("input", { type: "file", id: "file", accept: "image/*", onchange: (event) => take(event.target.files[0]) })),
    h("p", { class: "soft small" }, canLink ? words.note : `${words.noteFeatures} ${words.notLinked}`),
  );
  return { element: zone, update() {} };
}

function rowField(summary) {
  const words = text.row;
  const field = h("textarea", { id: "row", spellcheck: "false", "aria-describedby": "row-hint" });
  const send = () => field.value.trim() && go({ query: { row: field.value.trim() }, source: null, samples: [], classes: [] });
  return {
    element: h(
      "div",
      null,
      h("label", { for: "row" }, words.label),
      field,
      h("p", { class: "soft small", id: "row-hint" }, words.hint(summary.columns, summary.n_inputs)),
      h("p", null, h("button", { type: "button", id: "ask-row", onclick: send }, words.ask)),
    ),
    update(now) {
      if (now.query.row && document.activeElement !== field) field.value = now.query.row;
    },
  };
}
