import assert from "node:assert/strict";
import { test } from "node:test";
import { StreamClock } from "../../../web/static/audio-in.js";
import { isTyping } from "../../../web/static/keys.js";
import { notice } from "../../../web/static/notices.js";
import * as settings from "../../../web/static/settings.js";
import { timingParts } from "../../../web/static/view.js";

function storage(text) {
  const data = new Map(text === undefined ? [] : [["antiphon.settings.v1", text]]);
  return {
    getItem: (key) => data.get(key) ?? null,
    setItem: (key, value) => data.set(key, value),
    removeItem: (key) => data.delete(key),
  };
}

const FORBIDDEN = {
  getItem() {
    throw new Error("denied");
  },
  setItem() {
    throw new Error("denied");
  },
};

test("what is stored comes back", () => {
  const store = storage();
  const changed = { ...settings.DEFAULTS, mode: "hold", voice: "amy", silenceMs: 300, echoCancellation: false };
  settings.save(store, changed);
  assert.deepEqual(settings.load(store), changed);
});

test("a store that is empty, broken, foreign or forbidden gives the defaults", () => {
  for (const text of [undefined, "", "{", "null", "7", '"x"', '{"mode":"loud","silenceMs":"9","voice":3}']) {
    assert.deepEqual(settings.load(storage(text)), { ...settings.DEFAULTS });
  }
  assert.deepEqual(settings.load(FORBIDDEN), { ...settings.DEFAULTS });
  settings.save(FORBIDDEN, settings.DEFAULTS);
  assert.equal(settings.loadKey(FORBIDDEN), "");
});

test("values out of bounds are brought inside", () => {
  const { least, most } = settings.SILENCE;
  assert.equal(settings.checked({ silenceMs: 1 }).silenceMs, least);
  assert.equal(settings.checked({ silenceMs: 1e9 }).silenceMs, most);
  assert.equal(settings.checked({ instructions: "x".repeat(9999) }).instructions.length, settings.MAX_INSTRUCTIONS);
});

test("hands-free asks for turn detection with the chosen pause, holding for none", () => {
  const open = settings.sessionFields({ ...settings.DEFAULTS, silenceMs: 350 }, "own");
  assert.equal(open.type, "realtime");
  assert.equal(open.instructions, "own");
  assert.equal(open.audio.input.turn_detection.type, "server_vad");
  assert.equal(open.audio.input.turn_detection.silence_duration_ms, 350);
  assert.deepEqual(open.audio.input.format, { type: "audio/pcm", rate: 24000 });
  const hold = settings.sessionFields({ ...settings.DEFAULTS, mode: "hold", instructions: "Be brief." }, "own");
  assert.equal(hold.audio.input.turn_detection, null);
  assert.equal(hold.instructions, "Be brief.");
});

test("an unknown server instruction is left alone", () => {
  const sent = JSON.parse(JSON.stringify(settings.sessionFields(settings.DEFAULTS, undefined)));
  assert.equal("instructions" in sent, false);
});

test("an access key is stored and forgotten", () => {
  const store = storage();
  settings.saveKey(store, "sk");
  assert.equal(settings.loadKey(store), "sk");
  settings.saveKey(store, "");
  assert.equal(settings.loadKey(store), "");
});

test("a position of the stream is told in capture time", () => {
  const clock = new StreamClock();
  assert.equal(clock.timeAt(0), null);
  for (let i = 1; i <= 10; i += 1) clock.sent(5 + i * 0.02);
  assert.ok(Math.abs(clock.timeAt(100) - 5.1) < 1e-9);
  assert.ok(Math.abs(clock.timeAt(90) - 5.09) < 1e-9);
  assert.ok(Math.abs(clock.timeAt(220) - 5.22) < 1e-9, "past the end it goes on");
});

test("a pause in the stream moves later positions only", () => {
  const clock = new StreamClock();
  clock.sent(1);
  clock.sent(9);
  assert.equal(clock.timeAt(20), 1);
  assert.equal(clock.timeAt(40), 9);
});

test("a day of audio keeps the clock bounded and right", () => {
  const clock = new StreamClock();
  for (let i = 1; i <= 50000; i += 1) clock.sent(i * 0.02);
  assert.ok(clock.marks.length <= 3000);
  assert.ok(Math.abs(clock.timeAt(999000) - 999) < 1e-6);
});

test("every notice has a text", () => {
  const codes = ["insecure", "refused", "missing", "busy", "failed", "lost"].map((code) => `microphone-${code}`);
  for (const code of [...codes, "sound-failed", "held-too-short", "voice-later", "reply-failed", "link-gone", "link-loading"]) {
    assert.ok(notice(code, {}).text.length > 20, code);
  }
  assert.match(notice("link-lost", { retryMs: 4000 }).text, /4 s/);
});

test("stages are read in every form a server may give them", () => {
  const stages = { a: "ready", b: true, c: false, d: { state: "warming" }, e: { ready: true }, f: 3 };
  assert.deepEqual(notice("link-loading", { stages }).stages,
    [["a", "ready"], ["b", "ready"], ["c", "loading"], ["d", "warming"], ["e", "ready"], ["f", "loading"]]);
});

test("a missing key leads to the settings, a lost server to another try", () => {
  assert.equal(notice("link-gone", { refused: true }).action, "key");
  assert.equal(notice("link-gone", { refused: true, wrong: true }).action, "key");
  assert.match(notice("link-gone", { refused: true }).text, /needs an access key/);
  assert.match(notice("link-gone", { refused: true, wrong: true }).text, /did not accept/);
  assert.equal(notice("link-gone", { code: 1011, reason: "out of memory" }).action, "reconnect");
  assert.match(notice("link-gone", { reason: "out of memory" }).text, /out of memory/);
});

test("what the server did not spend is network and buffer", () => {
  const split = { totalMs: 500, parts: [{ key: "talker_ms", label: "Voice", ms: 90 }] };
  assert.deepEqual(timingParts(640, split).map((part) => part.ms), [90, 140]);
  assert.equal(timingParts(450, split).at(-1).ms, 0);
  assert.equal(timingParts(100, { ...split, totalMs: 0 }).at(-1).ms, 10);
});

test("keys belong to text fields, not to buttons", () => {
  const element = (answer) => ({ matches: () => answer });
  assert.equal(isTyping(element(true)), true);
  assert.equal(isTyping(element(false)), false);
  assert.equal(isTyping(null), false);
  assert.equal(isTyping({}), false);
});
