// The state of the page is its address: every state can be linked to, and the back button works.

import { fromBase64, toBase64 } from "./api.js";

const listeners = [];
let summary = null;
let current = null;
const unlinked = new Map(); // queries that are too large for an address, by a key in the entry of the history

export function begin(what) {
  summary = what;
  current = parsed(location.hash);
  window.addEventListener("popstate", () => {
    const query = unlinked.get(history.state?.query);
    current = { ...parsed(location.hash), ...(query && { query }) };
    tell();
  });
}

export const state = () => current;
export const onChange = (listener) => listeners.push(listener);
const tell = () => listeners.forEach((listener) => listener(current));

export const methodOf = (nameOf) => summary.controls.methods.find((each) => each.name === nameOf);

// Go to a state; `quietly` replaces the entry of the history, as for a slider that is being moved.
export function go(changes, { quietly = false } = {}) {
  const next = { ...current, ...changes };
  const hash = formatted(next);
  const kept = Boolean(next.query.picture);
  if (hash === location.hash && !kept && !current.query.picture) return;
  const entry = kept ? { query: keyOf(next.query) } : null;
  if (quietly) history.replaceState(entry, "", hash);
  else history.pushState(entry, "", hash);
  current = kept ? next : parsed(hash);
  tell();
}

function keyOf(query) {
  const known = [...unlinked.keys()].find((key) => unlinked.get(key) === query);
  const key = known ?? Math.random(); // not a count: entries from before a reload are still there
  unlinked.set(key, query);
  return key;
}

export const link = (changes) => formatted({ ...current, ...changes });

// The settings as the server takes them.
export const settings = (of = current) => ({ method: of.method, parameters: of.parameters, threshold: of.threshold });

function parsed(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split("?");
  const given = new URLSearchParams(search);
  const start = summary.controls.start;
  const method = methodOf(given.get("method")) ? given.get("method") : start.method;
  const known = methodOf(method);
  const parameters = { ...known.usual };
  for (const { name } of known.sliders) {
    const value = given.get(name);
    if (value === "inf") parameters[name] = "inf";
    else if (value !== null && Number.isFinite(Number(value))) parameters[name] = Number(value);
  }
  for (const [name, values] of Object.entries(known.choices)) {
    const found = values.find((value) => String(value) === given.get(name));
    if (found !== undefined) parameters[name] = found;
  }
  const threshold = Number(given.get("threshold") ?? start.threshold);
  return {
    view: path === "confusion" ? "confusion" : "explain",
    query: queryOf(given),
    source: given.get("source") ?? null,
    method,
    parameters,
    threshold: Number.isFinite(threshold) ? threshold : start.threshold,
    samples: numbers(given.get("without")),
    classes: numbers(given.get("without-class")),
    filter: given.get("filter") ?? "all",
    truth: whole(given.get("true")),
    answered: whole(given.get("answered")),
  };
}

const whole = (value) => (value !== null && /^-?\d{1,9}$/.test(value) ? Number(value) : null);
const numbers = (value) => (value ?? "").split(".").map(whole).filter((each) => each !== null);

function queryOf(given) {
  if (given.has("values")) {
    try {
      return { values: unpacked(given.get("values")) };
    } catch {
      return { number: 0 };
    }
  }
  if (given.has("row")) return { row: given.get("row") };
  const number = whole(given.get("q"));
  return { number: number !== null && number >= 0 && number < summary.held_out.names.length ? number : 0 };
}

function formatted(of) {
  const parts = [];
  const add = (key, value) => parts.push(`${key}=${encodeURIComponent(value)}`);
  if (of.query.values) add("values", packed(of.query.values));
  else if (of.query.row) add("row", of.query.row);
  else if (of.query.number) add("q", of.query.number);
  if (of.source && of.query.number !== undefined) add("source", of.source);
  const start = summary.controls.start;
  if (of.method !== start.method) add("method", of.method);
  const usual = methodOf(of.method).usual;
  for (const [name, value] of Object.entries(of.parameters)) if (value !== usual[name]) add(name, value);
  if (of.threshold !== start.threshold) add("threshold", of.threshold);
  if (of.samples.length) add("without", of.samples.join("."));
  if (of.classes.length) add("without-class", of.classes.join("."));
  if (of.view === "confusion") {
    if (of.filter !== "all") add("filter", of.filter);
    if (of.truth !== null) add("true", of.truth);
    if (of.answered !== null) add("answered", of.answered);
  }
  return `#/${of.view}${parts.length ? `?${parts.join("&")}` : ""}`;
}

const packed = (values) =>
  toBase64(new Uint8Array(Float32Array.from(values).buffer)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const unpacked = (code) =>
  Array.from(new Float32Array(fromBase64(code.replaceAll("-", "+").replaceAll("_", "/")).buffer), (value) => Math.round(value * 100) / 100);
