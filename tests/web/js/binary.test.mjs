import assert from "node:assert/strict";
import { test } from "node:test";
import { AudioFormat, chooseFormat } from "../../../web/static/audio-format.js";
import { OPUS, PCM16, Parts, readFrame, samplesOf, writeFrame } from "../../../web/static/binary.js";

/** A frame written out byte by byte, so that both ends are held to the layout. */
const FRAME = Uint8Array.of(
  1, 1, 1, 0, // version, PCM16, last
  2, 1, 0, 0, // epoch 258
  3, 0, 0, 0, // number 3
  0, 0, 1, 0, // position 65536 ms
  255, 255, 2, 1, 9,
);

test("a frame is read as it is laid out", () => {
  const frame = readFrame(FRAME.buffer);
  assert.deepEqual({ ...frame, payload: [...frame.payload] },
    { kind: PCM16, last: true, epoch: 258, number: 3, positionMs: 65536, payload: [255, 255, 2, 1, 9] });
  assert.deepEqual(samplesOf(frame.payload), Int16Array.of(-1, 258), "an odd byte is left out");
});

test("what is no frame is told apart", () => {
  const changed = (at, value) => {
    const bytes = FRAME.slice();
    bytes[at] = value;
    return bytes.buffer;
  };
  for (const buffer of [new ArrayBuffer(0), FRAME.slice(0, 15).buffer, changed(0, 2), changed(1, 0), changed(1, 3)]) {
    assert.equal(readFrame(buffer), null);
  }
  assert.equal(readFrame(FRAME.slice(0, 16).buffer).payload.length, 0);
  assert.equal(readFrame(changed(2, 254)).last, false, "other flags mean nothing yet");
});

test("a microphone's frame has a header of zeros but version and kind", () => {
  assert.deepEqual([...writeFrame(OPUS, Uint8Array.of(7, 8))], [1, 2, ...new Array(14).fill(0), 7, 8]);
});

test("frames find their part by epoch and number, the latest with a number counts", () => {
  const parts = new Parts();
  parts.begin({ type: "x", epoch: 1, number: 1, response_id: "r", item_id: "a", output_index: 0, content_index: 0 });
  parts.begin({ epoch: 2, number: 1, response_id: "s", item_id: "b" });
  assert.deepEqual(parts.of({ epoch: 1, number: 1 }), { response_id: "r", item_id: "a", output_index: 0, content_index: 0 });
  parts.begin({ epoch: 1, number: 1, response_id: "r", item_id: "c" });
  assert.equal(parts.of({ epoch: 1, number: 1 }).item_id, "c");
  assert.equal(parts.of({ epoch: 1, number: 2 }), undefined);
});

test("only the latest parts are remembered", () => {
  const parts = new Parts();
  for (let number = 1; number <= 1000; number += 1) parts.begin({ epoch: 1, number, item_id: String(number) });
  assert.equal(parts.of({ epoch: 1, number: 900 }), undefined);
  assert.equal(parts.of({ epoch: 1, number: 1000 }).item_id, "1000");
  assert.equal(parts.parts.size, 16);
});

test("the page takes Opus from afar where the browser has it, unless it is told otherwise", async () => {
  const yes = async () => true;
  const no = async () => false;
  assert.equal(await chooseFormat(null, "example.org", yes), "opus");
  assert.equal(await chooseFormat(null, "example.org", no), "pcm16");
  for (const here of ["localhost", "127.0.0.1", "[::1]"]) {
    assert.equal(await chooseFormat(null, here, yes), "pcm16");
    assert.equal(await chooseFormat("opus", here, yes), "opus");
  }
  assert.equal(await chooseFormat("opus", "example.org", no), "pcm16");
  assert.equal(await chooseFormat("pcm", "example.org", yes), "pcm16");
  assert.equal(await chooseFormat("json", "example.org", yes), null);
});

test("what the page would like is found out once", async () => {
  let asked = 0;
  const format = new AudioFormat({ choose: async () => (asked += 1) && "pcm16", ask() {}, use() {} });
  await format.prepare();
  await format.prepare();
  assert.deepEqual([asked, format.wanted], [1, "pcm16"]);
});
