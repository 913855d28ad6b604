import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { OPUS, PCM16, readFrame, writeFrame } from "../../../web/static/binary.js";
import { Incoming, parse } from "../../../web/static/incoming.js";
import { OpusDecoder, OpusEncoder, offersOpus } from "../../../web/static/opus.js";
import { Outgoing } from "../../../web/static/outgoing.js";

const flushed = () => new Promise((resolve) => setImmediate(resolve));

/** Stands in for OpusDecoder; a test answers for it. */
class FakeDecoder {
  static all = [];

  constructor(handlers) {
    Object.assign(this, { handlers, packets: [], finished: [], closed: false });
    FakeDecoder.all.push(this);
  }

  decode(packet, index) {
    this.packets.push([packet[0], index]);
  }

  finish(index) {
    this.finished.push(index);
  }

  close() {
    this.closed = true;
  }

  answer(index, isEnd = false) {
    this.handlers.onAudio(index, Int16Array.of(index), isEnd);
  }
}

class FakeEncoder {
  static all = [];

  constructor(handlers) {
    Object.assign(this, { handlers, taken: 0, given: 0, closed: false });
    this.flushes = [];
    FakeEncoder.all.push(this);
  }

  get isBusy() {
    return this.given < this.taken;
  }

  encode(samples) {
    this.taken += 1;
    this.last = samples[0];
  }

  give() {
    this.given += 1;
    this.handlers.onPacket(Uint8Array.of(this.last));
  }

  flush() {
    return new Promise((resolve) => this.flushes.push(resolve));
  }

  close() {
    this.closed = true;
  }
}

let got;
let timers;
let troubles;
let incoming;
let sent;
let outgoing;

beforeEach(() => {
  FakeDecoder.all = [];
  FakeEncoder.all = [];
  got = [];
  timers = [];
  troubles = 0;
  sent = [];
  const parts = {
    onTrouble: () => (troubles += 1),
    later: (call, ms) => timers.push({ call, ms }),
  };
  incoming = new Incoming({
    ...parts,
    onEvent: (event) => got.push(event),
    makeDecoder: (handlers) => new FakeDecoder(handlers),
  });
  outgoing = new Outgoing({
    ...parts,
    send: (data) => sent.push(data),
    makeEncoder: (handlers) => new FakeEncoder(handlers),
  });
});

/** Says what the frames of a number belong to. */
function begin(number, item) {
  incoming.take(JSON.stringify({ type: "antiphon.output_audio.started", epoch: 1, number, response_id: `r${number}`, item_id: item }));
}

/** A frame from the server. */
function frame(kind, number, payload, last = false) {
  const bytes = writeFrame(kind, Uint8Array.from(payload));
  bytes[2] = last ? 1 : 0;
  bytes[4] = 1;
  bytes[8] = number;
  incoming.take(bytes.buffer);
}

/** What came out: item and first sample of audio, the type of the rest. */
function takeGot() {
  const told = got.map((event) => (event.samples ? `${event.item_id}:${event.samples[0]}` : event.type));
  got = [];
  return told;
}

test("audio in JSON is decoded on arrival, anything that is no event is left out", () => {
  const event = parse(JSON.stringify({ type: "response.output_audio.delta", delta: "AQACAA==" }));
  assert.deepEqual(event.samples, Int16Array.of(1, 2));
  assert.equal(event.ms, 2 / 24);
  assert.equal("delta" in event, false);
  for (const data of ["", "{", "null", new ArrayBuffer(4), '{"type":"response.output_audio.delta"}']) {
    assert.equal(parse(data), null);
  }
  for (const data of ["", "null", new ArrayBuffer(4), new Blob([])]) incoming.take(data);
  assert.deepEqual(got, []);
});

test("binary samples come out as the event that audio in JSON is", () => {
  begin(1, "a");
  frame(PCM16, 1, [1, 0, 2, 0]);
  const event = got[1];
  assert.deepEqual([event.type, event.response_id, event.item_id, event.ms], ["response.output_audio.delta", "r1", "a", 2 / 24]);
  assert.deepEqual(event.samples, Int16Array.of(1, 2));
});

test("a frame of nothing, or of nobody, is left out", () => {
  begin(1, "a");
  frame(PCM16, 2, [1, 0]);
  frame(PCM16, 1, []);
  frame(OPUS, 1, []);
  frame(PCM16, 1, [1]);
  assert.deepEqual(takeGot(), ["antiphon.output_audio.started"]);
  assert.deepEqual(FakeDecoder.all, []);
});

test("events wait for the audio that came before them, and only for that", () => {
  begin(1, "a");
  frame(OPUS, 1, [7]);
  frame(OPUS, 1, [8]);
  incoming.take('{"type":"x"}');
  frame(OPUS, 1, [9]);
  incoming.take('{"type":"y"}');
  const [decoder] = FakeDecoder.all;
  assert.deepEqual(decoder.packets, [[7, 1], [8, 2], [9, 3]]);
  takeGot();
  decoder.answer(1);
  assert.deepEqual(takeGot(), ["a:1"]);
  decoder.answer(2);
  assert.deepEqual(takeGot(), ["a:2", "x"]);
  decoder.answer(3);
  incoming.take('{"type":"z"}');
  assert.deepEqual(takeGot(), ["a:3", "y", "z"]);
});

test("what follows the last packet waits for the rest of the sound", () => {
  begin(1, "a");
  frame(OPUS, 1, [7], true);
  incoming.take('{"type":"done"}');
  const [decoder] = FakeDecoder.all;
  assert.deepEqual(decoder.finished, [1]);
  takeGot();
  decoder.answer(1);
  assert.deepEqual(takeGot(), ["a:1"]);
  decoder.answer(1, true);
  assert.deepEqual(takeGot(), ["a:1", "done"]);
});

test("a packet that gives no sound holds nothing up", () => {
  begin(1, "a");
  frame(OPUS, 1, [7]);
  frame(OPUS, 1, [8]);
  incoming.take('{"type":"x"}');
  takeGot();
  FakeDecoder.all[0].answer(2);
  assert.deepEqual(takeGot(), ["a:2", "x"]);
});

test("a part that was cut is ended before the next begins", () => {
  begin(1, "a");
  frame(OPUS, 1, [7]);
  begin(2, "b");
  frame(OPUS, 2, [8]);
  const [decoder] = FakeDecoder.all;
  assert.deepEqual(decoder.finished, [1]);
  takeGot();
  decoder.answer(1);
  decoder.answer(1, true);
  decoder.answer(2);
  assert.deepEqual(takeGot(), ["a:1", "antiphon.output_audio.started", "a:1", "b:2"]);
  assert.equal(FakeDecoder.all.length, 1);
});

test("when decoding fails, what waited goes on, and a new decoder tries", () => {
  begin(1, "a");
  frame(OPUS, 1, [7]);
  incoming.take('{"type":"x"}');
  takeGot();
  FakeDecoder.all[0].handlers.onError();
  assert.deepEqual([takeGot(), troubles], [["x"], 1]);
  frame(OPUS, 1, [8]);
  FakeDecoder.all[1].answer(2);
  frame(PCM16, 1, [5, 0]);
  assert.deepEqual(takeGot(), ["a:2", "a:5"]);
});

test("after three failures packets are left out, samples are not", () => {
  begin(1, "a");
  for (let i = 0; i < 3; i += 1) {
    frame(OPUS, 1, [7]);
    FakeDecoder.all[i].handlers.onError();
  }
  frame(OPUS, 1, [7]);
  frame(PCM16, 1, [5, 0]);
  assert.deepEqual([FakeDecoder.all.length, troubles], [3, 1]);
  assert.deepEqual(takeGot().slice(1), ["a:5"]);
});

test("a decoder that does not answer within a second has failed", () => {
  begin(1, "a");
  frame(OPUS, 1, [7]);
  frame(OPUS, 1, [8]);
  incoming.take('{"type":"x"}');
  assert.deepEqual(timers.map(({ ms }) => ms), [1000], "one watch for all");
  const [decoder] = FakeDecoder.all;
  decoder.answer(1);
  timers.shift().call();
  assert.equal(decoder.closed, false, "it has answered what was asked when the watch began");
  takeGot();
  timers.shift().call();
  assert.deepEqual([takeGot(), decoder.closed, troubles], [["x"], true, 1]);
  assert.deepEqual(timers, []);
});

test("events that pile up behind a decoder are not kept for ever", () => {
  begin(1, "a");
  frame(OPUS, 1, [7]);
  for (let i = 0; i < 2001; i += 1) incoming.take('{"type":"x"}');
  assert.equal(got.length, 2002);
  assert.equal(troubles, 1);
});

test("nothing comes out of a closed socket", () => {
  begin(1, "a");
  frame(OPUS, 1, [7]);
  incoming.take('{"type":"x"}');
  takeGot();
  incoming.close();
  assert.equal(FakeDecoder.all[0].closed, true);
  timers.shift().call();
  assert.deepEqual([takeGot(), troubles], [[], 0]);
});

test("samples go out in one frame, an encoder's packets as they come", () => {
  outgoing.use("pcm16");
  outgoing.audio(Int16Array.of(1, 2));
  outgoing.use("opus");
  outgoing.audio(Int16Array.of(9));
  assert.equal(sent.length, 1);
  FakeEncoder.all[0].give();
  const frames = sent.map((bytes) => readFrame(bytes.buffer)).map(({ kind, payload }) => [kind, ...payload]);
  assert.deepEqual(frames, [[PCM16, 1, 0, 2, 0], [OPUS, 9]]);
});

test("a commit waits for what it commits, and what follows waits too", async () => {
  outgoing.use("opus");
  outgoing.audio(Int16Array.of(9));
  outgoing.event({ type: "antiphon.playback.report" });
  assert.equal(sent.length, 1, "a report does not wait");
  outgoing.event({ type: "input_audio_buffer.commit" });
  outgoing.event({ type: "response.create" });
  assert.equal(sent.length, 1);
  const [encoder] = FakeEncoder.all;
  encoder.give();
  encoder.flushes[0]();
  await flushed();
  assert.deepEqual(sent.map((data) => (typeof data === "string" ? JSON.parse(data).type : "audio")),
    ["antiphon.playback.report", "audio", "input_audio_buffer.commit", "response.create"]);
  outgoing.event({ type: "input_audio_buffer.clear" });
  assert.equal(sent.length, 5, "nothing is left to wait for");
});

test("an encoder that fails or stalls gives way to samples", () => {
  outgoing.use("opus");
  outgoing.audio(Int16Array.of(9));
  outgoing.event({ type: "input_audio_buffer.commit" });
  timers.shift().call();
  assert.deepEqual([sent.length, troubles, outgoing.format, FakeEncoder.all[0].closed], [1, 1, "pcm16", true]);
  outgoing.use("opus");
  FakeEncoder.all[1].handlers.onError();
  assert.deepEqual([troubles, outgoing.format], [2, "pcm16"]);
});

/** Codecs as a browser has them, which do nothing but hand on. */
function codecs({ broken = false } = {}) {
  class Codec {
    static async isConfigSupported() {
      return { supported: !broken };
    }

    constructor({ output, error }) {
      Object.assign(this, { output, error, state: "unconfigured", work: [] });
    }

    configure() {
      this.state = "configured";
    }

    decode(chunk) {
      if (broken) throw new TypeError("no");
      this.work.push(chunk);
    }

    encode(audio) {
      this.decode(audio);
    }

    async flush() {
      for (const one of this.work.splice(0)) this.output(one.result());
    }

    close() {
      this.state = "closed";
    }
  }
  /** 20 ms of a constant at 48 kHz, whatever was in it. */
  class EncodedAudioChunk {
    constructor({ timestamp }) {
      this.timestamp = timestamp;
    }

    result() {
      return {
        timestamp: this.timestamp,
        numberOfFrames: 960,
        sampleRate: 48000,
        copyTo: (floats) => floats.fill(0.5),
        close() {},
      };
    }
  }
  class AudioData {
    constructor({ data }) {
      this.data = data;
    }

    result() {
      return { byteLength: 2, copyTo: (bytes) => bytes.set([this.data[0], 0]) };
    }

    close() {}
  }
  return { AudioDecoder: Codec, AudioEncoder: Codec, EncodedAudioChunk, AudioData };
}

test("a browser has Opus when it says so of both ways", async () => {
  assert.equal(await offersOpus(codecs()), true);
  assert.equal(await offersOpus(codecs({ broken: true })), false);
  assert.equal(await offersOpus({}), false);
});

test("a part is as long at 24 kHz as its packets, less what the encoder looked ahead", async () => {
  const lengths = [];
  const decoder = new OpusDecoder({ onAudio: (index, samples, isEnd) => lengths.push([index, samples.length, isEnd]), onError: assert.fail }, codecs());
  for (const from of [1, 4]) {
    for (let index = from; index < from + 3; index += 1) decoder.decode(Uint8Array.of(1), index);
    await decoder.finish(from + 2);
    assert.deepEqual(lengths.map(([index, , isEnd]) => [index, isEnd]),
      [[from, false], [from + 1, false], [from + 2, false], [from + 2, true]]);
    assert.equal(lengths.splice(0).reduce((sum, [, length]) => sum + length, 0), 3 * 480 - 156);
  }
});

test("the middle of a part is neither louder nor softer than it was", async () => {
  let middle;
  const decoder = new OpusDecoder({ onAudio: (index, samples) => (middle = index === 2 ? samples[240] : middle), onError: assert.fail }, codecs());
  for (let index = 1; index <= 3; index += 1) decoder.decode(Uint8Array.of(1), index);
  await decoder.finish(3);
  assert.ok(Math.abs(middle - 16384) < 40, String(middle));
});

test("a codec that throws is told once, and says no more", async () => {
  let errors = 0;
  const decoder = new OpusDecoder({ onAudio: assert.fail, onError: () => (errors += 1) }, codecs({ broken: true }));
  decoder.decode(Uint8Array.of(1), 1);
  decoder.decode(Uint8Array.of(1), 2);
  const encoder = new OpusEncoder({ onPacket: assert.fail, onError: () => (errors += 1) }, codecs({ broken: true }));
  encoder.encode(Int16Array.of(1));
  encoder.close();
  assert.equal(errors, 2);
});

test("an encoder is busy until everything has come out", async () => {
  const packets = [];
  const encoder = new OpusEncoder({ onPacket: (packet) => packets.push(packet[0]), onError: assert.fail }, codecs());
  encoder.encode(Int16Array.of(3));
  encoder.encode(Int16Array.of(4));
  assert.equal(encoder.isBusy, true);
  await encoder.flush();
  assert.deepEqual([packets, encoder.isBusy], [[3, 4], false]);
  encoder.encoder.output({ byteLength: 1, copyTo() {} });
  await encoder.flush();
  encoder.encode(Int16Array.of(5));
  assert.equal(encoder.isBusy, true, "a packet more at the end of a flush counts for nothing");
});
