// The audio resources of the `openai` package.

import { createReadStream } from 'node:fs';

import OpenAI from 'openai';

import { check, job, report } from './common.mjs';
import { refused } from './refused.mjs';

const SPOKEN_TEXT = 'The light of the evening takes a longer way, and so it turns red.';
const SPOKEN_BYTES = 3 * 48_000;
const SAID = { model: 'gpt-4o-mini-tts', voice: 'alloy', input: SPOKEN_TEXT };
const HEARD = /france/i;
const FILES = { mp3: '\xff', opus: 'OggS', aac: '\xff\xf1', flac: 'fLaC', wav: 'RIFF' };

const { audio } = new OpenAI({ baseURL: `${job.url}/v1`, apiKey: 'none', maxRetries: 0 });
const question = () => createReadStream(job.question);

async function speech() {
  const answer = await audio.speech.create({ ...SAID, response_format: 'pcm' });
  check(answer.headers.get('content-type') === 'audio/pcm', 'another content type');
  let pieces = 0;
  let bytes = 0;
  for await (const piece of answer.body) {
    pieces += 1;
    bytes += piece.length;
  }
  check(pieces > 1, 'all came at once');
  check(bytes > SPOKEN_BYTES, `only ${bytes} bytes came`);
}

async function files() {
  for (const [form, begins] of Object.entries(FILES)) {
    const answer = await audio.speech.create({ ...SAID, response_format: form });
    const file = Buffer.from(await answer.arrayBuffer());
    check(file.toString('latin1').startsWith(begins), `${form} begins with other bytes`);
  }
}

async function events() {
  const asked = { ...SAID, response_format: 'pcm', stream_format: 'sse' };
  const text = await (await audio.speech.create(asked)).text();
  const told = text.split('\n').filter(Boolean).map((line) => JSON.parse(line.slice(6)));
  const done = told.pop();
  check(told.every(({ type }) => type === 'speech.audio.delta'), 'another event came');
  const bytes = told.reduce((sum, event) => sum + Buffer.byteLength(event.audio, 'base64'), 0);
  check(bytes > SPOKEN_BYTES, `only ${bytes} bytes came`);
  check(done.type === 'speech.audio.done' && done.usage.total_tokens > 0, 'no usage is told');
}

async function transcription() {
  const told = await audio.transcriptions.create({ file: question(), model: 'whisper-1' });
  check(HEARD.test(told.text), told.text);
  check(told.usage.seconds > 1, 'no duration is told');
}

async function wordTimes() {
  const told = await audio.transcriptions.create({
    file: question(),
    model: 'whisper-1',
    response_format: 'verbose_json',
    timestamp_granularities: ['word', 'segment'],
  });
  const words = told.words.map(({ word }) => word);
  check(words.join(' ') === told.text, `${words} is not ${told.text}`);
  check(told.words.every(({ start, end }) => start <= end && end <= told.duration), 'odd times');
  check(told.segments.length > 0 && told.language === 'en', told.language);
}

async function stream() {
  const asked = { file: question(), model: 'gpt-4o-mini-transcribe', stream: true };
  const told = [];
  for await (const event of await audio.transcriptions.create(asked)) told.push(event);
  const done = told.pop();
  check(told.every(({ type }) => type === 'transcript.text.delta'), 'another event came');
  check(done.type === 'transcript.text.done', done.type);
  check(told.map(({ delta }) => delta).join('') === done.text, 'the deltas are not the text');
  check(HEARD.test(done.text), done.text);
}

async function translation() {
  const told = await audio.translations.create({ file: question(), model: 'whisper-1' });
  check(HEARD.test(told.text), told.text);
}

async function refusal() {
  await refused('voice', audio.speech.create({ ...SAID, voice: 'nobody' }));
  const file = await OpenAI.toFile(Buffer.from('no audio'), 'speech.wav');
  await refused('file', audio.transcriptions.create({ file, model: 'whisper-1' }));
}

await report.feature('speech', speech);
await report.feature('file formats', files);
await report.feature('speech events', events);
await report.feature('transcription', transcription);
await report.feature('word times', wordTimes);
await report.feature('streamed transcript', stream);
await report.feature('translation', translation);
await report.feature('refusal', refusal);
report.print();
