import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { STAGES } from "../../../web/static/conversation.js";

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), "../../../web/static");
const read = (name) => readFileSync(join(ROOT, name), "utf8");
const FILES = readdirSync(ROOT, { recursive: true }).map(String);
const SCRIPTS = FILES.filter((name) => name.endsWith(".js"));
const isStudio = (name) => name.startsWith("studio");

/** Each page, with the modules that look elements up on it. */
const PAGES = [
  { page: "index.html", scripts: SCRIPTS.filter((name) => !isStudio(name)) },
  { page: "studio.html", scripts: [...SCRIPTS.filter(isStudio), "key-dialog.js"] },
].map(({ page, scripts }) => {
  const text = read(page);
  return { page, text, scripts, ids: new Set([...text.matchAll(/\sid="([^"]+)"/g)].map((match) => match[1])) };
});

test("nothing on a page or in a module comes from elsewhere, and no text becomes markup", () => {
  for (const name of [...SCRIPTS, ...FILES.filter((each) => /\.(css|html)$/.test(each))]) {
    const outside = read(name).replaceAll("http://www.w3.org/2000/svg", "");
    assert.doesNotMatch(outside, /https?:\/\/|@import|\burl\((?!#)/, name);
  }
  for (const name of SCRIPTS) {
    assert.doesNotMatch(read(name), /innerHTML|outerHTML|insertAdjacentHTML|\beval\(|new Function|document\.write/, name);
    for (const [, path] of read(name).matchAll(/from "(\.[^"]+)"/g)) {
      const target = join(dirname(name), path);
      assert.ok(FILES.includes(target), `${name} imports ${path}`);
    }
  }
  for (const [, path] of read("sound.js").matchAll(/"(worklets\/[^"]+)"/g)) assert.ok(FILES.includes(path), path);
});

for (const { page, text, scripts, ids } of PAGES) {
  test(`${page} obeys its content security policy: nothing inline`, () => {
    assert.doesNotMatch(text, /<style|\sstyle=|\son\w+=|javascript:/i);
    assert.doesNotMatch(text, /<script(?![^>]*\ssrc="static\/)/i);
    assert.doesNotMatch(text, /<script[^>]*>[^<]/i);
    for (const [, path] of text.matchAll(/(?:href|src)="static\/([^"]+)"/g)) assert.ok(FILES.includes(path), path);
  });

  test(`every element that a module looks up is on ${page}, once`, () => {
    for (const name of scripts) {
      for (const [, id] of read(name).matchAll(/byId\("([^"]+)"\)/g)) assert.ok(ids.has(id), `${name}: #${id}`);
    }
    assert.equal(ids.size, [...text.matchAll(/\sid="/g)].length);
  });

  test(`every symbol in use on ${page} is drawn`, () => {
    const sources = text + scripts.map(read).join("");
    for (const [, id] of sources.matchAll(/"#(icon-[\w-]+)"/g)) assert.ok(ids.has(id), id);
  });

  test(`every control on ${page} has a name for those who do not see it`, () => {
    for (const [tag, id] of text.matchAll(/<(?:input|select|textarea)[^>]*\sid="([^"]+)"[^>]*>/g)) {
      const wrapped = new RegExp(`<label[^>]*>\\s*<(?:input|select|textarea)[^>]*\\sid="${id}"`).test(text);
      assert.ok(wrapped || text.includes(`for="${id}"`), tag);
    }
    for (const [button] of text.matchAll(/<button[\s\S]*?<\/button>/g)) {
      const said = button.replace(/<[^>]+>/g, "").trim();
      assert.ok(said || /aria-label="[^"]+"/.test(button), button);
    }
  });
}

/** Relative luminance and contrast as WCAG 2 defines them. */
function luminance(hex) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
    .map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one, other) {
  const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

const STYLE = read("style.css");
const colors = (css) => Object.fromEntries([...css.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6});/g)].map((match) => match.slice(1)));
const LIGHT = colors(STYLE.slice(0, STYLE.indexOf("@media")));
const DARK = { ...LIGHT, ...colors(STYLE.match(/prefers-color-scheme: dark\) \{\s*:root \{([^}]+)/)[1]) };

for (const [name, scheme] of [["light", LIGHT], ["dark", DARK]]) {
  test(`text has a contrast of at least 4.5 in the ${name} scheme`, () => {
    const pairs = [
      ["ink", "paper"], ["ink-soft", "paper"], ["ink-soft", "sheet"], ["call", "paper"],
      ["response", "paper"], ["response", "sheet"], ["ink", "glow"], ["warn", "paper"],
      ["dock-ink", "dock"], ["dock-soft", "dock"], ["dock-soft", "dock-raised"],
      ["dock-call", "dock"], ["dock-response", "dock"], ["dock-call", "dock-raised"], ["call", "sheet"], ["warn", "sheet"],
    ];
    for (const [front, back] of pairs) {
      const ratio = contrast(scheme[front], scheme[back]);
      assert.ok(ratio >= 4.5, `${front} on ${back}: ${ratio.toFixed(2)}`);
    }
  });
}

test("every part of the latency bar has a colour", () => {
  const count = STAGES.length + 1;
  for (let index = 0; index < count; index += 1) assert.ok(LIGHT[`stage-${index}`], `stage ${index}`);
  assert.equal(STYLE.includes(`.stage-${count} `), false);
});
