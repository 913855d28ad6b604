/** The picture that goes in: chosen, dropped or pasted. */

const TYPES = ["image/png", "image/jpeg", "image/webp"];

/** Larger files are refused here: the server takes 25 MiB at most, unless it says otherwise. */
const MOST_BYTES = 25 << 20;

const TEXT = "Choose one, drop it here, or paste it";

export class Reference {
  /**
   * @param {(id: string) => HTMLElement} byId
   * @param {object} handlers
   * @param {(picture: {url: string, name: string}|null) => void} handlers.onPicture
   * @param {(text: string) => void} handlers.onFault
   */
  constructor(byId, { onPicture, onFault }) {
    this.onPicture = onPicture;
    this.onFault = onFault;
    this.field = byId("picture-field");
    this.image = byId("picture");
    this.name = byId("picture-name");
    this.away = byId("drop-picture");
    this.file = byId("picture-file");
    this.area = byId("drop");
    byId("choose-picture").addEventListener("click", () => this.file.click());
    this.file.addEventListener("change", () => {
      this.take(this.file.files[0]);
      this.file.value = "";
    });
    this.away.addEventListener("click", () => {
      this.onPicture(null);
      byId("choose-picture").focus();
    });
    this.#bindDrop();
    document.addEventListener("paste", (event) => {
      const file = [...(event.clipboardData?.files ?? [])].find(({ type }) => type.startsWith("image/"));
      if (!file || this.field.hidden) return;
      event.preventDefault();
      this.take(file);
    });
  }

  /** @param {{url: string, name: string}|null} picture */
  show(picture) {
    this.image.hidden = picture === null;
    if (picture) this.image.src = picture.url;
    else this.image.removeAttribute("src");
    this.name.textContent = picture?.name ?? TEXT;
    this.away.hidden = picture === null;
    this.area.dataset.filled = String(picture !== null);
  }

  /** @param {Blob|undefined} file */
  async take(file) {
    if (!file) return;
    if (!TYPES.includes(file.type)) {
      this.onFault("That is no picture that can go in: PNG, JPEG and WebP can.");
    } else if (file.size > MOST_BYTES) {
      this.onFault("That picture is too large: at most 25 MB.");
    } else {
      this.onPicture({ url: await dataUrl(file), name: file.name || "Pasted picture" });
    }
  }

  #bindDrop() {
    const over = (event) => {
      if (this.field.hidden || !event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      this.area.dataset.over = "true";
    };
    // Anywhere on the page: a file that misses must not be opened in its place.
    window.addEventListener("dragover", over);
    window.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) delete this.area.dataset.over;
    });
    window.addEventListener("drop", (event) => {
      delete this.area.dataset.over;
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      if (!this.field.hidden) this.take(event.dataTransfer.files[0]);
    });
  }
}

/** @returns {Promise<string>} a file as a data URL */
export function dataUrl(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(blob);
  });
}
