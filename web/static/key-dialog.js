/** Asks for the access key of a server that needs one. */

/** Characters that a key may have: it travels as a WebSocket subprotocol. */
const KEY = /^[\w!$%&'*+.^`|~-]+$/;

const TEXTS = {
  needed: "This server answers only to those who have an access key. Whoever runs it can give you one.",
  wrong: "The server did not accept this key. Check it for missing characters, or ask whoever runs the server.",
  impossible: "A key has letters, digits and simple signs, without spaces. Paste it once more.",
};

/**
 * @param {string} key what was entered
 * @returns {boolean} whether it can be sent
 */
export function canBeKey(key) {
  return KEY.test(key);
}

export class KeyDialog {
  /**
   * @param {(id: string) => HTMLElement} byId finds an element of the page
   * @param {(key: string) => void} onKey told a key that can be tried
   */
  constructor(byId, onKey) {
    this.dialog = byId("ask-key");
    this.input = byId("new-key");
    this.why = byId("key-why");
    byId("key-later").addEventListener("click", () => this.dialog.close());
    byId("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const key = this.input.value.trim();
      if (!canBeKey(key)) {
        this.#say("impossible");
        return;
      }
      this.dialog.close();
      onKey(key);
    });
  }

  get isOpen() {
    return this.dialog.open;
  }

  /** @param {boolean} wrong whether a key was sent and refused */
  ask(wrong) {
    this.#say(wrong ? "wrong" : "needed");
    if (!this.isOpen) this.dialog.showModal();
    this.input.select();
  }

  #say(reason) {
    this.why.textContent = TEXTS[reason];
    this.why.dataset.reason = reason;
  }
}
