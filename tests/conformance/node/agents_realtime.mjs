// RealtimeSession of `@openai/agents-realtime` over its websocket transport, settings as shipped.

import { RealtimeAgent, RealtimeSession, tool } from '@openai/agents-realtime';
import { z } from 'zod';

import {
  check, checkStopped, Events, getWeather, HEARD_MS, INSTRUCTIONS, isWhole, job, LONG_QUESTION,
  Microphone, readSpeech, report, TOOL, TOOL_QUESTION, WRITTEN_QUESTION,
} from './common.mjs';

// Not exported; by its path, to see what the client drops in silence.
const { realtimeServerEventSchema } = await import(
  new URL('./openaiRealtimeEvents.mjs', import.meta.resolve('@openai/agents-realtime'))
);

const PCM_BYTES_PER_MS = 48;

const events = new Events();
let heardMs = 0;

const weather = tool({
  name: TOOL.name,
  description: TOOL.description,
  parameters: z.object({ city: z.string() }),
  execute: async (args) => {
    // What follows is to be said, not called again.
    if (!job.scripted) await choose('none');
    return getWeather(args);
  },
});
const agent = new RealtimeAgent({ name: 'guide', instructions: INSTRUCTIONS, tools: [weather] });
const session = new RealtimeSession(agent, { transport: 'websocket' });
const microphone = new Microphone((pcm) => session.sendAudio(new Uint8Array(pcm).buffer));

/** What the session itself tells, beside the raw events; named apart from them. */
const TOLD = [
  'agent_start', 'agent_end', 'agent_tool_start', 'agent_tool_end', 'audio_start',
  'audio_stopped', 'audio_interrupted', 'history_updated',
];

for (const name of TOLD) {
  session.on(name, (...told) => events.add({ type: `session:${name}`, told }));
}
session.on('audio', ({ data }) => (heardMs += data.byteLength / PCM_BYTES_PER_MS));
session.on('error', ({ error }) => report.error(`error: ${JSON.stringify(error)}`));
session.on('transport_event', (event) => {
  const { success, error } = realtimeServerEventSchema.safeParse(event);
  if (!success) report.error(`not understood: ${event.type}: ${error.message}`);
  events.add(event);
});
session.transport.on('connection_change', (status) => events.add({ type: `link:${status}` }));

async function connect() {
  const url = `${job.url.replace('http', 'ws')}/v1/realtime?model=${job.model}`;
  await session.connect({ apiKey: 'none', url });
  await events.next('session.created');
}

async function configure() {
  const configured = ({ session: told }) => told.instructions === INSTRUCTIONS;
  const { session: told } = await events.next('session.updated', 0, configured);
  check(told.tools[0]?.name === TOOL.name, 'the tools are not echoed');
  check(told.audio.input.turn_detection.type === 'semantic_vad', 'turn_detection is not echoed');
}

async function spokenTurn() {
  const from = events.count;
  microphone.on();
  microphone.say(readSpeech(job.question));
  await events.next('input_audio_buffer.speech_started', from);
  await events.next('input_audio_buffer.committed', from);
  await events.next('session:audio_start', from);
  await events.next('session:agent_end', from);
  check(heardMs > 300, `only ${heardMs} ms of audio came`);
  const reply = session.history.find((item) => item.role === 'assistant');
  check(reply && said(reply), 'the reply is not in the history');
}

async function transcription() {
  // After the transcription the client asks for the whole item.
  await events.next('conversation.item.input_audio_transcription.completed');
  await events.next('conversation.item.retrieved');
  const user = session.history.find((item) => item.role === 'user');
  check(user && said(user), 'the question is not in the history');
}

async function textTurn() {
  const from = events.count;
  session.sendMessage(WRITTEN_QUESTION);
  const { told } = await events.next('session:agent_end', from);
  check(told[2], 'the reply has no text');
  const asked = session.history.find((item) => item.content?.[0].text === WRITTEN_QUESTION);
  check(asked?.status === 'completed', 'the question is not in the history');
}

async function toolCall() {
  const from = events.count;
  // The session's own settings are sent again, with another tool_choice.
  if (!job.scripted) await choose({ type: 'function', name: TOOL.name });
  session.sendMessage(TOOL_QUESTION);
  await events.next('session:agent_tool_start', from);
  // The client answers the call and asks for the next reply by itself.
  const { told } = await events.next('session:agent_tool_end', from);
  check(told[3].includes('rain'), `the function gave ${told[3]}`);
  const after = await events.next('response.output_audio_transcript.done', from);
  await events.next('session:agent_end', events.all.indexOf(after));
  if (job.scripted) check(after.transcript.includes('rain'), `not known: ${after.transcript}`);
  const call = session.history.find((item) => item.type === 'function_call');
  check(call?.status === 'completed' && call.output, 'the call is not in the history');
}

async function choose(toolChoice) {
  const from = events.count;
  const tools = await agent.getAllTools(session.context);
  session.transport.updateSessionConfig({ instructions: INSTRUCTIONS, tools, toolChoice });
  await events.next('session.updated', from);
}

async function interruption() {
  const from = events.count;
  session.sendMessage(LONG_QUESTION);
  const before = heardMs;
  const first = await events.next('response.output_audio.delta', from);
  await events.next('response.output_audio.delta', from, () => heardMs - before >= HEARD_MS);
  microphone.say(readSpeech(job.interjection));
  const started = await events.next('input_audio_buffer.speech_started', from);
  const cut = events.all.indexOf(started);
  await events.next('session:audio_interrupted', cut);
  const mine = (event) => event.response.id === first.response_id;
  await events.next('response.done', from, mine);
  const answered = (event) => !mine(event) && isWhole(event.response);
  await events.next('response.done', cut, answered);
  checkStopped(events, first.response_id, cut, 'response.output_audio.delta');
}

async function truncation() {
  // The client tells by itself what was heard.
  const { item_id, audio_end_ms } = await events.next('conversation.item.truncated');
  check(audio_end_ms > 0, `truncated at ${audio_end_ms} ms`);
  await events.next('conversation.item.retrieved', 0, ({ item }) => item.id === item_id);
}

async function end() {
  microphone.off();
  session.close();
  await events.next('link:disconnected');
}

const said = (message) => message.content.map((part) => part.transcript ?? part.text).join('');

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
