/** The studio: joins form, wall and server with the document. */
import { KeyDialog } from "../key-dialog.js";
import { isTyping } from "../keys.js";
import { loadKey, saveKey } from "../settings.js";
import { Acts } from "./acts.js";
import { Api } from "./api.js";
import { makers } from "./asking.js";
import { Beside } from "./beside.js";
import { Composer } from "./composer.js";
import * as drafts from "./drafts.js";
import { radios, setText } from "./elements.js";
import { summary } from "./facts.js";
import { Follower } from "./following.js";
import { Pictures } from "./pictures.js";
import { failure, problem } from "./problems.js";
import { bindShortcuts } from "./shortcuts.js";
import { Tiles } from "./tiles.js";
import { Viewer } from "./viewer.js";
import { ENDED, Wall, tileKey } from "./wall.js";

const byId = (id) => document.getElementById(id);

/** How often what waits is drawn anew, as it changes by the time that goes by. */
const TICK_MS = 1000;

/** Jobs of a page of the list, and of the one that is asked for anew. */
const PAGE = 24;
const MOST_OF_A_PAGE = 100;

const GONE = 404;

const api = new Api(document.baseURI);
api.key = loadKey(sessionStorage);
const wall = new Wall();
const pictures = new Pictures(api);
const kept = drafts.load(localStorage);

let status = "loading";
let shown = "all";
let more = false;
let loadingOlder = false;
let chosen = null;
let again = null;
let scheduled = false;

const composer = new Composer(byId, {
  onMake: (body) => acts.make(body),
  onChange: (settings) => drafts.save(localStorage, Object.assign(kept, { settings })),
});

const tiles = new Tiles(byId("wall"), { pictures, wall, onAct: act });
const beside = new Beside(byId, pictures);

const viewer = new Viewer(byId, {
  pictures,
  onAct: act,
  onTurn: turn,
  // Unless it was closed to write.
  onClosed: (key) => isTyping(document.activeElement) || tiles.focus(key),
  serverOf: (job) => ({
    base: new URL("./", document.baseURI).href,
    keyed: api.key !== "",
    strength: composer.models.find(({ name }) => name === job.tasks[0].model)?.strength === true,
  }),
  announce,
});

const acts = new Acts({
  api,
  wall,
  composer,
  onMade: (job) => {
    hideNotice();
    wall.put(job, performance.now());
    render();
    tiles.reveal(tileKey(job.id, 0));
    announce(job.tasks.length > 1 ? `${job.tasks.length} pictures asked for` : "Asked for");
    follow();
  },
  onChange: changed,
  onError: fail,
  say: (text) => notice({ text, action: null }),
  sure,
});

const follower = new Follower({
  api,
  onJob: (job) => {
    wall.put(job, performance.now());
    if (ENDED.has(job.state)) tell(job);
    changed();
  },
  onPreview: (id, at, url) => {
    wall.preview(id, at, url);
    schedule();
  },
  onGone: (id) => {
    wall.remove(id);
    changed();
  },
  onTrouble: (error) => {
    if (error) fail(error, load);
    else if (byId("notice").dataset.of === "link") hideNotice();
  },
  onPoll: askNewest,
});

const keyDialog = new KeyDialog(byId, (key) => {
  saveKey(sessionStorage, key);
  api.key = key;
  hideNotice();
  const retry = again;
  again = null;
  if (status === "idle" && retry) retry();
  else load();
});

/** Models and the newest jobs; what was loaded before stays. */
async function load() {
  try {
    const models = makers(await api.models());
    byId("without").hidden = models.length > 0;
    byId("room").dataset.without = String(models.length === 0);
    if (composer.models.length === 0) composer.offer(models, kept.settings);
    if (models.length > 0) {
      const first = wall.order.length === 0;
      const page = await api.jobs({ limit: PAGE });
      wall.putNewest(page.data, performance.now());
      if (first) more = page.has_more;
    }
    status = "idle";
    hideNotice();
    changed();
  } catch (error) {
    fail(error, load);
  }
}

async function askNewest() {
  const limit = Math.min(MOST_OF_A_PAGE, Math.max(PAGE, wall.unfinished().length));
  const page = await api.jobs({ limit });
  wall.putNewest(page.data, performance.now());
  schedule();
}

/** What others have made meanwhile, once somebody looks again. */
function look() {
  if (document.hidden || status !== "idle" || !byId("without").hidden) return;
  askNewest().then(follow, (error) => fail(error, load));
}

async function loadOlder() {
  if (loadingOlder || !more) return;
  loadingOlder = true;
  const last = wall.order.at(-1) ?? "";
  try {
    const page = await api.jobs({ after: last, limit: PAGE });
    wall.putOlder(page.data, performance.now());
    more = page.has_more && !wall.isFull;
    changed();
  } catch (error) {
    // The oldest one has expired meanwhile: the one before it is asked after next.
    if (error.status === GONE) follower.handlers.onGone(last);
    else fail(error, loadOlder);
  } finally {
    loadingOlder = false;
  }
}

function changed() {
  schedule();
  follow();
}

function follow() {
  follower.want(wall.unfinished().map(({ id }) => id));
}

/** Many events may come between two frames; the page is drawn once for all of them. */
function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(render);
}

function render() {
  scheduled = false;
  document.body.dataset.state = status;
  document.body.dataset.crisp = String(kept.crisp);
  const unfinished = wall.unfinished();
  setText(byId("standing"), summary(unfinished, wall.survey(performance.now())) || (wall.order.length > 0 ? "Nothing under way" : ""));
  byId("standing").dataset.busy = String(unfinished.length > 0);
  byId("welcome").hidden = status !== "idle" || wall.order.length > 0 || !byId("without").hidden;
  byId("older").hidden = !more;
  byId("choosing").hidden = chosen === null;
  tiles.update(shown, chosen, performance.now());
  if (viewer.isOpen) showLarge(viewer.key);
}

/** @returns {{key: string, job: object, at: number}|undefined} */
function tileOf(key) {
  return wall.tiles().find((tile) => tile.key === key);
}

function act(name, key) {
  const tile = tileOf(key);
  if (!tile) return;
  const ended = ENDED.has(tile.job.state);
  if (name === "cancel") {
    if (!ended) acts.cancel(tile);
    return;
  }
  if (name === "open") open(tile);
  else if (name === "compare") choose(tile);
  else if (name === "delete") acts.remove(tile);
  else if (name === "save" && tile.job.state === "completed") acts.save(tile);
  else if (name === "again" || name === "anew") {
    if (viewer.isOpen) viewer.close();
    if (name === "anew") acts.anew(tile);
    else acts.again(tile).then(() => byId("prompt").focus());
  }
}

function open(tile) {
  if (chosen !== null && tile.job.state === "completed") choose(tile);
  else if (ENDED.has(tile.job.state)) showLarge(tile.key);
}

/** The first one is kept until another is chosen. */
function choose(tile) {
  if (tile.job.state !== "completed") return;
  if (viewer.isOpen) viewer.close();
  const first = chosen === null ? undefined : tileOf(chosen);
  chosen = first || chosen === tile.key ? null : tile.key;
  if (first && first.key !== tile.key) beside.show(first, tile);
  else if (chosen) announce("Choose what to compare it with");
  schedule();
}

function large() {
  return wall.tiles(shown).filter(({ job }) => ENDED.has(job.state));
}

function showLarge(key) {
  const all = large();
  const at = all.findIndex((tile) => tile.key === key);
  if (at < 0) viewer.close();
  else viewer.show(all[at], { first: at === 0, last: at === all.length - 1 });
}

function turn(way) {
  const all = large();
  const next = all[all.findIndex(({ key }) => key === viewer.key) + way];
  if (next) showLarge(next.key);
}

/** @returns {Promise<boolean>} */
function sure({ job }) {
  const dialog = byId("sure");
  const count = job.tasks.length;
  const what = count > 1 ? `All ${count} pictures that were asked for together go` : "It goes";
  byId("sure-text").textContent = `${what} for good, with the settings.`;
  dialog.returnValue = "no";
  dialog.showModal();
  byId("sure-yes").focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

function tell(job) {
  const prompt = job.tasks[0].prompt;
  announce(job.state === "completed" ? `Done: ${prompt}` : `${failure(job)} ${prompt}`);
}

function announce(text) {
  byId("announcer").textContent = text;
}

/** @param {() => void} retry what to do once it may work */
function fail(error, retry) {
  again = retry;
  notice(problem(error), error.status ? "answer" : "link");
  if (problem(error).action === "key" && !keyDialog.isOpen) keyDialog.ask(api.key !== "");
}

function notice({ text, action }, of = "hint") {
  const box = byId("notice");
  box.hidden = false;
  Object.assign(box.dataset, { of, tone: of === "hint" ? "info" : "warn" });
  setText(byId("notice-text"), text);
  byId("notice-again").hidden = action !== "again";
  byId("notice-key").hidden = action !== "key";
}

function hideNotice() {
  byId("notice").hidden = true;
  delete byId("notice").dataset.of;
}

function bindPage() {
  byId("older").addEventListener("click", loadOlder);
  byId("no-choosing").addEventListener("click", () => {
    chosen = null;
    schedule();
  });
  byId("dismiss").addEventListener("click", hideNotice);
  byId("notice-again").addEventListener("click", () => {
    hideNotice();
    again?.();
  });
  for (const id of ["notice-key", "open-key"]) byId(id).addEventListener("click", () => keyDialog.ask(false));
  byId("open-keys").addEventListener("click", () => byId("keys").showModal());
  for (const each of radios("show")) {
    each.addEventListener("change", () => {
      shown = each.value;
      schedule();
    });
  }
  byId("crisp").checked = kept.crisp;
  byId("crisp").addEventListener("change", ({ target }) => {
    kept.crisp = target.checked;
    drafts.save(localStorage, kept);
    schedule();
  });
  new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && loadOlder(), { rootMargin: "400px" }).observe(byId("older"));
  document.addEventListener("visibilitychange", look);
  window.addEventListener("pagehide", () => follower.close());
  window.addEventListener("pageshow", (event) => event.persisted && load());
  setInterval(() => wall.waitingSince.size > 0 && schedule(), TICK_MS);
}

bindShortcuts({
  tile: () => (viewer.isOpen ? viewer.key : tiles.focused),
  isBlocked: () => ["sure", "keys", "compare", "ask-key"].some((id) => byId(id).open),
  isLarge: () => viewer.isOpen,
  onAct: act,
  onTurn: turn,
  anywhere: {
    "/": () => byId("prompt").focus(),
    d: () => composer.roll(),
    g: () => tiles.focus(),
    "?": () => byId("keys").showModal(),
    Escape: () => {
      chosen = null;
      schedule();
    },
  },
});

Object.defineProperty(window, "antiphon", {
  value: Object.freeze({
    get status() {
      return status;
    },
    get state() {
      return { status, shown, chosen, jobs: wall.order.length, unfinished: wall.unfinished(), following: [...follower.streams.keys()] };
    },
  }),
});

bindPage();
load();
