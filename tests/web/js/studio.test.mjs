import assert from "node:assert/strict";
import { test } from "node:test";
import { bodyOf, fault, fitted, makers, settingsOf, shapeOf, shaped, usual } from "../../../web/static/studio/asking.js";
import { callsOf } from "../../../web/static/studio/calls.js";
import { EventStream } from "../../../web/static/studio/event-stream.js";
import { compared, duration, standing, summary } from "../../../web/static/studio/facts.js";
import { failure, problem } from "../../../web/static/studio/problems.js";
import { Wall } from "../../../web/static/studio/wall.js";

const CARD = {
  id: "draw",
  capabilities: ["image"],
  inputs: [[], ["image"], ["image", "mask"]],
  strength: true,
  negative_prompt: true,
  adapters: ["sketch"],
  defaults: { size: "64x64", steps: 20, guidance: 7.5 },
  limits: { multiple_of: 8, pixels: 128 * 128, steps: 50, guidance: 20, prompt_chars: 100 },
};
const CLIPS = {
  ...CARD,
  id: "move",
  capabilities: ["video"],
  inputs: [["image"]],
  strength: false,
  negative_prompt: false,
  adapters: [],
  frames: { default: 17, every: 4, most: 81, per_second: 8 },
};
const [DRAW, MOVE] = makers([{ id: "voice", capabilities: ["realtime"] }, CARD, CLIPS]);

const TASK = {
  kind: "image", model: "draw", prompt: "a cat", negative_prompt: "", width: 64, height: 64, steps: 20,
  guidance: 7.5, seed: 7, frames: 1, frames_per_second: 0, inputs: {}, strength: 1, adapters: {},
};

function job(id, changes = {}, task = {}) {
  return { id, kind: "image", state: "queued", version: 1, progress: 0, step_ms: 0, remaining_ms: null, tasks: [{ ...TASK, ...task }], ...changes };
}

test("models that make nothing are left out, the others say what they take", () => {
  assert.deepEqual([DRAW.name, DRAW.kind, DRAW.takesPicture, DRAW.needsPicture], ["draw", "image", true, false]);
  assert.deepEqual([MOVE.name, MOVE.kind, MOVE.takesPicture, MOVE.needsPicture], ["move", "video", true, true]);
});

test("shapes keep about the pixels of the model's own size, in its steps", () => {
  assert.deepEqual(shaped("wide", DRAW), { width: 80, height: 56 });
  assert.deepEqual(shaped("tall", DRAW), { width: 56, height: 80 });
  assert.equal(shapeOf({ width: 80, height: 56 }, DRAW), "wide");
  assert.equal(shapeOf({ width: 96, height: 96 }, DRAW), "own");
});

test("a request says what was chosen, and nothing that the model does not heed", () => {
  const picture = { url: "data:image/png;base64,AA", name: "a.png" };
  const said = { ...usual(DRAW), prompt: " a cat ", negative: "dogs", count: 3, seed: 0, adapters: { sketch: 0.5 }, picture };
  assert.deepEqual(bodyOf(said, DRAW), {
    kind: "image", model: "draw", prompt: "a cat", size: "64x64", steps: 20, guidance: 7.5, seed: 0,
    negative_prompt: "dogs", n: 3, adapters: { sketch: 0.5 }, image: picture.url, strength: 0.8,
  });
  assert.deepEqual(bodyOf(fitted({ ...said, model: "draw" }, MOVE), MOVE), {
    kind: "video", model: "move", prompt: "a cat", size: "64x64", steps: 20, guidance: 7.5, seed: 0,
    frames: 17, frames_per_second: 8, image: picture.url,
  });
});

test("settings from elsewhere are made to fit", () => {
  const odd = { model: "draw", prompt: "x".repeat(200), steps: 900, guidance: -1, width: 61, height: "a", seed: 2 ** 40, count: 99, adapters: { gone: 1 } };
  const fit = fitted(odd, DRAW);
  assert.deepEqual([fit.prompt.length, fit.steps, fit.guidance, fit.width, fit.height, fit.seed, fit.count], [100, 50, 0, 64, 64, null, 10]);
  assert.deepEqual(fit.adapters, {});
  assert.deepEqual(fitted(null, DRAW), usual(DRAW));
});

test("what would be refused is told before it is sent", () => {
  const good = { ...usual(DRAW), prompt: "a cat" };
  assert.equal(fault(good, DRAW), null);
  assert.equal(fault({ ...good, prompt: "  " }, DRAW).field, "prompt");
  assert.match(fault({ ...good, width: 264 }, DRAW).text, /at most 16,384 pixels/);
  assert.match(fault({ ...good, width: 60 }, DRAW).text, /steps of 8/);
  assert.equal(fault({ ...usual(MOVE), prompt: "a cat" }, MOVE).field, "picture");
});

test("a picture's settings, asked for again, are the same", () => {
  const made = job("a", {}, { negative_prompt: "dogs", width: 96, seed: 4_000_000_000, adapters: { sketch: 0.5 } });
  const body = bodyOf(fitted(settingsOf(made, 0), DRAW), DRAW);
  assert.deepEqual(body, {
    kind: "image", model: "draw", prompt: "a cat", size: "96x64", steps: 20, guidance: 7.5, seed: 4_000_000_000,
    negative_prompt: "dogs", adapters: { sketch: 0.5 },
  });
});

test("events are read in whatever pieces they come", () => {
  const text = ': hello\r\n\r\nevent: job.progress\nid: 3\ndata: {"a":\ndata: 1}\n\ndata:x\n\nevent: none\n\n';
  for (const size of [1, 2, 7, text.length]) {
    const stream = new EventStream();
    const events = [];
    for (let at = 0; at < text.length; at += size) events.push(...stream.push(text.slice(at, at + size)));
    assert.deepEqual(events, [
      { name: "job.progress", data: '{"a":\n1}', id: "3" },
      { name: "message", data: "x", id: "3" },
    ]);
  }
  assert.throws(() => new EventStream().push("data: " + "x".repeat(2 << 20)), RangeError);
});

test("the wall holds the newest truth, the newest first", () => {
  const wall = new Wall();
  wall.putOlder([job("b"), job("a")], 0);
  wall.put(job("c", { tasks: [TASK, TASK] }), 10);
  assert.deepEqual(wall.tiles().map(({ key }) => key), ["c/0", "c/1", "b/0", "a/0"]);
  wall.put(job("b", { state: "in_progress", version: 3, progress: 50 }), 20);
  wall.put(job("b", { version: 2 }), 30);
  assert.equal(wall.jobs.get("b").progress, 50);
  assert.deepEqual(wall.unfinished().map(({ id }) => id), ["b", "a", "c"]);
  wall.preview("b", 0, "data:1");
  wall.put(job("b", { state: "completed", version: 4 }), 40);
  wall.preview("b", 0, "data:2");
  assert.equal(wall.previews.size, 0);
  wall.remove("c");
  assert.deepEqual(wall.order, ["b", "a"]);
});

test("jobs of other windows come in front; those of pages that were not loaded wait for them", () => {
  const wall = new Wall();
  wall.putNewest([job("c"), job("b")], 0);
  wall.putNewest([job("e"), job("d"), job("c"), job("b", { version: 2, state: "failed" }), job("a")], 0);
  assert.deepEqual(wall.order, ["e", "d", "c", "b"]);
  assert.equal(wall.jobs.get("b").state, "failed");
});

test("what waits says for what", () => {
  const wall = new Wall();
  wall.putOlder([job("b"), job("a")], 0);
  const said = (id, now) => standing(wall.jobs.get(id), wall.survey(now)(wall.jobs.get(id)));
  assert.deepEqual([said("a", 1000), said("b", 1000), said("b", 6000)], ["Waiting", "Waiting, 1 before it", "Waiting for a worker"]);
  assert.match(said("a", 6000), /^Waiting for a worker\. .* start “antiphon worker”/);
  wall.put(job("a", { state: "in_progress", version: 2, progress: 40, remaining_ms: 8200 }), 7000);
  assert.deepEqual([said("a", 7000), said("b", 60_000)], ["40 %, 8 s left", "Waiting"]);
  wall.stopping.add("a");
  assert.equal(said("a", 7000), "Stopping");
  wall.put(job("a", { state: "cancelled", version: 3 }), 7000);
  assert.equal(wall.stopping.size, 0);
  wall.put(job("a", { state: "in_progress", version: 4, progress: 40, remaining_ms: 8200 }), 7000);
  const around = wall.survey(60_000);
  assert.equal(summary([...wall.jobs.values()], around), "1 under way, 1 waiting");
  assert.equal(summary([wall.jobs.get("a")], around), "1 under way, about 8 s");
  assert.equal(summary([wall.jobs.get("b")], around), "Waiting for a worker");
  assert.equal(summary([wall.jobs.get("b")], wall.survey(4000)), "1 waiting");
  assert.deepEqual([duration(10), duration(150_000), duration(2.5 * 3600_000)], ["1 s", "3 min", "2 h 30 min"]);
});

test("two pictures are compared setting by setting", () => {
  const rows = compared({ job: job("a"), at: 0 }, { job: job("b", {}, { seed: 8, negative_prompt: "dogs" }), at: 0 });
  assert.deepEqual(rows.filter(({ differs }) => differs), [
    { label: "Seed", first: "7", second: "8", differs: true },
    { label: "Left out", first: "–", second: "dogs", differs: true },
  ]);
});

test("the API call makes the same again, and never holds a key", () => {
  const made = job("a", {}, { prompt: "a cat's \"hat\"", seed: 9 });
  const { curl, python } = callsOf(made, 0, { base: "http://h:1/", keyed: true, strength: true });
  assert.match(curl, /^curl -s 'http:\/\/h:1\/v1\/images\/generations'/);
  assert.match(curl, /"prompt":"a cat'\\''s \\"hat\\""/);
  assert.match(curl, /Bearer \$ANTIPHON_API_KEY/);
  assert.match(python, /client\.images\.generate\(\n {4}model="draw",\n {4}prompt="a cat's \\"hat\\"",/);
  assert.match(python, /extra_body=\{"steps": 20, "guidance": 7.5, "seed": 9\}/);
  const clip = job("v", { kind: "video" }, { model: "move", frames: 17, frames_per_second: 8, inputs: { image: "k" } });
  const calls = callsOf(clip, 0, { base: "http://h:1/", keyed: false, strength: false });
  assert.match(calls.curl, /v1\/videos\/sync'[^]*--form-string 'frames=17'[^]*-F input_reference=@picture\.png[^]*-o clip\.mp4$/);
  assert.doesNotMatch(calls.curl, /strength|Authorization/);
  assert.match(calls.python, /create_and_poll\([^]*input_reference=open\("picture\.png", "rb"\)/);
});

test("errors say what to do", () => {
  assert.equal(problem({ status: 401, code: "invalid_api_key", message: "" }).action, "key");
  assert.equal(problem({ status: 0 }).action, "again");
  assert.match(problem({ status: 429, code: "queue_full", message: "full" }).text, /cancel what you no longer need/);
  assert.deepEqual(problem({ status: 400, code: "invalid_value", message: "size: no." }), { text: "The server says: size: no.", action: null });
  assert.equal(failure(job("a", { state: "failed", error: { code: "odd", message: "it broke" } })), "It broke");
  assert.equal(failure(job("a", { state: "cancelled" })), "Cancelled.");
});
