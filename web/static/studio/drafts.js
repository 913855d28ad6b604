/** What is kept in the browser: the draft of the next request, and how pictures are shown. */

const STORE = "antiphon.studio.v1";

/** @returns {{settings: object|null, crisp: boolean}} */
export function load(storage) {
  try {
    const kept = JSON.parse(storage.getItem(STORE) ?? "{}");
    return { settings: kept.settings ?? null, crisp: kept.crisp !== false };
  } catch {
    return { settings: null, crisp: true };
  }
}

/** Keeps it; without a picture that goes in, which may be large. A full store is no error. */
export function save(storage, { settings, crisp }) {
  try {
    storage.setItem(STORE, JSON.stringify({ settings: { ...settings, picture: null }, crisp }));
  } catch {
    return;
  }
}
