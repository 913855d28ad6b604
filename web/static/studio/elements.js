/** Small helpers about the document. */

/** @returns {HTMLElement} a new element with a class and a text */
export function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

/** Sets a text only where it changes, so that readers aloud stay quiet. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const SVG = "http://www.w3.org/2000/svg";

/** @returns {SVGElement} a symbol of the page */
export function icon(id) {
  const svg = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", id);
  svg.append(use);
  return svg;
}

/** @returns {HTMLInputElement[]} the radio buttons of a group */
export function radios(name) {
  return [...document.querySelectorAll(`input[name="${name}"]`)];
}

export function choose(name, value) {
  for (const each of radios(name)) each.checked = each.value === value;
}

/** Saves a blob as a file. */
export function download(blob, name) {
  const link = make("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
