"""The ``openai`` package: images and videos, by ``AsyncOpenAI`` or, with ``sync``, ``OpenAI``."""

from __future__ import annotations

import asyncio
import base64
import struct
import sys
import urllib.request
import warnings
import zlib
from typing import Any

from openai import AsyncOpenAI, OpenAI

from .harness import Job, Report, check, run
from .openai_speech import Refused, done, each, opened

PNG, WEBP, JPEG, MP4 = b"\x89PNG", b"RIFF", b"\xff\xd8", b"ftyp"
SIDE = 64


def picture(alpha: bool = False) -> bytes:
    """A PNG of half a square in red, the other half clear or blue."""
    right = bytes((0, 0, 255, 0 if alpha else 255)) * (SIDE // 2)
    row = b"\0" + bytes((255, 0, 0, 255)) * (SIDE // 2) + right
    head = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 6, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(row * SIDE)), (b"IEND", b"")]
    file = b"\x89PNG\r\n\x1a\n"
    for name, data in chunks:
        file += struct.pack(">I", len(data)) + name + data
        file += struct.pack(">I", zlib.crc32(name + data))
    return file


def fetched(url: str) -> bytes:
    """What is behind a URL."""
    with urllib.request.urlopen(url) as answer:
        data: bytes = answer.read()
    return data


class Media:
    """The resources of one client."""

    def __init__(self, client: Any, report: Report) -> None:
        self._images = client.images
        self._videos = client.videos
        self._report = report
        self._clip = ""

    async def use(self) -> None:
        """Try every feature."""
        try_ = self._report.feature
        await try_("picture", self._picture)
        await try_("partial pictures", self._partial)
        await try_("edit", self._edit)
        await try_("variation", self._variation)
        await try_("video", self._video)
        await try_("video files", self._files)
        await try_("video list", self._list)
        await try_("remix", self._remix)
        await try_("delete", self._delete)
        await try_("refusal", self._refusal)

    async def _picture(self) -> None:
        told = await done(self._images.generate(prompt="a red cup", n=2))
        files = [base64.b64decode(each.b64_json) for each in told.data]
        check([file[:4] for file in files] == [PNG, PNG], files)
        check(files[0] != files[1], "both are the same")
        asked = {"model": "dall-e-2", "response_format": "url", "output_format": "webp"}
        told = await done(self._images.generate(prompt="a red cup", **asked))
        # The URL is ours, and asks for no key.
        file = await asyncio.to_thread(fetched, told.data[0].url)
        check(file.startswith(WEBP), file[:8])

    async def _partial(self) -> None:
        asked = {"stream": True, "partial_images": 2, "output_format": "jpeg"}
        events = [e async for e in each(await done(self._images.generate(prompt="a", **asked)))]
        *parts, last = events
        check(last.type == "image_generation.completed", last)
        check({part.type for part in parts} <= {"image_generation.partial_image"}, parts)
        check([part.partial_image_index for part in parts] == [*range(len(parts))], parts)
        check(len(parts) <= 2, len(parts))
        check(all(base64.b64decode(e.b64_json).startswith(JPEG) for e in events), "no JPEG")

    async def _edit(self) -> None:
        files = {"image": ("a.png", picture()), "mask": ("m.png", picture(alpha=True))}
        told = await done(self._images.edit(prompt="a green half", **files))
        check(base64.b64decode(told.data[0].b64_json).startswith(PNG), told)
        several = await done(self._images.edit(prompt="a", image=[("a.png", picture())]))
        check(several.data[0].b64_json, several)

    async def _variation(self) -> None:
        told = await done(self._images.create_variation(image=("a.png", picture())))
        check(told.data[0].b64_json or told.data[0].url, told)

    async def _video(self) -> None:
        clip = await done(self._videos.create_and_poll(prompt="a cup that turns", seconds="1"))
        check(clip.status == "completed", clip)
        check((clip.object, clip.progress, clip.error) == ("video", 100, None), clip)
        check(clip.completed_at >= clip.created_at, clip)
        self._clip = clip.id

    async def _files(self) -> None:
        begins = {"video": MP4, "thumbnail": WEBP, "spritesheet": JPEG}
        for variant, begin in begins.items():
            answer = await done(self._videos.download_content(self._clip, variant=variant))
            file = await done(answer.aread() if hasattr(answer, "aread") else answer.read())
            check(begin in file[:8], f"{variant} begins {file[:8]!r}")

    async def _list(self) -> None:
        await done(self._videos.create(prompt="another"))
        found = [clip.id async for clip in each(await done(self._videos.list(limit=1)))]
        check(self._clip in found and len(set(found)) == len(found) >= 2, found)

    async def _remix(self) -> None:
        clip = await done(self._videos.remix(self._clip, prompt="a cup that falls"))
        check(clip.remixed_from_video_id == self._clip, clip)

    async def _delete(self) -> None:
        clip = await done(self._videos.create(prompt="not wanted"))
        gone = await done(self._videos.delete(clip.id))
        check(gone.deleted and gone.id == clip.id, gone)
        with Refused(None):
            await done(self._videos.retrieve(clip.id))

    async def _refusal(self) -> None:
        with Refused("size"):
            await done(self._images.generate(prompt="a", size="99999x99999"))
        with Refused("model"):
            await done(self._videos.create(prompt="a", model="nobody"))
        with Refused("image"):
            await done(self._images.edit(prompt="a", image=("a.png", b"no picture")))


async def talk(job: Job, report: Report) -> None:
    """Use one client."""
    # It says itself that its videos go away.
    warnings.simplefilter("ignore", DeprecationWarning)
    kind: Any = OpenAI if "sync" in sys.argv else AsyncOpenAI
    async with opened(kind(base_url=f"{job.url}/v1", api_key="none", max_retries=0)) as client:
        await Media(client, report).use()


if __name__ == "__main__":
    run(talk)
