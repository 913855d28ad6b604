/** What keys and presses mean: Escape cuts in, Space and the button hold the turn. */

// Radio buttons answer to arrows, so Space on one still means talking.
const TYPING =
  'input:not([type="radio"]), textarea, select, [contenteditable=""], [contenteditable="true"]';

/** @returns {boolean} whether a key pressed on this element belongs to the element */
export function isTyping(element) {
  return Boolean(element?.matches?.(TYPING));
}

/**
 * @param {object} options
 * @param {HTMLElement} options.button the talk button
 * @param {() => boolean} options.isHold whether turns are held
 * @param {() => boolean} options.isBlocked whether a dialog has the keys
 * @param {() => void} options.onPress
 * @param {() => void} options.onRelease
 * @param {() => void} options.onClick the button was clicked, outside hold mode
 * @param {() => void} options.onEscape
 */
export function bindKeys({ button, isHold, isBlocked, onPress, onRelease, onClick, onEscape }) {
  let pressed = false;
  const press = () => {
    if (pressed) return;
    pressed = true;
    onPress();
  };
  const release = () => {
    if (!pressed) return;
    pressed = false;
    onRelease();
  };
  const isSpace = (event) =>
    event.code === "Space" && isHold() && !isBlocked() && !isTyping(event.target);

  window.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !isBlocked()) onEscape();
    if (!isSpace(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (!event.repeat) press();
  });
  window.addEventListener("keyup", (event) => {
    if (event.code !== "Space") return;
    // A button is clicked when Space comes up, so the click is stopped here.
    if (isSpace(event)) event.preventDefault();
    release();
  });
  window.addEventListener("blur", release);
  button.addEventListener("pointerdown", (event) => {
    if (!isHold() || event.button !== 0) return;
    button.setPointerCapture(event.pointerId);
    press();
  });
  for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) {
    button.addEventListener(name, release);
  }
  button.addEventListener("contextmenu", (event) => {
    if (isHold()) event.preventDefault();
  });
  button.addEventListener("click", (event) => {
    // A pointer has pressed and released by now; only Enter and assistive tools come without.
    if (!isHold() || event.detail === 0) onClick();
  });
}
