/** What a person can do with what was made, and to have more made. */
import { freshKey } from "./api.js";
import { bodyOf, hadPicture, settingsOf } from "./asking.js";
import { download } from "./elements.js";
import { dataUrl } from "./reference.js";
import { variant } from "./wall.js";

/** After which a request that was lost on the way is sent once more. */
const AGAIN_MS = 800;

const SUFFIXES = { "image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "video/mp4": "mp4" };

export class Acts {
  /**
   * @param {object} parts
   * @param {import("./api.js").Api} parts.api
   * @param {import("./wall.js").Wall} parts.wall
   * @param {import("./composer.js").Composer} parts.composer
   * @param {(job: object) => void} parts.onMade a job was accepted
   * @param {() => void} parts.onChange the wall is another
   * @param {(error: Error, again: () => void) => void} parts.onError and what tries again
   * @param {(text: string) => void} parts.say a hint that is no error
   * @param {(key: string) => Promise<boolean>} parts.sure whether it is to be deleted
   */
  constructor(parts) {
    Object.assign(this, parts);
  }

  /** Hands a request in; tried again with the same key, so that it makes one job. */
  async make(body, key = freshKey()) {
    try {
      const job = await this.api.make(body, key).catch(async (error) => {
        if (error.status !== 0) throw error;
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
        return this.api.make(body, key);
      });
      this.onMade(job);
    } catch (error) {
      this.onError(error, () => this.make(body, key));
    }
  }

  /** The same with another seed, at once. */
  async anew(tile) {
    const settings = { ...(await this.#settings(tile)), seed: null };
    const model = this.composer.models.find(({ name }) => name === settings.model);
    if (!model) this.say("This server no longer has the model that made it.");
    else if (settings.lost) this.#fill(settings);
    else await this.make(bodyOf(settings, model));
  }

  /** Its settings into the form. */
  async again(tile) {
    this.#fill(await this.#settings(tile));
  }

  async cancel({ job }) {
    const then = (told) => {
      this.wall.stopping.add(job.id);
      this.wall.put(told, performance.now());
    };
    await this.#change(() => this.api.cancel(job.id), then);
  }

  async remove(tile) {
    if (!(await this.sure(tile))) return;
    await this.#change(() => this.api.remove(tile.job.id), () => this.wall.remove(tile.job.id));
  }

  async save({ job, at }) {
    try {
      const blob = await this.api.content(job.id, variant("content", at));
      download(blob, `${variant(job.id, at)}.${SUFFIXES[blob.type] ?? "bin"}`);
    } catch (error) {
      this.onError(error, () => this.save({ job, at }));
    }
  }

  async #change(ask, then) {
    try {
      then(await ask());
      this.onChange();
    } catch (error) {
      this.onError(error, () => this.#change(ask, then));
    }
  }

  #fill(settings) {
    if (!this.composer.fill(settings)) this.say("This server no longer has the model that made it.");
    else if (settings.lost) this.say("The picture that went in is not there any more: choose it again, then make it.");
  }

  /** Settings of a tile, with the picture that went in, if it can still be had; `lost` if it can't. */
  async #settings({ job, at }) {
    const settings = settingsOf(job, at);
    if (!hadPicture(job, at)) return settings;
    try {
      const url = await dataUrl(await this.api.content(job.id, "input-image"));
      return { ...settings, picture: { url, name: "The same picture" } };
    } catch {
      return { ...settings, lost: true };
    }
  }
}
