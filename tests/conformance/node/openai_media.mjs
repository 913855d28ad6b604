// Images and videos of the `openai` package.

import { crc32, deflateSync } from 'node:zlib';

import OpenAI from 'openai';

import { check, job, report } from './common.mjs';
import { refused } from './refused.mjs';

const SIDE = 64;
const BEGINS = { png: '\x89PNG', webp: 'RIFF', jpeg: '\xff\xd8' };
const VARIANTS = { video: 'ftyp', thumbnail: 'RIFF', spritesheet: '\xff\xd8' };

const { images, videos } = new OpenAI({
  baseURL: `${job.url}/v1`, apiKey: 'none', maxRetries: 0,
});
let clip;

function chunk(name, data) {
  const body = Buffer.concat([Buffer.from(name, 'latin1'), data]);
  const ends = [Buffer.alloc(4), Buffer.alloc(4)];
  ends[0].writeUInt32BE(data.length);
  ends[1].writeUInt32BE(crc32(body));
  return Buffer.concat([ends[0], body, ends[1]]);
}

/** A PNG of half a square in red, the other half clear or blue. */
async function picture(alpha = 255) {
  const head = Buffer.alloc(13);
  head.writeUInt32BE(SIDE, 0);
  head.writeUInt32BE(SIDE, 4);
  head.set([8, 6], 8);
  const row = Buffer.concat([
    Buffer.alloc(1),
    Buffer.alloc(SIDE * 2, Buffer.from([255, 0, 0, 255])),
    Buffer.alloc(SIDE * 2, Buffer.from([0, 0, 255, alpha])),
  ]);
  const file = Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', head),
    chunk('IDAT', deflateSync(Buffer.concat(Array(SIDE).fill(row)))),
    chunk('IEND', Buffer.alloc(0)),
  ]);
  return OpenAI.toFile(file, 'a.png', { type: 'image/png' });
}

const begins = (data, text) => Buffer.from(data, 'base64').toString('latin1').startsWith(text);

async function onePicture() {
  const told = await images.generate({ prompt: 'a red cup', n: 2 });
  const [one, two] = told.data.map(({ b64_json: data }) => data);
  check(begins(one, BEGINS.png) && begins(two, BEGINS.png), 'no PNG');
  check(one !== two, 'both are the same');
  const asked = { model: 'dall-e-2', response_format: 'url', output_format: 'webp' };
  const { data } = await images.generate({ prompt: 'a red cup', ...asked });
  // The URL is ours, and asks for no key.
  const file = Buffer.from(await (await fetch(data[0].url)).arrayBuffer());
  check(file.toString('latin1').startsWith(BEGINS.webp), 'no WebP');
}

async function partial() {
  const asked = { prompt: 'a', stream: true, partial_images: 2, output_format: 'jpeg' };
  const told = [];
  for await (const event of await images.generate(asked)) told.push(event);
  check(told.every((event) => begins(event.b64_json, BEGINS.jpeg)), 'no JPEG');
  check(told.pop().type === 'image_generation.completed', 'it was not completed');
  check(told.length <= 2, `${told.length} partial pictures`);
  check(told.every((event, at) => event.partial_image_index === at), 'odd indices');
}

async function edit() {
  const given = { image: await picture(), mask: await picture(0) };
  const told = await images.edit({ prompt: 'a green half', ...given });
  check(begins(told.data[0].b64_json, BEGINS.png), 'no PNG');
  const several = await images.edit({ prompt: 'a', image: [await picture()] });
  check(several.data[0].b64_json, 'no picture');
}

async function variation() {
  const { data } = await images.createVariation({ image: await picture() });
  check(data[0].b64_json || data[0].url, 'no picture');
}

async function video() {
  clip = await videos.createAndPoll?.({ prompt: 'a cup that turns', seconds: '1' })
    ?? await polled(await videos.create({ prompt: 'a cup that turns', seconds: '1' }));
  check(clip.status === 'completed', clip.status);
  check(clip.progress === 100 && clip.error === null, 'it is not whole');
}

async function polled(begun) {
  for (let found = begun; ; found = await videos.retrieve(begun.id)) {
    if (!['queued', 'in_progress'].includes(found.status)) return found;
    await new Promise((done) => { setTimeout(done, 200); });
  }
}

async function files() {
  for (const [variant, text] of Object.entries(VARIANTS)) {
    const answer = await videos.downloadContent(clip.id, { variant });
    const file = Buffer.from(await answer.arrayBuffer());
    check(file.subarray(0, 8).toString('latin1').includes(text), `${variant} begins otherwise`);
  }
}

async function list() {
  await videos.create({ prompt: 'another' });
  const found = [];
  for await (const { id } of videos.list({ limit: 1 })) found.push(id);
  check(found.includes(clip.id) && found.length >= 2, `${found}`);
  check(new Set(found).size === found.length, 'one came twice');
}

async function remix() {
  const other = await videos.remix(clip.id, { prompt: 'a cup that falls' });
  check(other.remixed_from_video_id === clip.id, `${other.remixed_from_video_id}`);
}

async function remove() {
  const { id } = await videos.create({ prompt: 'not wanted' });
  check((await videos.delete(id)).deleted, 'it was not deleted');
  const error = await videos.retrieve(id).then(() => null, (why) => why);
  check(error instanceof OpenAI.NotFoundError, `expected a refusal, got ${error}`);
}

async function refusal() {
  await refused('size', images.generate({ prompt: 'a', size: '99999x99999' }));
  await refused('model', videos.create({ prompt: 'a', model: 'nobody' }));
  const image = await OpenAI.toFile(Buffer.from('no picture'), 'a.png');
  await refused('image', images.edit({ prompt: 'a', image }));
}

await report.feature('picture', onePicture);
await report.feature('partial pictures', partial);
await report.feature('edit', edit);
await report.feature('variation', variation);
await report.feature('video', video);
await report.feature('video files', files);
await report.feature('video list', list);
await report.feature('remix', remix);
await report.feature('delete', remove);
await report.feature('refusal', refusal);
report.print();
