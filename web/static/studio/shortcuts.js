/** Single keys, where nothing is typed. */
import { isTyping } from "../keys.js";

/** On a picture that has the focus, or is shown large. */
const ON_TILE = { n: "anew", r: "again", c: "compare", s: "save", x: "cancel", Delete: "delete", Backspace: "delete" };

/**
 * @param {object} page
 * @param {() => string|null} page.tile the key of the picture that a letter is about
 * @param {() => boolean} page.isBlocked whether a dialog has the keys
 * @param {() => boolean} page.isLarge whether a picture is shown large
 * @param {(act: string, key: string) => void} page.onAct
 * @param {(way: number) => void} page.onTurn
 * @param {Record<string, () => void>} page.anywhere by their keys
 */
export function bindShortcuts({ tile, isBlocked, isLarge, onAct, onTurn, anywhere }) {
  window.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isBlocked()) return;
    if (isTyping(event.target)) return;
    const way = isLarge() && event.target.tagName !== "VIDEO" ? turn(event.key) : 0;
    const key = tile();
    if (way !== 0) onTurn(way);
    else if (key && ON_TILE[event.key]) onAct(ON_TILE[event.key], key);
    else if (anywhere[event.key] && !isLarge()) anywhere[event.key]();
    else return;
    event.preventDefault();
  });
}

function turn(key) {
  return key === "ArrowLeft" ? -1 : key === "ArrowRight" ? 1 : 0;
}
