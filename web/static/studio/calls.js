/** The API call that makes a picture again: for a shell, and for Python. Pure. */
import { hadPicture } from "./asking.js";

/**
 * @param {object} job
 * @param {number} at which of its pictures
 * @param {{base: string, keyed: boolean, strength: boolean}} server its address, ending with a slash;
 *   whether it asks for a key, and whether the model heeds `strength`
 * @returns {{curl: string, python: string}} with $ANTIPHON_API_KEY in place of any key
 */
export function callsOf(job, at, server) {
  const task = job.tasks[at];
  const known = { model: task.model, prompt: task.prompt, size: `${task.width}x${task.height}` };
  const more = { steps: task.steps, guidance: task.guidance, seed: task.seed };
  if (task.negative_prompt) more.negative_prompt = task.negative_prompt;
  if (Object.keys(task.adapters ?? {}).length > 0) more.adapters = task.adapters;
  if (job.kind === "video") Object.assign(more, { frames: task.frames, frames_per_second: task.frames_per_second });
  const picture = hadPicture(job, at);
  if (picture && server.strength) more.strength = task.strength;
  return { curl: curl(job.kind, known, more, picture, server), python: python(job.kind, known, more, picture, server) };
}

function curl(kind, known, more, picture, { base, keyed }) {
  const path = kind === "video" ? "v1/videos/sync" : picture ? "v1/images/edits" : "v1/images/generations";
  const lines = [`curl -s ${quoted(base + path)}`];
  if (keyed) lines.push('-H "Authorization: Bearer $ANTIPHON_API_KEY"');
  if (picture) {
    for (const [name, value] of Object.entries({ ...known, ...more })) {
      lines.push(`--form-string ${quoted(`${name}=${typeof value === "object" ? JSON.stringify(value) : value}`)}`);
    }
    lines.push(`-F ${kind === "video" ? "input_reference" : "image"}=@picture.png`);
  } else {
    lines.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify({ ...known, ...more }))}`);
  }
  if (kind === "video") return [...lines, "-o clip.mp4"].join(" \\\n  ");
  return `${lines.join(" \\\n  ")} \\\n  | python3 -c 'import base64, json, sys; sys.stdout.buffer.write(base64.b64decode(json.load(sys.stdin)["data"][0]["b64_json"]))' > made.png`;
}

/** @returns {string} as a shell reads it literally */
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function python(kind, known, more, picture, { base, keyed }) {
  const key = keyed ? 'os.environ["ANTIPHON_API_KEY"]' : '"none"';
  const imports = [...(kind === "image" ? ["import base64"] : []), ...(keyed ? ["import os"] : []), "", "from openai import OpenAI", ""];
  const client = `client = OpenAI(base_url=${literal(`${base}v1`)}, api_key=${key})`;
  const said = Object.entries(known).map(([name, value]) => `    ${name}=${literal(value)},`);
  if (picture) said.push(`    ${kind === "video" ? "input_reference" : "image"}=open("picture.png", "rb"),`);
  said.push(`    extra_body=${literal(more)},`);
  return [...(imports[0] === "" ? imports.slice(1) : imports), client, ...(kind === "video" ? clip(said) : still(said, picture))].join("\n");
}

function still(said, picture) {
  const made = `made = client.images.${picture ? "edit" : "generate"}(`;
  return [made, ...said, ")", 'with open("made.png", "wb") as file:', "    file.write(base64.b64decode(made.data[0].b64_json))"];
}

function clip(said) {
  return ["video = client.videos.create_and_poll(", ...said, ")", 'client.videos.download_content(video.id).write_to_file("clip.mp4")'];
}

/** @returns {string} as Python reads it */
function literal(value) {
  if (value !== null && typeof value === "object") {
    return `{${Object.entries(value).map(([name, each]) => `${literal(name)}: ${literal(each)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}
