import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Assistant } from "../../../web/static/assistant.js";
import { MicrophoneError } from "../../../web/static/audio-in.js";
import { DEFAULTS } from "../../../web/static/settings.js";

const FRAME = () => new Int16Array(480).fill(7);

/** Stands in for socket, microphone and loudspeaker; records what they are told. */
class Rig {
  constructor(settings = {}, wanted = "pcm16") {
    this.wanted = wanted;
    this.formats = [];
    this.traced = [];
    this.timers = [];
    this.sent = [];
    this.audio = [];
    this.played = [];
    this.notices = [];
    this.sounding = [];
    this.context = { currentTime: 0, state: "running", resume() {}, suspend() {} };
    this.assistant = new Assistant({
      settings: { ...DEFAULTS, ...settings },
      onChange: () => {},
      onNotice: (code, detail) => this.notices.push(code === "clear" ? `clear ${detail?.family ?? ""}`.trim() : code),
      onLevel: () => {},
      makeContext: async () => this.context,
      makeLink: (handlers) => this.#link(handlers),
      makeMicrophone: (handlers) => this.#microphone(handlers),
      makePlayer: (handlers) => this.#player(handlers),
      onTrace: (kind, fields) => this.traced.push([kind, fields]),
      chooseFormat: async () => this.wanted,
      later: (call) => this.timers.push(call),
    });
  }

  #link({ onState, onEvent, onTrouble }) {
    this.trouble = onTrouble;
    this.event = (type, fields = {}) => onEvent({ type, ...fields });
    this.connect = (session = {}) => {
      this.link.state = "open";
      onState("open", {});
      this.event("session.created", { session: { antiphon: { voices: ["amy", "ryan"] }, audio: { output: { voice: "amy" } }, ...session } });
    };
    this.lose = () => {
      this.link.state = "lost";
      onState("lost", { retryMs: 500 });
    };
    this.link = {
      state: "closed",
      open: () => (this.link.state = "connecting"),
      close: () => (this.link.state = "closed"),
      send: (event) => this.sent.push(event),
      useFormat: (format) => this.formats.push(format),
      sendAudio: (samples) => this.audio.push(samples) > 0,
    };
    return this.link;
  }

  #microphone({ onFrame }) {
    this.speak = (frames) => {
      for (let i = 0; i < frames; i += 1) {
        this.context.currentTime += 0.02;
        onFrame(FRAME(), 0.5, this.context.currentTime);
      }
    };
    this.microphone = {
      isOpen: false,
      error: null,
      open: async () => {
        if (this.microphone.error) throw this.microphone.error;
        this.microphone.isOpen = true;
      },
      close: () => (this.microphone.isOpen = false),
      takePreRoll: () => [{ samples: FRAME(), time: this.context.currentTime }],
    };
    return this.microphone;
  }

  #player(handlers) {
    this.speaker = handlers;
    return {
      open() {},
      push: (id, samples) => this.played.push([id, samples.length]),
      finish: (id) => this.played.push([id, "end"]),
      duck: (on) => this.played.push(["duck", on]),
      clear: (done) => {
        done(this.sounding);
        this.sounding = [];
      },
    };
  }

  /** Names of the events sent since the last call. */
  takeSent() {
    const sent = this.sent.map((event) => event.type);
    this.sent = [];
    return sent;
  }

  /** A spoken turn and the first second of its reply. */
  async reply() {
    await this.assistant.start();
    this.connect();
    this.event("input_audio_buffer.speech_started", { item_id: "u1" });
    this.event("input_audio_buffer.speech_stopped", { item_id: "u1", audio_end_ms: 0 });
    this.event("input_audio_buffer.committed", { item_id: "u1" });
    this.event("response.created", { response: { id: "r1" } });
    this.sound();
    this.speaker.onStarted("a1", this.context.currentTime);
    this.takeSent();
  }

  sound(response = "r1", item = "a1") {
    this.event("response.output_audio.delta", { response_id: response, item_id: item, samples: new Int16Array(24000), ms: 1000 });
  }

  position(playedMs, heardMs = playedMs) {
    this.speaker.onPosition({ id: "a1", playedMs, heardMs, bufferedMs: 1000 - playedMs, underruns: 0, gaps: 0, gapMs: 0, level: 0.5 });
  }
}

let rig;
beforeEach(() => {
  rig = new Rig();
});

test("connecting sends the settings once, and then the microphone's frames", async () => {
  await rig.assistant.start();
  assert.equal(rig.assistant.status, "connecting");
  rig.speak(5);
  assert.equal(rig.audio.length, 0);
  rig.connect();
  rig.speak(5);
  assert.deepEqual(rig.takeSent(), ["session.update"]);
  assert.equal(rig.audio.length, 5);
  assert.equal(rig.assistant.status, "listening");
});

test("a chosen voice is asked for by itself, the server's own is not", async () => {
  rig = new Rig({ voice: "ryan" });
  await rig.assistant.start();
  rig.connect();
  assert.deepEqual(rig.sent[1].session, { type: "realtime", audio: { output: { voice: "ryan" } } });
  rig.takeSent();
  rig.assistant.apply({ ...rig.assistant.settings, voice: "" });
  assert.equal(rig.sent[0].session.audio.output.voice, "amy");
});

test("a changed setting goes out at once, an unchanged one does not", async () => {
  await rig.assistant.start();
  rig.connect();
  rig.takeSent();
  rig.assistant.apply({ ...DEFAULTS });
  assert.deepEqual(rig.takeSent(), []);
  rig.assistant.apply({ ...DEFAULTS, silenceMs: 200 });
  assert.equal(rig.sent[0].session.audio.input.turn_detection.silence_duration_ms, 200);
});

test("a refused microphone is told, and typing still works", async () => {
  rig.microphone.error = new MicrophoneError("refused", "no");
  await rig.assistant.start();
  rig.connect();
  assert.equal(rig.notices.at(-2), "microphone-refused");
  assert.equal(rig.notices.at(-1), "clear link-", "a connection takes back only its own notices");
  rig.takeSent();
  await rig.assistant.sendText("Hello");
  assert.deepEqual(rig.takeSent(), ["conversation.item.create", "response.create"]);
});

test("a page without a secure origin says so and does not connect", async () => {
  rig.assistant.makeContext = async () => {
    throw new MicrophoneError("insecure", "no");
  };
  await rig.assistant.start();
  assert.deepEqual([rig.notices.at(-1), rig.assistant.status], ["microphone-insecure", "idle"]);
});

test("a typed message waits for the connection it opens", async () => {
  await rig.assistant.sendText("  Hello ");
  assert.equal(rig.microphone.isOpen, false);
  assert.deepEqual(rig.takeSent(), []);
  rig.connect();
  assert.equal(rig.sent[1].item.content[0].text, "Hello");
  assert.deepEqual(rig.takeSent(), ["session.update", "conversation.item.create", "response.create"]);
});

test("speaking over the reply cuts it at what was played", async () => {
  await rig.reply();
  rig.sounding = [{ id: "a1", playedMs: 420.9, receivedMs: 1000, gaps: 0, gapMs: 0 }];
  rig.event("input_audio_buffer.speech_started", { item_id: "u2" });
  const truncate = rig.sent.find((event) => event.type === "conversation.item.truncate");
  assert.deepEqual([truncate.item_id, truncate.content_index, truncate.audio_end_ms], ["a1", 0, 420]);
  assert.deepEqual(rig.takeSent(), ["antiphon.playback.report", "conversation.item.truncate"]);
  assert.equal(rig.assistant.facts().turns[0].interrupted, true);
  const before = rig.played.length;
  rig.sound();
  assert.equal(rig.played.length, before, "audio of the cut reply is not played");
  assert.equal(rig.assistant.status, "hearing");
});

test("the button cancels a reply in the making, then tells what was heard", async () => {
  await rig.reply();
  rig.sounding = [{ id: "a1", playedMs: 100, receivedMs: 1000, gaps: 0, gapMs: 0 }];
  rig.assistant.interrupt();
  assert.deepEqual(rig.takeSent(), ["response.cancel", "antiphon.playback.report", "conversation.item.truncate"]);
  rig.assistant.interrupt();
  assert.deepEqual(rig.takeSent(), []);
});

test("a reply that only plays is truncated without a cancel", async () => {
  await rig.reply();
  rig.event("response.done", { response: { id: "r1", status: "completed", output: [{ id: "a1" }] } });
  rig.sounding = [{ id: "a1", playedMs: 100, receivedMs: 1000, gaps: 0, gapMs: 0 }];
  rig.assistant.interrupt();
  assert.deepEqual(rig.takeSent(), ["antiphon.playback.report", "conversation.item.truncate"]);
});

test("with confirmed interruption the server decides", async () => {
  await rig.reply();
  rig.event("session.updated", { session: { audio: { input: { turn_detection: { type: "server_vad", interruption: "confirmed" } } } } });
  rig.sounding = [{ id: "a1", playedMs: 100, receivedMs: 1000, gaps: 0, gapMs: 0 }];
  rig.event("input_audio_buffer.speech_started", { item_id: "u2" });
  rig.event("antiphon.output_audio_buffer.ducked");
  assert.deepEqual(rig.takeSent(), []);
  rig.event("antiphon.output_audio_buffer.resumed");
  assert.deepEqual(rig.played.slice(-2), [["duck", true], ["duck", false]]);
  rig.event("response.done", { response: { id: "r1", status: "cancelled" } });
  assert.deepEqual(rig.takeSent(), ["antiphon.playback.report", "conversation.item.truncate"]);
});

test("latency is measured from the end of speech, without the silence waited for", async () => {
  await rig.assistant.start();
  rig.connect();
  rig.speak(100);
  rig.event("input_audio_buffer.speech_started", { item_id: "u1" });
  rig.event("input_audio_buffer.speech_stopped", { item_id: "u1", audio_end_ms: 2000 });
  rig.event("response.created", { response: { id: "r1" } });
  rig.sound();
  rig.speaker.onStarted("a1", 2.3);
  assert.equal(rig.assistant.facts().turns[0].latencyMs, 800, "spoken until 1.5 s, heard at 2.3 s");
});

test("words turn heard by the ear, reports follow the loudspeaker", async () => {
  await rig.reply();
  rig.event("response.output_audio_transcript.delta", { response_id: "r1", item_id: "a1", delta: "Good day" });
  rig.event("antiphon.word", { response_id: "r1", item_id: "a1", word: "Good", start_ms: 0, end_ms: 200 });
  rig.position(210, 190);
  assert.equal(rig.assistant.facts().turns[0].heardWords, 0);
  assert.equal(rig.sent[0].played_ms, 210);
  rig.position(260, 240);
  assert.equal(rig.assistant.facts().turns[0].heardWords, 1);
  assert.deepEqual(rig.takeSent(), ["antiphon.playback.report"]);
});

test("a server without our extensions gets no reports", async () => {
  await rig.assistant.start();
  rig.connect({ antiphon: undefined });
  rig.event("response.created", { response: { id: "r1" } });
  rig.sound();
  rig.takeSent();
  rig.position(300);
  assert.deepEqual(rig.takeSent(), []);
});

test("holding sends what is said from just before the press until the release", async () => {
  rig = new Rig({ mode: "hold" });
  await rig.assistant.start();
  rig.connect();
  assert.equal(rig.sent[0].session.audio.input.turn_detection, null);
  rig.takeSent();
  rig.speak(10);
  assert.equal(rig.audio.length, 0);
  rig.assistant.press();
  rig.speak(20);
  assert.equal(rig.assistant.status, "hearing");
  rig.assistant.release();
  assert.equal(rig.audio.length, 21);
  assert.deepEqual(rig.takeSent(), ["input_audio_buffer.clear", "input_audio_buffer.commit", "response.create"]);
  assert.equal(rig.assistant.status, "thinking");
});

test("a press cuts the reply, and the next reply is asked for once that one has ended", async () => {
  rig = new Rig({ mode: "hold" });
  await rig.reply();
  rig.sounding = [{ id: "a1", playedMs: 50, receivedMs: 1000, gaps: 0, gapMs: 0 }];
  rig.assistant.press();
  rig.speak(20);
  rig.assistant.release();
  const sent = rig.takeSent();
  assert.deepEqual(sent.filter((type) => !type.startsWith("antiphon")),
    ["response.cancel", "conversation.item.truncate", "input_audio_buffer.clear", "input_audio_buffer.commit"]);
  rig.event("response.done", { response: { id: "r1", status: "cancelled" } });
  assert.deepEqual(rig.takeSent(), ["response.create"]);
});

test("a slip of the finger is cleared, not sent", async () => {
  rig = new Rig({ mode: "hold" });
  await rig.assistant.start();
  rig.connect();
  rig.takeSent();
  rig.assistant.press();
  rig.speak(3);
  rig.assistant.release();
  assert.deepEqual(rig.takeSent(), ["input_audio_buffer.clear", "input_audio_buffer.clear"]);
  assert.equal(rig.notices.at(-1), "held-too-short");
});

test("a press that is never released ends by itself", async () => {
  rig = new Rig({ mode: "hold" });
  await rig.assistant.start();
  rig.connect();
  rig.assistant.press();
  rig.speak(6100);
  assert.equal(rig.assistant.held, false);
  assert.equal(rig.audio.length, 6001);
});

test("muting sends silence, so that the turn still ends", async () => {
  await rig.assistant.start();
  rig.connect();
  rig.assistant.toggleMute();
  rig.speak(2);
  assert.deepEqual(rig.audio.map((samples) => [samples.length, samples[0]]), [[480, 0], [480, 0]]);
});

test("errors that mean nothing to a person stay quiet, others are told", async () => {
  await rig.assistant.start();
  rig.connect();
  const before = rig.notices.length;
  rig.event("error", { error: { code: "response_cancel_not_active", message: "no" } });
  rig.event("error", { error: { code: "invalid_value", event_id: "truncate_4", message: "no" } });
  assert.equal(rig.notices.length, before);
  rig.event("error", { error: { code: "cannot_update_voice", message: "no" } });
  rig.event("error", { error: { code: "invalid_value", message: "no" } });
  assert.deepEqual(rig.notices.slice(before), ["voice-later", "server-error"]);
});

test("a reply asked for while another runs is asked for again afterwards", async () => {
  await rig.assistant.start();
  rig.connect();
  rig.event("response.created", { response: { id: "r1" } });
  rig.takeSent();
  rig.event("error", { error: { code: "conversation_already_has_active_response", event_id: "create_1" } });
  rig.event("response.done", { response: { id: "r1", status: "completed", output: [] } });
  assert.deepEqual(rig.takeSent(), ["response.create"]);
});

test("a lost connection stops the reply, and the next session starts clean", async () => {
  await rig.reply();
  rig.sounding = [{ id: "a1", playedMs: 50, receivedMs: 1000, gaps: 0, gapMs: 0 }];
  rig.lose();
  assert.equal(rig.assistant.status, "disconnected");
  assert.equal(rig.notices.at(-1), "link-lost");
  assert.equal(rig.assistant.facts().turns[0].interrupted, true);
  rig.takeSent();
  rig.connect();
  assert.deepEqual(rig.takeSent(), ["session.update"]);
  assert.equal(rig.assistant.status, "listening");
  assert.equal(rig.assistant.clock.sentMs, 0);
});

test("stopping lets go of everything", async () => {
  await rig.reply();
  rig.assistant.stop();
  assert.deepEqual([rig.assistant.status, rig.microphone.isOpen], ["idle", false]);
});

/** A session of a server that can do binary audio, and one in which it does. */
const OFFERED = { voices: [], binary_audio: false, binary_format: "pcm16" };
const agreed = (format) => ({ voices: [], binary_audio: true, binary_format: format });

/** The formats that were asked for since the last call. */
function takeAsked() {
  const asked = rig.sent.flatMap(({ session }) => session?.antiphon ?? []);
  rig.takeSent();
  return asked;
}

test("binary audio is asked for where it is offered, and used once it is agreed", async () => {
  await rig.assistant.start();
  rig.connect({ antiphon: OFFERED });
  assert.deepEqual(takeAsked(), [{ binary_audio: true, binary_format: "pcm16" }]);
  assert.deepEqual(rig.formats, []);
  rig.event("session.updated", { session: { antiphon: OFFERED } });
  rig.event("session.updated", { session: { antiphon: agreed("pcm16") } });
  assert.deepEqual(rig.formats, [null, "pcm16"]);
});

test("a server that does not offer it is not asked, nor is one when the page wants none", async () => {
  await rig.assistant.start();
  rig.connect();
  rig.event("session.updated", { session: {} });
  assert.deepEqual([takeAsked(), rig.formats], [[], [null]]);
  rig = new Rig({}, null);
  await rig.assistant.start();
  rig.connect({ antiphon: OFFERED });
  assert.deepEqual(takeAsked(), []);
});

test("a server without Opus is asked for samples, quietly; one that refuses those gets base64", async () => {
  rig = new Rig({}, "opus");
  await rig.assistant.start();
  rig.connect({ antiphon: OFFERED });
  const before = rig.notices.length;
  const refuse = () => rig.event("error", { error: { code: "invalid_value", event_id: rig.sent.at(-1).event_id, message: "no" } });
  refuse();
  assert.deepEqual(takeAsked().map((one) => one.binary_format), ["opus", "pcm16"]);
  rig.event("error", { error: { code: "invalid_value", event_id: "audio_2", message: "no" } });
  assert.deepEqual([takeAsked(), rig.notices.length], [[], before]);
  assert.deepEqual(rig.formats, []);
});

test("when this browser's Opus fails, samples are asked for, once", async () => {
  rig = new Rig({}, "opus");
  await rig.assistant.start();
  rig.connect({ antiphon: OFFERED });
  rig.event("session.updated", { session: { antiphon: agreed("opus") } });
  takeAsked();
  rig.trouble();
  rig.trouble();
  assert.deepEqual(takeAsked(), [{ binary_audio: true, binary_format: "pcm16" }]);
  rig.event("session.updated", { session: { antiphon: agreed("pcm16") } });
  assert.deepEqual(rig.formats, ["opus", "pcm16"]);
});

test("reports stand still with the sound", async () => {
  await rig.reply();
  rig.position(300);
  rig.takeSent();
  rig.context.state = "suspended";
  rig.context.onstatechange();
  assert.deepEqual(rig.sent.map((one) => one.played_ms), [300]);
  rig.timers.shift()();
  assert.deepEqual(rig.sent.map((one) => one.played_ms), [300, 300]);
  rig.context.state = "running";
  rig.context.onstatechange();
  rig.timers.shift()();
  assert.equal(rig.sent.length, 2);
});

test("a conversation that was ended has no playback that stands still", async () => {
  await rig.reply();
  rig.position(300);
  rig.assistant.stop();
  rig.takeSent();
  rig.context.state = "suspended";
  rig.context.onstatechange();
  assert.deepEqual([rig.sent, rig.timers], [[], []]);
});

test("what the debug panel shows is told as it happens", async () => {
  await rig.reply();
  rig.position(300);
  rig.event("antiphon.response.metrics", { response_id: "r1", ttfa_ms: 4 });
  rig.sounding = [{ id: "a1", playedMs: 310, receivedMs: 1000, gaps: 0, gapMs: 0 }];
  rig.assistant.interrupt();
  assert.deepEqual(rig.traced.map(([kind]) => kind), ["chunk", "first", "buffer", "metrics", "cut"]);
  assert.deepEqual(rig.traced[0][1], { ms: 1000 });
  assert.deepEqual(rig.traced[1][1], { ms: 0 });
  assert.deepEqual(rig.traced[2][1], { id: "a1", ms: 700, gaps: 0, gapMs: 0 });
});
