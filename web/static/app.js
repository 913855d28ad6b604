/** The page: joins the assistant with the document. */
import { Assistant } from "./assistant.js";
import { chooseFormat } from "./audio-format.js";
import { Microphone } from "./audio-in.js";
import { Player } from "./audio-out.js";
import { KeyDialog } from "./key-dialog.js";
import { bindKeys } from "./keys.js";
import { Link } from "./link.js";
import { notice } from "./notices.js";
import { offersOpus } from "./opus.js";
import * as store from "./settings.js";
import { SettingsPanel } from "./settings-panel.js";
import { makeContext } from "./sound.js";
import { Stave } from "./stave.js";
import { LogView } from "./view.js";

const STATUS_TEXT = {
  idle: "Press to start talking",
  connecting: "Connecting",
  loading: "Loading models",
  listening: "Listening",
  hearing: "Hearing you",
  thinking: "Thinking",
  speaking: "Speaking – cut in any time",
  disconnected: "Disconnected",
};

const BUSY = new Set(["connecting", "loading"]);

const byId = (id) => document.getElementById(id);

const page = {
  status: byId("status"),
  talk: byId("talk"),
  talkIcon: byId("talk-icon"),
  talkLabel: byId("talk-label"),
  interrupt: byId("interrupt"),
  end: byId("end"),
  welcome: byId("welcome"),
  notice: byId("notice"),
  noticeText: byId("notice-text"),
  stages: byId("stages"),
  reconnect: byId("reconnect"),
  noticeKey: byId("notice-key"),
  announcer: byId("announcer"),
  message: byId("message"),
};

const stave = new Stave(byId("stave"), renderHalo);
const log = new LogView({
  log: byId("log"),
  scroll: byId("scroll"),
  latest: byId("to-latest"),
  announce: (text) => {
    page.announcer.textContent = text;
  },
});

const asked = new URLSearchParams(location.search);

/** Only there when it was asked for. */
let debug = null;

const assistant = new Assistant({
  settings: store.load(localStorage),
  onChange: schedule,
  onNotice: showNotice,
  onLevel: (side, level) => stave.level(side, level),
  onTrace: (kind, fields) => debug?.take(kind, fields),
  makeLink: (handlers) => new Link({ base: document.baseURI, ...handlers }),
  makeMicrophone: (handlers) => new Microphone(handlers),
  makePlayer: (handlers) => new Player(handlers),
  makeContext,
  chooseFormat: () => chooseFormat(asked.get("audio"), location.hostname, () => offersOpus()),
});
assistant.link.key = store.loadKey(sessionStorage);

const panel = new SettingsPanel(byId, {
  settings: assistant.settings,
  key: assistant.link.key,
  onSettings: (settings) => {
    store.save(localStorage, settings);
    assistant.apply(settings);
  },
  onKey: useKey,
});

const keyDialog = new KeyDialog(byId, (key) => {
  panel.showKey(key);
  useKey(key);
  assistant.start({ microphone: !assistant.microphone.isOpen });
});

function useKey(key) {
  store.saveKey(sessionStorage, key);
  assistant.link.key = key;
}

let shownNotice = "";
let scheduled = false;
let marked = null;

/** Many events may come between two frames; the page is drawn once for all of them. */
function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    render();
  });
}

function render() {
  const { status } = assistant;
  document.body.dataset.state = status;
  page.status.dataset.state = status;
  const text = statusText(status);
  if (page.status.textContent !== text) page.status.textContent = text;
  page.interrupt.disabled = !assistant.canInterrupt;
  page.end.disabled = status === "idle";
  page.welcome.hidden = assistant.conversation.turns.length > 0;
  renderTalk(status);
  renderHalo();
  log.update(assistant.conversation.takeChanged());
  panel.offer(assistant.voices, assistant.usualInstructions);
  stave.run(status !== "idle" && status !== "disconnected");
  markLatency();
}

function renderTalk(status) {
  const off = assistant.isOpen && (!assistant.microphone.isOpen || assistant.muted);
  page.talk.dataset.look = look(status, off);
  page.talk.dataset.held = String(assistant.held);
  page.talk.setAttribute("aria-pressed", String(assistant.held || (assistant.muted && off)));
  page.talkIcon.setAttribute("href", off ? "#icon-mic-off" : "#icon-mic");
  page.talkLabel.textContent = talkLabel(off);
}

/** The halo follows whoever speaks. */
function renderHalo() {
  const side = assistant.status === "speaking" ? "reply" : "mic";
  const level = assistant.isOpen ? stave.current(side) : 0;
  page.talk.style.setProperty("--level", level.toFixed(3));
}

function look(status, off) {
  if (BUSY.has(status)) return "busy";
  if (status === "thinking" || status === "speaking") return status;
  return off ? "off" : "on";
}

function talkLabel(off) {
  if (!assistant.isOpen) return "Start talking";
  if (!assistant.microphone.isOpen) return "Turn the microphone on";
  if (assistant.settings.mode === "hold") return assistant.held ? "Let go to send" : "Hold to talk";
  return off ? "Unmute the microphone" : "Mute the microphone";
}

function statusText(status) {
  if (status !== "listening") return STATUS_TEXT[status];
  if (assistant.openingMicrophone) return "Allow the microphone to talk";
  if (!assistant.microphone.isOpen) return "Type a message, or turn the microphone on";
  if (assistant.settings.mode === "hold") return "Hold the button or Space to talk";
  return assistant.muted ? "Muted – press to unmute" : "Listening";
}

/** The newest measured latency goes on the stave, once. */
function markLatency() {
  const reply = assistant.conversation.turns.at(-1)?.reply;
  if (!reply || reply === marked || reply.latencyMs === null) return;
  marked = reply;
  stave.mark(reply.latencyMs);
}

function showNotice(code, detail) {
  if (code === "clear") {
    if (shownNotice.startsWith(detail?.family ?? "")) hideNotice();
    return;
  }
  const { text, tone, stages, action } = notice(code, detail);
  shownNotice = code;
  page.notice.hidden = false;
  page.notice.dataset.code = code;
  page.notice.dataset.tone = tone;
  page.noticeText.textContent = text;
  page.stages.hidden = stages.length === 0;
  page.stages.replaceChildren(...stages.map(stageItem));
  page.reconnect.hidden = action !== "reconnect";
  page.noticeKey.hidden = action !== "key";
  if (action === "key") askKey();
}

/** A key that is set was refused. */
function askKey() {
  keyDialog.ask(assistant.link.key !== "");
}

function hideNotice() {
  shownNotice = "";
  page.notice.hidden = true;
  delete page.notice.dataset.code;
}

function stageItem([name, state]) {
  const item = document.createElement("li");
  item.textContent = `${name}: ${state}`;
  item.dataset.ready = String(state === "ready");
  return item;
}

/** The talk button outside hold mode, and whatever else starts a conversation. */
function talk() {
  if (BUSY.has(assistant.status)) return;
  if (!assistant.isOpen) assistant.start();
  else if (!assistant.microphone.isOpen) assistant.openMicrophone();
  else if (assistant.settings.mode === "open") assistant.toggleMute();
  else if (assistant.held) assistant.release();
  else assistant.press();
}

bindKeys({
  button: page.talk,
  isHold: () => assistant.settings.mode === "hold",
  isBlocked: () => panel.isOpen || keyDialog.isOpen,
  onPress: () => (assistant.isOpen && assistant.microphone.isOpen ? assistant.press() : talk()),
  onRelease: () => assistant.release(),
  onClick: talk,
  onEscape: () => assistant.interrupt(),
});

page.interrupt.addEventListener("click", () => assistant.interrupt());
page.end.addEventListener("click", () => assistant.stop());
page.reconnect.addEventListener("click", () => assistant.start({ microphone: !assistant.microphone.isOpen }));
page.noticeKey.addEventListener("click", askKey);
byId("dismiss").addEventListener("click", hideNotice);
byId("compose").addEventListener("submit", (event) => {
  event.preventDefault();
  assistant.sendText(page.message.value);
  page.message.value = "";
});
for (const name of ["pointerdown", "keydown"]) {
  window.addEventListener(name, () => assistant.wake(), { capture: true });
}
window.addEventListener("pagehide", () => assistant.link.close());

Object.defineProperty(window, "antiphon", {
  value: Object.freeze({
    get state() {
      return assistant.facts();
    },
    get status() {
      return assistant.status;
    },
    get turns() {
      return assistant.facts().turns;
    },
    get playback() {
      return { ...assistant.sound.facts };
    },
  }),
});

if (asked.has("debug")) {
  import("./debug.js").then(({ DebugPanel }) => {
    debug = new DebugPanel(document.querySelector(".dock"), () => assistant.link.traffic);
  });
}
if (asked.get("autostart") === "1") page.talk.click();
render();
