// RealtimeClient of `openai-realtime-api`, the published port of OpenAI's `realtime-api-beta`.
//
// Node has the WebSocket of browsers, so the client takes their way: the key and the dialect
// are asked for in subprotocols.

import { RealtimeClient } from 'openai-realtime-api';

import {
  check, checkStopped, Events, getWeather, HEARD_MS, INSTRUCTIONS, isWhole, job, LONG_QUESTION,
  Microphone, readSpeech, report, TOOL, TOOL_QUESTION, WRITTEN_QUESTION,
} from './common.mjs';

const SAMPLES_PER_MS = 24;

const client = new RealtimeClient({
  url: `${job.url.replace('http', 'ws')}/v1/realtime`,
  model: job.model,
  apiKey: 'none',
});
// Failures of the conversation's own handlers are told by console.error, in debug mode only.
client.conversation.debug = true;

const known = new Set([
  ...Object.keys(client.conversation.EventProcessors),
  'session.created', 'session.updated', 'conversation.created', 'error', 'rate_limits.updated',
  'input_audio_buffer.committed', 'input_audio_buffer.cleared', 'response.done',
  'response.content_part.done', 'response.audio.done', 'response.audio_transcript.done',
  'response.text.done', 'response.function_call_arguments.done',
  'conversation.item.input_audio_transcription.delta',
  'conversation.item.input_audio_transcription.failed',
]);

const events = new Events();
let heardMs = 0;
let told = null;

client.on('realtime.event', ({ source, event }) => {
  if (source !== 'server') return;
  if (!known.has(event.type)) report.error(`unknown event: ${event.type}`);
  if (event.type === 'error') report.error(`error: ${JSON.stringify(event.error)}`);
  events.add(event);
});
client.on('conversation.updated', ({ delta }) => {
  if (delta?.audio) heardMs += delta.audio.length / SAMPLES_PER_MS;
});
client.on('conversation.interrupted', (event) => events.add({ ...event, type: 'interrupted' }));
client.realtime.on('close', (event) => events.add(event));

// On only while somebody speaks: the client keeps all that it has sent, and copies it sample
// by sample with every piece.
const microphone = new Microphone((pcm) =>
  client.appendInputAudio(new Int16Array(new Uint8Array(pcm).buffer)),
);

async function connect() {
  client.updateSession({
    instructions: INSTRUCTIONS,
    turn_detection: { type: 'server_vad' },
    // Not the client's own 4096, which take the embedded model minutes.
    max_response_output_tokens: 'inf',
  });
  await client.connect();
  await client.waitForSessionCreated();
}

async function configure() {
  const from = events.count;
  client.addTool(TOOL, (args) => {
    // What follows is to be said, not called again.
    if (!job.scripted) client.updateSession({ tool_choice: 'none' });
    return getWeather(args);
  });
  const { session } = await events.next(
    'session.updated', from, (event) => event.session.tools.length > 0,
  );
  check(session.tools[0].name === TOOL.name, 'the tools are not echoed');
  check(session.instructions === INSTRUCTIONS, 'the instructions are not echoed');
  check(session.turn_detection.type === 'server_vad', 'turn_detection is not echoed');
  check(session.modalities.includes('audio'), 'the modalities are not echoed');
}

async function spokenTurn() {
  const from = events.count;
  microphone.on();
  microphone.say(readSpeech(job.question));
  await spoken(from);
  const { item, response } = await answer(from);
  check(item.formatted.transcript, 'the reply has no transcript');
  check(item.formatted.audio.length > 300 * SAMPLES_PER_MS, 'the reply has no audio');
  // The client adds the deltas to what the part has when it is added.
  const added = item.content[0].transcript.trim();
  const whole = response.output[0]?.content[0].transcript;
  check(added === whole, `the deltas make ${added}, the reply is ${whole}`);
}

async function transcription() {
  await events.next('conversation.item.input_audio_transcription.completed');
  const user = client.conversation.getItems().find((each) => each.role === 'user');
  check(user?.formatted.transcript.trim(), 'the question has no transcript');
  check(user.formatted.audio.length > 0, 'the question has no audio');
}

/** Waits until all that was said is a turn, and turns the microphone off. */
async function spoken(from) {
  const open = () =>
    events.of('input_audio_buffer.speech_started', from).length -
    events.of('input_audio_buffer.committed', from).length;
  await events.next('input_audio_buffer.committed', from, () => microphone.quiet && open() === 0);
  microphone.off();
}

async function textTurn() {
  const from = events.count;
  client.sendUserMessageContent([{ type: 'input_text', text: WRITTEN_QUESTION }]);
  const { item } = await answer(from);
  check(item.formatted.transcript, 'the reply has no transcript');
  const asked = client.conversation.getItems().filter((each) => each.role === 'user').at(-1);
  check(asked.formatted.text === WRITTEN_QUESTION, 'the question is not in the conversation');
}

async function toolCall() {
  const from = events.count;
  if (!job.scripted) client.updateSession({ tool_choice: { type: 'function', name: TOOL.name } });
  client.sendUserMessageContent([{ type: 'input_text', text: TOOL_QUESTION }]);
  const called = (event) => event.item.type === 'function_call';
  const { item: call } = await events.next('response.output_item.done', from, called);
  check(call.status === 'completed' && call.name === TOOL.name, JSON.stringify(call));
  // The client answers the call and asks for the next reply by itself.
  const { item } = await answer(from);
  const heard = item.formatted.transcript;
  if (job.scripted) check(heard.includes('rain'), `the output is not known: ${heard}`);
  const kept = client.conversation.getItem(call.id);
  check(kept.formatted.tool.arguments === call.arguments, 'the deltas are not the arguments');
  check(kept.arguments === call.arguments, 'the call began with arguments');
}

async function interruption() {
  const from = events.count;
  client.sendUserMessageContent([{ type: 'input_text', text: LONG_QUESTION }]);
  const before = heardMs;
  const first = await events.next('response.audio.delta', from);
  const began = performance.now();
  await events.next('response.audio.delta', from, () => heardMs - before >= HEARD_MS);
  microphone.on();
  microphone.say(readSpeech(job.interjection));
  const interrupted = await events.next('interrupted', from);
  const cut = events.all.indexOf(interrupted);
  const playedMs = Math.floor(Math.min(performance.now() - began, heardMs - before));
  tellHeard(first, playedMs);
  await spoken(from);
  const mine = (event) => event.response.id === first.response_id;
  await events.next('response.done', from, mine);
  const answered = (event) => !mine(event) && isWhole(event.response);
  await events.next('response.done', cut, answered);
  checkStopped(events, first.response_id, cut, 'response.audio.delta');
}

/** What the client's own cancelResponse() sends after its cancel, for which it is too late. */
function tellHeard({ item_id, content_index }, audio_end_ms) {
  told = { item_id, content_index, audio_end_ms };
  client.realtime.send('conversation.item.truncate', told);
}

async function truncation() {
  const truncated = await events.next('conversation.item.truncated');
  check(truncated.item_id === told.item_id, 'another item was truncated');
  check(truncated.audio_end_ms === told.audio_end_ms, 'truncated elsewhere');
  const kept = client.conversation.getItem(told.item_id).formatted.audio.length;
  check(kept <= told.audio_end_ms * SAMPLES_PER_MS, 'the client kept what was not heard');
}

async function end() {
  client.disconnect();
  await events.next('close');
}

/** The next message of the model that is whole, as the client has it, and its response. */
async function answer(from) {
  const message = ({ type }) => type === 'message';
  const { response } = await events.next(
    'response.done', from,
    ({ response: each }) => isWhole(each) && each.output.some(message),
  );
  return { item: client.conversation.getItem(response.output.find(message).id), response };
}

await report.conversation({
  connect,
  configure,
  spokenTurn,
  transcription,
  textTurn,
  toolCall,
  interruption,
  truncation,
  end,
});
report.print();
