import assert from "node:assert/strict";
import { test } from "node:test";
import { Conversation } from "../../../web/static/conversation.js";

/** A conversation after these events, each [type, fields]. */
function after(...events) {
  const conversation = new Conversation();
  feed(conversation, ...events);
  return conversation;
}

function feed(conversation, ...events) {
  for (const [type, fields] of events) conversation.handle({ type, ...fields });
}

const ASKED = [
  ["input_audio_buffer.speech_started", { item_id: "u1", audio_start_ms: 0 }],
  ["input_audio_buffer.speech_stopped", { item_id: "u1", audio_end_ms: 1000 }],
  ["input_audio_buffer.committed", { item_id: "u1" }],
];
const TRANSCRIBED = ["conversation.item.input_audio_transcription.completed", { item_id: "u1", transcript: " Hello? " }];
const CREATED = ["response.created", { response: { id: "r1" } }];

function said(text) {
  return ["response.output_audio_transcript.delta", { response_id: "r1", item_id: "a1", delta: text }];
}

function timed(word, from, to) {
  return ["antiphon.word", { response_id: "r1", item_id: "a1", word, start_ms: from, end_ms: to }];
}

function done(status = "completed", more = {}) {
  return ["response.done", { response: { id: "r1", status, output: [], ...more } }];
}

/** Audio of the reply came in; the socket hands it on without a type. */
function audio(conversation, ms) {
  conversation.onAudio({ response_id: "r1", item_id: "a1", ms });
}

/** A reply of two words, 200 ms each, wholly received. */
function replied() {
  const conversation = after(...ASKED, TRANSCRIBED, CREATED, said("Good"), said(" day."));
  feed(conversation, timed("Good", 0, 200), timed("day", 200, 400));
  audio(conversation, 400);
  feed(conversation, ["response.output_audio.done", { response_id: "r1", item_id: "a1" }], done());
  return conversation;
}

test("a turn goes from hearing to thinking, speaking, listening", () => {
  const conversation = new Conversation();
  const seen = [conversation.activity];
  const step = (...events) => {
    feed(conversation, ...events);
    seen.push(conversation.activity);
  };
  step(ASKED[0]);
  step(ASKED[1]);
  step(ASKED[2], TRANSCRIBED);
  step(CREATED, said("Good day."));
  audio(conversation, 400);
  conversation.started("a1", 5);
  step();
  step(["response.output_audio.done", { response_id: "r1", item_id: "a1" }], done());
  conversation.ended("a1");
  step();
  assert.deepEqual(seen, ["listening", "hearing", "thinking", "thinking", "thinking", "speaking", "speaking", "listening"]);
  assert.equal(conversation.turns[0].reply.status, "done");
});

test("both sides of a turn stand together, whichever text comes first", () => {
  for (const events of [[TRANSCRIBED, CREATED, said("Good day.")], [CREATED, said("Good day."), TRANSCRIBED]]) {
    const conversation = after(...ASKED, ...events);
    assert.equal(conversation.turns.length, 1);
    assert.equal(conversation.turns[0].user.text, "Hello?");
    assert.equal(conversation.turns[0].reply.text, "Good day.");
  }
});

test("latency runs from the end of speech to the first sample, once", () => {
  const conversation = after(...ASKED, CREATED, said("Good"));
  audio(conversation, 100);
  conversation.speechEnded("u1", 10);
  conversation.started("a1", 10.64);
  conversation.started("a1", 12);
  assert.equal(conversation.turns[0].reply.latencyMs, 640);
});

test("words become heard with playback, and all are heard at the end", () => {
  const conversation = replied();
  const { reply } = conversation.turns[0];
  conversation.started("a1", 1);
  conversation.heard("a1", 150);
  assert.deepEqual([reply.heard, reply.begun], [0, 1]);
  conversation.heard("a1", 260);
  assert.deepEqual([reply.heard, reply.begun], [1, 2]);
  conversation.heard("a1", 100);
  assert.equal(reply.heard, 1, "playback does not run backwards");
  conversation.ended("a1");
  assert.deepEqual([reply.heard, reply.status], [2, "done"]);
});

test("generation that is over before playback starts does not end the reply", () => {
  const conversation = replied();
  assert.equal(conversation.activity, "thinking");
  conversation.started("a1", 1);
  assert.equal(conversation.activity, "speaking");
});

test("an interruption keeps just what was heard and refuses what still comes", () => {
  const conversation = replied();
  const { reply } = conversation.turns[0];
  conversation.started("a1", 1);
  conversation.heard("a1", 190);
  conversation.interrupt();
  assert.ok(conversation.isCut("r1"));
  conversation.cut("a1", 260);
  feed(conversation, said(" More"), timed("More", 400, 500));
  conversation.heard("a1", 900);
  conversation.ended("a1");
  assert.equal(reply.interrupted, true);
  assert.deepEqual([reply.heard, reply.begun, reply.cutMs], [1, 1, 260]);
  assert.equal(reply.text, "Good day.");
  assert.equal(conversation.activity, "listening");
});

test("an interruption before the first sound leaves nothing heard", () => {
  const conversation = after(...ASKED, CREATED);
  conversation.interrupt();
  feed(conversation, done("cancelled"));
  const { reply } = conversation.turns[0];
  assert.deepEqual([reply.status, reply.heard, reply.latencyMs], ["interrupted", 0, null]);
  assert.equal(conversation.activity, "listening");
});

test("a finished reply is not interrupted by the next turn", () => {
  const conversation = replied();
  conversation.started("a1", 1);
  conversation.ended("a1");
  conversation.interrupt();
  assert.equal(conversation.turns[0].reply.status, "done");
});

test("audio of a response nobody knows is not played", () => {
  assert.ok(new Conversation().isCut("r9"));
});

test("a held turn gets its item at the commit", () => {
  const conversation = new Conversation();
  conversation.pressed();
  assert.equal(conversation.activity, "hearing");
  conversation.released(3, true);
  feed(conversation, ASKED[2], TRANSCRIBED, CREATED);
  assert.equal(conversation.turns.length, 1);
  assert.equal(conversation.turns[0].user.text, "Hello?");
  assert.equal(conversation.turns[0].endedAt, 3);
  assert.equal(conversation.turns[0].reply.responseId, "r1");
});

test("a press too short leaves no turn", () => {
  const conversation = new Conversation();
  conversation.pressed();
  conversation.released(3, false);
  assert.deepEqual(conversation.turns, []);
  assert.ok([...conversation.takeChanged()].every((turn) => turn.removed));
});

test("a typed message is answered like a spoken one, counted from its sending", () => {
  const conversation = new Conversation();
  conversation.typed("t1", "Hello", 7);
  assert.equal(conversation.activity, "thinking");
  feed(conversation, CREATED, said("Good"));
  audio(conversation, 100);
  conversation.started("a1", 7.5);
  assert.equal(conversation.turns[0].reply.latencyMs, 500);
});

test("a sound without words is not waited for", () => {
  const conversation = after(...ASKED, ["conversation.item.input_audio_transcription.completed", { item_id: "u1", transcript: "" }]);
  assert.equal(conversation.activity, "listening");
});

test("a refused request for a reply is not waited for", () => {
  const conversation = new Conversation();
  conversation.typed("t1", "Hello", 7);
  conversation.refused();
  assert.equal(conversation.activity, "listening");
});

test("a failed reply says so", () => {
  const conversation = after(...ASKED, CREATED, done("failed", { status_details: { error: { message: "No capacity." } } }));
  const { reply } = conversation.turns[0];
  assert.deepEqual([reply.status, reply.message], ["failed", "No capacity."]);
});

test("a reply in text only is done with its last event", () => {
  const conversation = after(...ASKED, CREATED,
    ["response.output_text.delta", { response_id: "r1", item_id: "a1", delta: "Yes." }],
    ["response.output_text.done", { response_id: "r1", item_id: "a1", text: "Yes." }], done());
  assert.deepEqual([conversation.turns[0].reply.status, conversation.turns[0].reply.text], ["done", "Yes."]);
});

test("the server's split is kept beside the reply, with zero for what is missing", () => {
  const conversation = after(...ASKED, CREATED,
    ["antiphon.metrics", { response_id: "r1", endpointing_ms: 200, talker_ms: null, code2wav_ms: -3, total_ms: 500 }]);
  const { totalMs, parts } = conversation.turns[0].reply.split;
  assert.equal(totalMs, 500);
  assert.deepEqual(parts.map((part) => part.ms), [200, 0, 0, 0, 0, 0]);
});

test("a lost connection closes what was open and divides the log", () => {
  const conversation = after(...ASKED, CREATED, said("Good"));
  audio(conversation, 100);
  conversation.started("a1", 1);
  conversation.breakOff("lost");
  const [turn] = conversation.turns;
  assert.deepEqual([turn.reply.status, turn.divider, conversation.activity], ["interrupted", "lost", "listening"]);
  feed(conversation, ["response.created", { response: { id: "r2" } }]);
  assert.equal(conversation.turns.length, 2);
});

test("the log is bounded and names what it let go", () => {
  const conversation = new Conversation();
  for (let i = 0; i < 205; i += 1) conversation.typed(`t${i}`, "x", 0);
  assert.equal(conversation.turns.length, 200);
  assert.equal(conversation.turns[0].user.itemId, "t5");
  assert.equal([...conversation.takeChanged()].filter((turn) => turn.removed).length, 5);
});

test("unknown events and unknown ids change nothing", () => {
  const conversation = after(["rate_limits.updated", {}], TRANSCRIBED, said("x"), timed("x", 0, 1), done(),
    ["antiphon.metrics", { response_id: "r1" }], ["toString", {}]);
  conversation.heard("a1", 5);
  conversation.started("a1", 5);
  conversation.ended("a1");
  conversation.cut("a1", 5);
  assert.deepEqual(conversation.turns, []);
  assert.equal(conversation.activity, "listening");
});
