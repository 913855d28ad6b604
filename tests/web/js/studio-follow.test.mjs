import assert from "node:assert/strict";
import { test } from "node:test";
import { Api, ApiError } from "../../../web/static/studio/api.js";
import { Follower, STREAMS } from "../../../web/static/studio/following.js";

/** A server whose streams tell what the test puts in, and timers that run when told. */
class World {
  constructor() {
    this.opened = [];
    this.streams = new Map();
    this.timers = [];
    this.told = [];
    this.troubles = [];
    this.polls = 0;
    this.follower = new Follower({
      api: this,
      later: (call, ms) => this.timers.push({ call, ms }),
      onJob: (job) => this.told.push(job),
      onPreview: (id, at, url) => this.told.push({ id, at, url }),
      onGone: (id) => this.told.push({ gone: id }),
      onTrouble: (error) => this.troubles.push(error),
      onPoll: async () => {
        this.polls += 1;
      },
    });
  }

  async *events(id, lastId, signal) {
    this.opened.push([id, lastId]);
    const queue = { items: [], wake: () => {} };
    this.streams.set(id, queue);
    signal.addEventListener("abort", () => queue.wake());
    while (!signal.aborted) {
      const item = queue.items.shift();
      if (item instanceof Error) throw item;
      if (item) yield item;
      else await new Promise((resolve) => (queue.wake = resolve));
    }
  }

  async tell(id, item) {
    const queue = this.streams.get(id);
    queue.items.push(item);
    queue.wake();
    await this.settle();
  }

  async settle() {
    for (let turn = 0; turn < 20; turn += 1) await null;
  }

  async tick() {
    for (const { call } of this.timers.splice(0)) call();
    await this.settle();
  }
}

const progress = (id, version) => ({ name: "job.progress", id: String(version), data: { id, state: "in_progress", version } });
const done = (id) => ({ name: "job.completed", id: "9", data: { id, state: "completed", version: 9 } });

test("a few jobs are streamed, the rest polled, and the next takes a free place", async () => {
  const world = new World();
  world.follower.want(["a", "b", "c", "d"]);
  await world.settle();
  assert.equal(STREAMS, 3);
  assert.deepEqual(world.opened.map(([id]) => id), ["a", "b", "c"]);
  await world.tick();
  assert.equal(world.polls, 1);
  await world.tell("b", done("b"));
  assert.deepEqual(world.told, [done("b").data]);
  assert.deepEqual(world.opened.map(([id]) => id), ["a", "b", "c", "d"]);
  await world.tick();
  await world.tick();
  assert.equal(world.polls, 2, "all are streamed by now");
});

test("a stream that breaks goes on where it was", async () => {
  const world = new World();
  world.follower.want(["a"]);
  await world.settle();
  await world.tell("a", progress("a", 4));
  await world.tell("a", new TypeError("network"));
  assert.equal(world.troubles.length, 1);
  await world.tick();
  assert.deepEqual(world.opened, [["a", ""], ["a", "4"]]);
  await world.tell("a", progress("a", 5));
  assert.deepEqual(world.troubles.slice(1), [null]);
  assert.deepEqual(world.told.map(({ version }) => version), [4, 5]);
});

test("a job that is gone is told once, and not asked for again", async () => {
  const world = new World();
  world.follower.want(["a", "b"]);
  await world.settle();
  await world.tell("a", new ApiError("no", { status: 404 }));
  await world.tell("b", { name: "job.deleted", id: "", data: { id: "b" } });
  await world.tick();
  assert.deepEqual(world.told, [{ gone: "a" }, { gone: "b" }]);
  assert.equal(world.opened.length, 2);
});

test("what is no longer wanted is let go", async () => {
  const world = new World();
  world.follower.want(["a"]);
  await world.settle();
  world.follower.close();
  await world.settle();
  assert.equal(world.follower.streams.size, 0);
});

test("the server is asked with the key, and its refusals are told", async () => {
  const asked = [];
  const answers = [
    new Response('{"data": [1]}'),
    new Response('{"error": {"code": "queue_full", "message": "full", "param": null}}', { status: 429 }),
    new Response("<html>", { status: 502 }),
    new TypeError("network"),
  ];
  const api = new Api("http://h/studio", async (url, options) => {
    asked.push([String(url), options]);
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  });
  api.key = "sk-1";
  assert.deepEqual(await api.models(), [1]);
  assert.equal(asked[0][0], "http://h/v1/models");
  assert.equal(asked[0][1].headers.Authorization, "Bearer sk-1");
  await assert.rejects(api.make({ prompt: "x" }, "k"), { status: 429, code: "queue_full", message: "full" });
  assert.equal(asked[1][1].headers["Idempotency-Key"], "k");
  await assert.rejects(api.jobs(), { status: 502 });
  await assert.rejects(api.jobs(), { status: 0 });
});
