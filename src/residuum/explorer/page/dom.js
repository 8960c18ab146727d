// Elements from plain calls. Text is always a text node, so nothing that a file or class is called can be markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else if (name === "value" && "value" in element && element.tagName !== "DATA") element.value = value;
    else if (value === true) element.setAttribute(name, "");
    else element.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

export const h = (tag, properties, ...children) => filled(document.createElement(tag), properties, children);
export const svg = (tag, properties, ...children) => filled(document.createElementNS(SVG, tag), properties, children);

// A name from outside: kept apart from the direction of the text around it.
export const name = (text) => h("bdi", null, text);

export function digits(value) {
  if (value === null || value === undefined) return "–";
  if (value === "inf" || value === Infinity) return "∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e5) return value.toExponential(1).replace("e", " e").replace("-", "−").replace(" e", "e");
  const places = size >= 100 ? 1 : size >= 10 ? 2 : size >= 0.01 ? 3 : 4;
  return value.toFixed(Number.isInteger(value) ? 0 : places).replace("-", "−");
}

// A number that tests and scripts can read in full.
export const number = (value) => h("data", { value: String(value), class: "number" }, digits(value));
export const percent = (value) =>
  h("data", { value: String(value), class: "number" }, value > 0.9995 && value < 1 ? "> 99.9 %" : `${(100 * value).toFixed(value < 0.1 ? 2 : 1)} %`);

export function picture(source, words, { sharp = false, photo = false, lazy = false, kind = "" } = {}) {
  const classes = [sharp && "sharp", photo && "photo", kind].filter(Boolean).join(" ");
  return h("img", { src: source, alt: words, class: classes || null, loading: lazy ? "lazy" : null, decoding: "async" });
}

export const replace = (element, ...children) => {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== false && child !== undefined));
  return element;
};
