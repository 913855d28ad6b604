// One conversation over the sockets of the `openai` package, in the GA or the beta dialect.

import {
  audioMs, check, checkStopped, declaredEvents, Events, getWeather, HEARD_MS, INSTRUCTIONS, isWhole,
  job, LONG_QUESTION, Microphone, readSpeech, report, TOOL, TOOL_QUESTION, WRITTEN_QUESTION,
} from './common.mjs';

const TURNS = { type: 'server_vad', silence_duration_ms: 500 };

/** Where the dialects differ in what this conversation uses. */
export const GA = {
  declared: './resources/realtime/realtime.d.ts',
  audio: 'response.output_audio.delta',
  transcript: 'response.output_audio_transcript.done',
  text: 'response.output_text.delta',
  written: { output_modalities: ['text'] },
  session: {
    type: 'realtime',
    instructions: INSTRUCTIONS,
    tools: [TOOL],
    audio: { input: { turn_detection: TURNS, transcription: { model: 'whisper-1' } } },
  },
  turns: (session) => session.audio.input.turn_detection,
};

export const BETA = {
  declared: './resources/beta/realtime/realtime.d.ts',
  audio: 'response.audio.delta',
  transcript: 'response.audio_transcript.done',
  text: 'response.text.delta',
  written: { modalities: ['text'] },
  session: {
    instructions: INSTRUCTIONS,
    tools: [TOOL],
    turn_detection: TURNS,
    input_audio_format: 'pcm16',
    input_audio_transcription: { model: 'whisper-1' },
  },
  turns: (session) => session.turn_detection,
};

/** Hold the conversation over `socket` (an emitter of the package) and print the report. */
export async function talk(socket, dialect) {
  const client = new Client(socket, dialect);
  await report.conversation(client);
  report.print();
}

class Client {
  events = new Events();

  constructor(socket, dialect) {
    this.socket = socket;
    this.dialect = dialect;
    this.microphone = new Microphone((pcm) =>
      socket.send({ type: 'input_audio_buffer.append', audio: pcm.toString('base64') }),
    );
    const declared = declaredEvents(dialect.declared);
    socket.on('event', (event) => {
      if (!declared.has(event.type)) report.error(`unknown event: ${event.type}`);
      if (!event.event_id) report.error(`no event_id: ${event.type}`);
      this.events.add(event);
    });
    socket.on('error', (error) => report.error(`error: ${error.message}`));
    const underlying = socket.socket;
    underlying.addEventListener('close', ({ code }) => this.events.add({ type: 'closed', code }));
  }

  async connect() {
    await this.events.next('session.created');
    check(this.events.all[0].type === 'session.created', 'session.created is not the first event');
  }

  async configure() {
    this.socket.send({ type: 'session.update', session: this.dialect.session });
    const { session } = await this.events.next('session.updated');
    check(session.instructions === INSTRUCTIONS, 'the instructions are not echoed');
    check(session.tools[0]?.name === TOOL.name, 'the tools are not echoed');
    check(this.dialect.turns(session).type === TURNS.type, 'turn_detection is not echoed');
  }

  async spokenTurn() {
    const from = this.events.count;
    this.microphone.on();
    this.microphone.say(readSpeech(job.question));
    const { item_id } = await this.events.next('input_audio_buffer.speech_started', from);
    const same = (event) => event.item_id === item_id;
    await this.events.next('input_audio_buffer.speech_stopped', from, same);
    await this.events.next('input_audio_buffer.committed', from, same);
    this.#isSpoken(await this.#answer(from), from);
  }

  async transcription() {
    const { item_id } = await this.events.next('input_audio_buffer.speech_started');
    const { transcript } = await this.events.next(
      'conversation.item.input_audio_transcription.completed', 0,
      (event) => event.item_id === item_id,
    );
    check(transcript, 'nothing was transcribed');
  }

  async textTurn() {
    const from = this.events.count;
    this.#write(WRITTEN_QUESTION);
    this.socket.send({ type: 'response.create', response: this.dialect.written });
    await this.#answer(from);
    check(this.events.of(this.dialect.text, from).length > 0, 'no text came');
    check(this.events.of(this.dialect.audio, from).length === 0, 'audio came unasked');
  }

  async toolCall() {
    const from = this.events.count;
    this.#write(TOOL_QUESTION);
    const named = { tool_choice: { type: 'function', name: TOOL.name } };
    this.socket.send({ type: 'response.create', ...(job.scripted ? {} : { response: named }) });
    const { call_id, arguments: args } = await this.events.next(
      'response.function_call_arguments.done', from,
    );
    const deltas = this.events.of('response.function_call_arguments.delta', from);
    check(deltas.map((each) => each.delta).join('') === args, 'the deltas are not the arguments');
    const response = await this.#answer(from);
    const call = response.output.find((item) => item.type === 'function_call');
    check(call?.name === TOOL.name && call.call_id === call_id, 'the response lacks the call');

    const after = this.events.count;
    const output = JSON.stringify(getWeather(JSON.parse(args)));
    this.socket.send({
      type: 'conversation.item.create',
      item: { type: 'function_call_output', call_id, output },
    });
    const spoken = { tool_choice: 'none' };
    this.socket.send({ type: 'response.create', ...(job.scripted ? {} : { response: spoken }) });
    const transcript = this.#isSpoken(await this.#answer(after), after);
    if (job.scripted) check(transcript.includes('rain'), `the output is not known: ${transcript}`);
  }

  async interruption() {
    const from = this.events.count;
    this.#write(LONG_QUESTION);
    this.socket.send({ type: 'response.create', response: { tool_choice: 'none' } });
    const first = await this.events.next(this.dialect.audio, from);
    const began = performance.now();
    await this.events.next(this.dialect.audio, from, () => this.#audioMs(from) >= HEARD_MS);
    this.microphone.say(readSpeech(job.interjection));
    const started = await this.events.next('input_audio_buffer.speech_started', from);
    const cut = this.events.all.indexOf(started);
    this.#tellHeard(first, Math.min(performance.now() - began, this.#audioMs(from)));

    const mine = (event) => event.response.id === first.response_id;
    await this.events.next('response.done', from, mine);
    const answered = (event) => !mine(event) && isWhole(event.response);
    await this.events.next('response.done', cut, answered);
    checkStopped(this.events, first.response_id, cut, this.dialect.audio);
  }

  async truncation() {
    const { item_id, audio_end_ms } = this.told;
    const truncated = await this.events.next('conversation.item.truncated');
    check(truncated.item_id === item_id, 'another item was truncated');
    check(truncated.audio_end_ms === audio_end_ms, 'truncated elsewhere');
  }

  async end() {
    this.microphone.off();
    this.socket.close();
    const { code } = await this.events.next('closed');
    check(code === 1000, `closed with ${code}`);
  }

  #tellHeard({ item_id, content_index }, ms) {
    this.told = { item_id, content_index, audio_end_ms: Math.floor(ms) };
    this.socket.send({ type: 'conversation.item.truncate', ...this.told });
  }

  #write(text) {
    const content = [{ type: 'input_text', text }];
    this.socket.send({
      type: 'conversation.item.create', item: { type: 'message', role: 'user', content },
    });
  }

  /** The next finished response; it has to be whole. */
  async #answer(from) {
    const { response } = await this.events.next('response.done', from);
    check(isWhole(response), JSON.stringify(response.status_details));
    check(response.usage.total_tokens > 0, 'no usage is told');
    return response;
  }

  #isSpoken(response, from) {
    check(this.#audioMs(from) > 300, `only ${this.#audioMs(from)} ms of audio came`);
    const { transcript } = this.events.of(this.dialect.transcript, from).at(-1);
    check(transcript, 'no transcript came');
    const part = response.output.at(-1).content[0];
    check(part.transcript === transcript, 'the response says something else');
    return transcript;
  }

  #audioMs(from) {
    const deltas = this.events.of(this.dialect.audio, from);
    return deltas.reduce((sum, event) => sum + audioMs(event.delta), 0);
  }
}
