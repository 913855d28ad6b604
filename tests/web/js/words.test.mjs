import assert from "node:assert/strict";
import { test } from "node:test";
import { Words } from "../../../web/static/words.js";

/** Words said one after the other, 100 ms each, with 20 ms between. */
function time(words, ...texts) {
  texts.forEach((text, i) => words.time(text, i * 120, i * 120 + 100));
}

test("a word is heard when its end was played, and begun when its start was", () => {
  const words = new Words();
  words.append("One two three");
  words.finish("One two three");
  time(words, "One", "two", "three");
  assert.deepEqual([0, 99, 100, 121, 219, 220, 340].map((ms) => words.heardAt(ms)), [0, 0, 1, 1, 1, 2, 3]);
  assert.deepEqual([0, 1, 119, 121, 241].map((ms) => words.begunAt(ms)), [0, 1, 1, 2, 3]);
});

test("text and times may come in any order and cut", () => {
  const text = "Well, it's a long-ish story.";
  const orders = [
    ["w0", "w1", "w2", "w3", "w4", "text"],
    ["text", "w0", "w1", "w2", "w3", "w4"],
    ["w0", "text", "w1", "w2", "w3", "w4"],
  ];
  for (const order of orders) {
    const words = new Words();
    for (const step of order) {
      if (step === "text") for (const letter of text) words.append(letter);
      else {
        const i = Number(step[1]);
        words.time(["well", "it's", "a", "long-ish", "story"][i], i * 100, i * 100 + 100);
      }
    }
    words.finish(text);
    assert.deepEqual(words.list.map((word) => word.endMs), [100, 200, 300, 400, 500], order.join());
  }
});

test("a word that has not grown to its end is not taken for another", () => {
  const words = new Words();
  words.time("the", 0, 100);
  words.time("then", 100, 200);
  words.append("the the");
  words.append("n");
  words.finish("the then");
  assert.deepEqual(words.list.map((word) => word.startMs), [0, 100]);
});

test("a word without a time of its own ends where the next one begins", () => {
  const words = new Words();
  words.finish("It costs 20 euros");
  words.time("It", 0, 90);
  words.time("costs", 100, 190);
  words.time("euros", 500, 590);
  assert.equal(words.heardAt(499), 2);
  assert.equal(words.heardAt(500), 3);
  assert.equal(words.heardAt(590), 4);
});

test("times for words that read otherwise go to the next word in turn", () => {
  const words = new Words();
  words.finish("Dr. Who");
  words.time("doctor", 0, 100);
  words.time("hoo", 100, 200);
  assert.deepEqual(words.list.map((word) => word.endMs), [100, 200]);
});

test("words not timed yet are not heard, however far playback is", () => {
  const words = new Words();
  words.append("One two three four ");
  time(words, "One", "two");
  assert.equal(words.heardAt(10000), 2);
});

test("without times the text's length stands in", () => {
  const words = new Words();
  words.append("abcd efgh");
  assert.equal(words.heardAt(4 * 65 - 1), 0);
  assert.equal(words.heardAt(4 * 65), 1);
  words.setAudioMs(900);
  assert.equal(words.heardAt(400), 1);
  assert.equal(words.heardAt(899), 1);
  assert.equal(words.heardAt(900), 2);
});

test("the final transcript has the last word", () => {
  const words = new Words();
  words.append("Two and too");
  words.finish("Two and two.");
  words.append(" more");
  assert.deepEqual(words.list.map((word) => word.text), ["Two", "and", "two."]);
});

test("a transcript without end is bounded", () => {
  const words = new Words();
  for (let i = 0; i < 5000; i += 1) words.append("word ");
  assert.ok(words.list.length <= 4000);
});
