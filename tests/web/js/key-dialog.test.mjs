import assert from "node:assert/strict";
import { test } from "node:test";
import { KeyDialog, canBeKey } from "../../../web/static/key-dialog.js";

/** The elements that the dialog is made of. */
function setUp() {
  const elements = new Map();
  const byId = (id) => {
    if (!elements.has(id)) elements.set(id, new FakeElement());
    return elements.get(id);
  };
  const keys = [];
  const dialog = new KeyDialog(byId, (key) => keys.push(key));
  const enter = (value) => {
    byId("new-key").value = value;
    byId("key-form").listeners.submit({ preventDefault() {} });
  };
  return { dialog, byId, keys, enter };
}

class FakeElement {
  open = false;
  value = "";
  dataset = {};
  listeners = {};

  addEventListener(name, call) {
    this.listeners[name] = call;
  }

  showModal() {
    assert.equal(this.open, false, "a browser throws where it is open");
    this.open = true;
  }

  close() {
    this.open = false;
  }

  select() {}
}

test("a key is asked for, and given on", () => {
  const { dialog, byId, keys, enter } = setUp();
  dialog.ask(false);
  assert.equal(dialog.isOpen, true);
  assert.equal(byId("key-why").dataset.reason, "needed");
  enter("  sk-1 ");
  assert.deepEqual(keys, ["sk-1"]);
  assert.equal(dialog.isOpen, false);
});

test("a key that was refused is asked for again, with the reason", () => {
  const { dialog, byId } = setUp();
  dialog.ask(false);
  dialog.ask(true);
  assert.equal(byId("key-why").dataset.reason, "wrong");
  assert.match(byId("key-why").textContent, /did not accept/);
});

test("what can be no key is not sent", () => {
  const { dialog, byId, keys, enter } = setUp();
  dialog.ask(false);
  for (const value of ["", "  ", "two words", "ключ", "a/b", "a,b"]) {
    enter(value);
    assert.equal(byId("key-why").dataset.reason, "impossible");
  }
  assert.deepEqual(keys, []);
  assert.equal(dialog.isOpen, true);
  assert.equal(canBeKey("sk-Ab_9.~!"), true);
});

test("one may leave it", () => {
  const { dialog, byId, keys } = setUp();
  dialog.ask(false);
  byId("key-later").listeners.click();
  assert.deepEqual([dialog.isOpen, keys], [false, []]);
});
