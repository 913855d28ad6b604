import assert from "node:assert/strict";
import { test } from "node:test";
import { PlaybackReporter } from "../../../web/static/playback-report.js";

const at = (id, playedMs, gaps = 0, gapMs = 0) => ({ id, playedMs, gaps, gapMs });

function setUp() {
  const sent = [];
  const timers = [];
  const reporter = new PlaybackReporter(
    (event) => sent.push(event),
    (call, ms) => timers.push({ call, ms }),
  );
  return { sent, timers, reporter };
}

test("playback is reported every 200 ms, and at every stop", () => {
  const { sent, reporter } = setUp();
  reporter.belongs("a", "r");
  for (let i = 1; i <= 10; i += 1) reporter.at(at("a", i * 50.5), 1000, i * 0.05);
  reporter.stopped(at("a", 530.7, 2, 90.4), 0, 0.51);
  assert.deepEqual(sent.map((event) => event.played_ms), [50, 252, 454, 530]);
  assert.deepEqual(sent.at(-1), {
    type: "antiphon.playback.report",
    response_id: "r",
    played_ms: 530,
    buffered_ms: 0,
    underruns: 2,
    gap_ms: 90,
  });
});

test("the items of one response add up, the next response starts from zero", () => {
  const { sent, reporter } = setUp();
  reporter.belongs("a", "r");
  reporter.belongs("b", "r");
  reporter.belongs("c", "s");
  reporter.stopped(at("a", 300, 1, 20), 0, 1);
  reporter.at(at("b", 100), 0, 2);
  reporter.stopped(at("b", 200, 2, 50), 0, 3);
  reporter.at(at("c", 50), 0, 4);
  reporter.at(at("unknown", 50), 0, 5);
  const told = sent.map((one) => [one.response_id, one.played_ms, one.underruns, one.gap_ms]);
  assert.deepEqual(told, [["r", 300, 1, 20], ["r", 400, 1, 20], ["r", 500, 3, 70], ["s", 50, 0, 0]]);
});

test("a suspended playback is told once a second where it stands, until it runs or is cut", () => {
  const { sent, timers, reporter } = setUp();
  reporter.belongs("a", "r");
  reporter.running(false, 0.5);
  assert.deepEqual([sent, timers], [[], []], "nothing plays");
  reporter.running(true, 0.6);
  reporter.at(at("a", 300), 2000, 1);
  reporter.at(at("a", 350), 1950, 1.05);
  reporter.running(false, 1.06);
  reporter.running(false, 1.06);
  assert.deepEqual(sent.map((one) => [one.played_ms, one.buffered_ms]), [[300, 2000], [350, 1950]]);
  assert.deepEqual(timers.map(({ ms }) => ms), [1000]);
  timers.shift().call();
  assert.equal(sent.length, 3);
  reporter.stopped(at("a", 350), 0, 1.06);
  timers.shift().call();
  assert.equal(sent.length, 4);
  assert.deepEqual(timers, []);
});

test("a playback that runs again says no more about standing", () => {
  const { sent, timers, reporter } = setUp();
  reporter.belongs("a", "r");
  reporter.at(at("a", 300), 2000, 1);
  reporter.running(false, 1);
  reporter.running(true, 1);
  timers.shift().call();
  assert.equal(sent.length, 2);
  assert.deepEqual(timers, []);
});
