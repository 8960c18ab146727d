// Questions to the server on this machine.

import { text } from "./strings.js";

const token = new URLSearchParams(location.search).get("token") ?? "";
export const hasToken = token !== "";

export class Refused extends Error {}

async function answered(path, options) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: { ...options.headers, authorization: `Bearer ${token}` } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(text.unreachable);
  }
  const content = await response.json();
  if (!response.ok) throw new Refused(content.error);
  return content;
}

export const get = (path) => answered(path, {});
export const ask = (path, body, signal) =>
  answered(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal });

export const pictureAddress = (part, number) => `/api/pictures/${part}/${number}?token=${encodeURIComponent(token)}`;

// Asks only the newest of the questions that arrive while another one is under way.
export function newestOnly(work) {
  let running = false;
  let waiting = null;
  return async function run(...values) {
    waiting = values;
    if (running) return;
    running = true;
    while (waiting) {
      const next = waiting;
      waiting = null;
      await work(...next);
    }
    running = false;
  };
}

export function toBase64(bytes) {
  let binary = "";
  for (let i = 0; i < bytes.length; i += 0x8000) binary += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(binary);
}

export const fromBase64 = (code) => Uint8Array.from(atob(code), (letter) => letter.charCodeAt(0));
