"""What is said in the recordings of a chat."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.datastructures import FormData, UploadFile

from ..codecs.media import MediaError
from ..engines.chunks import End, EndReason, Segment, StageError, Word
from ..engines.pipeline import Pipeline, TranscribeRequest
from ..engines.stage import StageFailure
from .chat_messages import Recording
from .transcripts import Transcribed
from .uploads import Upload, feed

STOPPED = StageError("cancelled", "The recording was not read to its end.")


class Unheard(Exception):
    """A recording can't be read."""

    def __init__(self, error: MediaError, param: str) -> None:
        super().__init__(error.message)
        self.error = error
        self.param = param


@dataclass(frozen=True, slots=True)
class Heard:
    """What is said in a recording, without white space around it."""

    text: str
    seconds: float
    language: str = ""
    """ISO 639-1, as it was asked for or found; empty where nothing was said."""

    words: tuple[Word, ...] = ()
    """With times, where they were asked for."""


async def hear(
    pipeline: Pipeline,
    recording: Recording,
    name: str,
    silent_seconds: float,
    *,
    language: str | None = None,
    words: bool = False,
) -> Heard:
    """Decode and transcribe a recording; ``name`` it in the stages.

    ``language``: ISO 639-1, or ``None`` to let the recognizer decide. ``words``: whether their
    times are wanted.

    Raises:
        Unheard: it gives no audio, or none any more.
        MediaMissing: what decodes is not installed.
        StageFailure: the recognizer can't serve it, or says nothing for ``silent_seconds``.
    """
    # What holds a decoder for a form with a file holds one for this, too.
    file = UploadFile(io.BytesIO(recording.data))
    upload = Upload(FormData([("file", file)]))
    done = Transcribed()
    asked = TranscribeRequest(request_id=name, language=language, words=words)
    try:
        await upload.open()
        await _transcribe(pipeline, upload, done, asked, silent_seconds)
    except MediaError as error:
        raise Unheard(error, recording.param) from None
    finally:
        await upload.close()
    said = tuple(word for segment in done.segments for word in segment.words)
    return Heard(done.text.strip(), done.seconds, done.language, said)


async def _transcribe(
    pipeline: Pipeline,
    upload: Upload,
    done: Transcribed,
    asked: TranscribeRequest,
    silent_seconds: float,
) -> None:
    stream = pipeline.transcribe(asked)
    feeding = asyncio.ensure_future(feed(upload, stream, done))
    try:
        items = aiter(stream)
        while isinstance(item := await _next(items, silent_seconds), Segment):
            done.add(item)
        if feeding.done() or item.reason is EndReason.COMPLETED:
            # Where the file was the reason for the end, this tells it.
            await feeding
        if item.reason is not EndReason.COMPLETED:
            raise StageFailure(item.error or STOPPED)
    finally:
        stream.cancel()
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)


async def _next(items: AsyncIterator[Segment | End], silent_seconds: float) -> Segment | End:
    try:
        async with asyncio.timeout(silent_seconds):
            return await anext(items)
    except TimeoutError:
        message = "The recognizer said nothing for too long."
        raise StageFailure(
            StageError("recognition_timeout", message, retry_after_ms=1000)
        ) from None
