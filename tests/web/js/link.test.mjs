import assert from "node:assert/strict";
import { test } from "node:test";
import { Link, RETRY_MS } from "../../../web/static/link.js";
import { PCM16, readFrame } from "../../../web/static/binary.js";
import { RealtimeSocket, socketUrl, subprotocols } from "../../../web/static/protocol.js";

/** A socket that a test opens, feeds and closes by hand. */
class FakeSocket {
  static all = [];

  constructor(url, protocols) {
    Object.assign(this, { url, protocols, readyState: 0, bufferedAmount: 0, sent: [], closed: null });
    FakeSocket.all.push(this);
  }

  send(text) {
    this.sent.push(text);
  }

  close(code) {
    this.closed = code;
    this.readyState = 3;
  }

  open() {
    this.readyState = 1;
  }

  receive(event) {
    this.onmessage({ data: JSON.stringify(event) });
  }

  drop(code = 1006, reason = "") {
    this.readyState = 3;
    this.onclose({ code, reason });
  }
}

const READY = { status: 200, json: async () => ({ ready: true }) };
const LOADING = { status: 503, json: async () => ({ ready: false, stages: { talker: "loading" } }) };

/** A link whose server gives `answers` in turn to plain requests, the last one for ever. */
function setUp(answers = [READY]) {
  FakeSocket.all = [];
  const states = [];
  const events = [];
  const timers = [];
  const asked = [];
  const link = new Link({
    base: "https://host/a/",
    onState: (state, detail) => states.push([state, detail]),
    onEvent: (event) => events.push(event.type),
    Socket: FakeSocket,
    fetch: async (url, options) => {
      asked.push({ url: String(url), headers: options.headers });
      const answer = answers.length > 1 ? answers.shift() : answers[0];
      if (answer instanceof Error) throw answer;
      return answer;
    },
    later: (call, ms) => timers.push({ call, ms }),
  });
  return { link, states, events, timers, asked };
}

/** Lets everything that is already decided happen. */
async function settle() {
  await new Promise((resolve) => setImmediate(resolve));
}

test("the socket lies beside the page, secure when the page is", () => {
  assert.equal(socketUrl("https://host/a/"), "wss://host/a/v1/realtime?model=antiphon&antiphon=1");
  assert.equal(socketUrl("http://localhost:80/?autostart=1#x"), "ws://localhost/v1/realtime?model=antiphon&antiphon=1");
});

test("a key travels as a subprotocol, and only one that can", () => {
  assert.deepEqual(subprotocols(""), []);
  assert.deepEqual(subprotocols("sk-1"), ["realtime", "openai-insecure-api-key.sk-1"]);
  assert.deepEqual(subprotocols("no spaces, please"), []);
});

test("an audio frame on the wire is a valid append", () => {
  const socket = new RealtimeSocket("ws://x", { onEvent() {}, onClose() {}, Socket: FakeSocket });
  assert.equal(socket.sendAudio(Int16Array.of(1, 2)), false, "not open yet");
  socket.socket.open();
  assert.equal(socket.sendAudio(Int16Array.of(1, 2)), true);
  assert.deepEqual(JSON.parse(socket.socket.sent[0]), { type: "input_audio_buffer.append", audio: "AQACAA==" });
  socket.useFormat("pcm16");
  socket.sendAudio(Int16Array.of(1, 2));
  const { kind, payload } = readFrame(socket.socket.sent[1].buffer);
  assert.deepEqual([kind, ...payload], [PCM16, 1, 0, 2, 0]);
});

test("audio that the network cannot take is dropped, not queued", () => {
  const socket = new RealtimeSocket("ws://x", { onEvent() {}, onClose() {}, Socket: FakeSocket });
  socket.socket.open();
  socket.socket.bufferedAmount = 2 << 20;
  assert.equal(socket.sendAudio(Int16Array.of(1)), false);
  assert.deepEqual([socket.socket.sent, socket.droppedFrames], [[], 1]);
});

test("every byte is counted, both ways, over all sockets", async () => {
  const { link, timers } = setUp();
  await link.open();
  const greeting = { type: "session.created", session: {} };
  const size = JSON.stringify(greeting).length;
  FakeSocket.all[0].open();
  FakeSocket.all[0].receive(greeting);
  FakeSocket.all[0].onmessage({ data: new ArrayBuffer(30) });
  link.useFormat("pcm16");
  link.sendAudio(new Int16Array(480));
  assert.deepEqual(link.traffic, { in: size + 30, out: 16 + 960 });
  FakeSocket.all[0].drop();
  await settle();
  timers.shift().call();
  await settle();
  FakeSocket.all[1].open();
  FakeSocket.all[1].receive(greeting);
  assert.equal(link.traffic.in, 2 * size + 30);
  link.sendAudio(new Int16Array(1));
  assert.equal(typeof FakeSocket.all[1].sent[0], "string", "a new session has agreed on nothing yet");
});

test("a ready server is greeted, then open", async () => {
  const { link, states, events, asked } = setUp();
  link.key = "sk-1";
  await link.open();
  const [socket] = FakeSocket.all;
  socket.open();
  socket.receive({ type: "session.created", session: { id: "s" } });
  socket.receive({ type: "session.updated" });
  assert.deepEqual(states.map(([state]) => state), ["connecting", "open"]);
  assert.deepEqual(states[1][1], { session: { id: "s" } });
  assert.deepEqual(events, ["session.created", "session.updated"]);
  assert.deepEqual(asked[0], { url: "https://host/a/readyz", headers: { Authorization: "Bearer sk-1" } });
  assert.deepEqual(socket.protocols, ["realtime", "openai-insecure-api-key.sk-1"]);
});

test("a loading server is asked again until it is ready", async () => {
  const { link, states, timers } = setUp([LOADING, LOADING, READY]);
  await link.open();
  assert.deepEqual(states.at(-1), ["loading", { stages: { talker: "loading" } }]);
  timers.shift().call();
  await settle();
  assert.equal(FakeSocket.all.length, 0);
  timers.shift().call();
  await settle();
  assert.equal(FakeSocket.all.length, 1);
});

test("a server without a readiness page is taken as ready", async () => {
  const { link } = setUp([{ status: 404 }]);
  await link.open();
  assert.equal(FakeSocket.all.length, 1);
});

test("after a loss it tries again, later each time, and gives up", async () => {
  const { link, states, timers } = setUp([new TypeError("down")]);
  await link.open();
  for (const ms of RETRY_MS) {
    assert.deepEqual(states.at(-1), ["lost", { retryMs: ms }]);
    const timer = timers.shift();
    assert.equal(timer.ms, ms);
    timer.call();
    await settle();
  }
  assert.equal(states.at(-1)[0], "gone");
  assert.deepEqual(timers, []);
});

test("a session that was there starts the waits anew", async () => {
  const { link, states, timers } = setUp();
  await link.open();
  for (let i = 0; i < 3; i += 1) {
    FakeSocket.all.at(-1).open();
    FakeSocket.all.at(-1).receive({ type: "session.created", session: {} });
    FakeSocket.all.at(-1).drop(1001);
    await settle();
    assert.deepEqual(states.at(-1), ["lost", { retryMs: RETRY_MS[0] }]);
    timers.shift().call();
    await settle();
  }
});

test("a refused key is told apart from a server that is down", async () => {
  const { link, states, timers } = setUp([READY, { status: 401 }]);
  await link.open();
  FakeSocket.all[0].drop();
  await settle();
  assert.deepEqual(states.at(-1), ["gone", { refused: true, wrong: false }]);
  assert.deepEqual(timers, []);
});

test("a session taken over elsewhere is not fought for", async () => {
  const { link, states } = setUp();
  await link.open();
  FakeSocket.all[0].open();
  FakeSocket.all[0].receive({ type: "session.created", session: {} });
  FakeSocket.all[0].drop(4001, "replaced");
  await settle();
  assert.deepEqual(states.at(-1), ["gone", { reason: "replaced", code: 4001 }]);
});

test("closing stops everything that was under way", async () => {
  const { link, states, events, timers } = setUp([new TypeError("down"), READY]);
  await link.open();
  link.close();
  timers.shift().call();
  await settle();
  assert.deepEqual([states.at(-1)[0], FakeSocket.all.length], ["closed", 0]);
  await link.open();
  const [socket] = FakeSocket.all;
  link.close();
  assert.equal(socket.closed, 1000);
  socket.receive({ type: "session.created", session: {} });
  socket.drop();
  await settle();
  assert.deepEqual([link.state, events], ["closed", []]);
});
