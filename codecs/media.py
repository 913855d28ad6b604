"""Audio out of files of many kinds, a piece at a time.

:func:`open_audio` reads MP3, M4A, Ogg, FLAC, WAV, WebM, the sound of MP4 videos and some more,
at any rate and with any number of channels, and gives s16le mono at one rate. It reads on only
as it is asked to, so an hour costs as little memory as a minute. Files come from strangers:

- only the containers and codecs listed in :mod:`.containers` are tried, and a file can't name another one to
  be opened;
- sizes and durations that a file states are never believed: what is decoded is counted, up to
  a bound, and so is what is allocated;
- what can't be read in the middle is passed over, up to a bound, and never for ever.

PyAV does the decoding, and is loaded when the first file is opened: 60 ms. All calls may take
long, so none belongs on an event loop; a source is for one thread at a time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import BinaryIO, Literal, Protocol, TypeAlias, cast

from .boxes import sample_count
from .containers import (
    CONTAINERS,
    INDEXED,
    Container,
    Frame,
    MonoStream,
    Packet,
    Stream,
    is_read,
    is_sane,
    open_container,
)
from .pcm import SAMPLE_BYTES

RATE = 16_000
"""Samples a second that are given unless others are asked for: what recognizers hear."""

MAX_SECONDS = 4 * 3600.0
"""Most audio of a file that is given unless another bound is set."""

PIECE_SECONDS = 1
"""Most audio of one piece."""

MAX_FAILURES = 100
"""Parts of a file that can't be read, one after the other, until it counts as broken."""

MAX_PACKET_BYTES = 4 << 20
"""Bytes of a packet above which it counts as a part that can't be read."""

MAX_LISTED = 1 << 22
"""Most samples that the index of an MP4 file may list: each takes FFmpeg 40 bytes. Four hours of
sound and pictures are 1.5 million; uncompressed sound may be listed sample by sample."""

_NOT_AUDIO = (
    "This is no audio file that can be read; flac, mp3, mp4, mpeg, mpga, m4a, ogg, wav and webm "
    "are. It may be something else, or be damaged at its beginning."
)

Code: TypeAlias = Literal["no_audio", "not_audio", "broken", "too_long"]


class MediaError(ValueError):
    """A file gives no audio, or none any more."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code: Code = code
        """``not_audio``: it is no media file that is read here. ``no_audio``: it is one, and
        has no audio track, or no sound in it. ``broken``: too much of it can't be read.
        ``too_long``: there is more audio in it than was allowed."""

        self.message = message
        """One sentence, with nothing out of the file."""


class MediaMissing(RuntimeError):
    """PyAV is not installed."""


class AudioSource(Protocol):
    """The audio of one file, read once from its beginning to its end."""

    @property
    def rate(self) -> int:
        """Samples a second of what is read."""
        ...

    @property
    def duration_s(self) -> float | None:
        """What the file says, or its size suggests; it may be wrong. ``None`` if unknown."""
        ...

    def read(self) -> bytes:
        """Return the next piece, s16le mono, of at most :data:`PIECE_SECONDS`; b"" at the end.

        Raises:
            MediaError: nothing more can be read (``broken``), there was no sound in the file
                (``no_audio``), or it is too long (``too_long``). All that could be read was
                given before, and the next call raises the same.
            OSError: the file object could not be read.
        """
        ...

    def close(self) -> None:
        """Free the decoder; the file object stays open. Then there is nothing to read."""
        ...


def open_audio(
    source: BinaryIO, *, rate: int = RATE, max_seconds: float = MAX_SECONDS
) -> AudioSource:
    """Begin to read the audio of ``source`` at ``rate`` samples a second.

    ``source`` stays the caller's, who closes it after the audio; it must be able to seek.

    Raises:
        MediaError: it is no media file (``not_audio``) or has no audio track (``no_audio``).
        MediaMissing: PyAV is not there.
        OSError: ``source`` could not be read.
        ValueError: the rate or the bound is not positive.
    """
    if rate <= 0 or not max_seconds > 0:
        raise ValueError(f"expected a positive rate and bound, got {rate} and {max_seconds}")
    source.seek(0)
    if not source.read(1):
        raise MediaError("not_audio", "The file is empty.")
    try:
        container = open_container(source, CONTAINERS)
    except ImportError as error:
        raise MediaMissing(f"reading audio files needs PyAV: {error}") from None
    if container is None:
        if sample_count(source) > MAX_LISTED:
            raise MediaError("too_long", "The file's index lists more samples than are read.")
        container = open_container(source, INDEXED)
    if container is None:
        raise MediaError("not_audio", _NOT_AUDIO)
    try:
        return _Decoded(container, _audio_stream(container), rate, max_seconds)
    except BaseException:
        container.close()
        raise


class _Decoded:
    """An :class:`AudioSource` out of PyAV's containers."""

    def __init__(self, container: Container, stream: Stream, rate: int, max_seconds: float) -> None:
        self._rate = rate
        self._duration = _duration(container, stream)
        self._container: Container | None = container
        self._frames = _Frames(container, stream)
        self._pieces = self._decoded()
        self._ready = bytearray()
        self._left = int(max_seconds * rate) * SAMPLE_BYTES
        """Bytes that may still be given."""

        self._error: MediaError | None = None

    @property
    def rate(self) -> int:
        return self._rate

    @property
    def duration_s(self) -> float | None:
        return self._duration

    def read(self) -> bytes:
        wanted = PIECE_SECONDS * self._rate * SAMPLE_BYTES
        while len(self._ready) < wanted and self._container is not None:
            self._decode_some()
        piece = bytes(self._ready[:wanted])
        del self._ready[:wanted]
        if not piece and self._error is not None:
            raise self._error
        return piece

    def close(self) -> None:
        self._ready.clear()
        self._error = None
        self._free()

    def _free(self) -> None:
        container, self._container = self._container, None
        if container is not None:
            self._pieces.close()
            container.close()

    def _decode_some(self) -> None:
        try:
            pcm = next(self._pieces, None)
        except BaseException:
            self._free()
            raise
        if pcm is None:
            self._free()
            return
        self._ready += pcm[: self._left]
        self._left -= len(pcm)
        if self._left < 0:
            self._error = MediaError("too_long", "There is more audio in the file than is read.")
            self._free()

    def _decoded(self) -> Generator[bytes, None, None]:
        """Pieces of well below a second; at the end :attr:`_error` is known."""
        mono = MonoStream(self._rate)
        for frame in self._frames:
            yield from mono.feed(frame)
        yield from mono.flush()
        self._error = self._frames.error


class _Frames:
    """Frames of a stream, as far as they can be read."""

    def __init__(self, container: Container, stream: Stream) -> None:
        self._container = container
        self._stream = stream
        self._failures = 0
        """Parts that couldn't be read since one that could."""

        self._any = False
        self.error: MediaError | None = None
        """Why there are no more; known at the end."""

    def __iter__(self) -> Iterator[Frame]:
        for packet in self._packets():
            for frame in self._decode(packet):
                self._failures = 0
                self._any = True
                yield frame
        if self._failures > MAX_FAILURES:
            self.error = MediaError("broken", "The file is damaged: the rest can't be read.")
        elif not self._any and self._failures:
            self.error = MediaError("broken", "The file is damaged: nothing of it can be read.")
        elif not self._any:
            self.error = MediaError("no_audio", "There is no sound in the file.")

    def _packets(self) -> Iterator[Packet]:
        from av.error import FFmpegError

        packets = self._container.demux(self._stream)
        while self._failures <= MAX_FAILURES:
            try:
                packet = next(packets, None)
            except (FFmpegError, ValueError):
                # It may go on behind what it can't read.
                self._failures += 1
                packets = self._container.demux(self._stream)
                continue
            if packet is None:
                return
            yield packet

    def _decode(self, packet: Packet) -> Sequence[Frame]:
        from av.error import FFmpegError

        try:
            frames = packet.decode() if packet.size <= MAX_PACKET_BYTES else None
        except (FFmpegError, ValueError):
            frames = None
        if frames is not None and all(map(is_sane, frames)):
            return [frame for frame in frames if frame.samples]
        self._failures += 1
        return ()


def _audio_stream(container: Container) -> Stream:
    if not container.streams.audio:
        raise MediaError("no_audio", "The file has no audio track.")
    streams = cast("Sequence[Stream]", container.streams.audio)
    known = next((each for each in streams if is_read(each)), None)
    if known is None:
        raise MediaError("not_audio", "The file's audio track is in a codec that is not read.")
    known.codec_context.thread_count = 1
    return known


def _duration(container: Container, stream: Stream) -> float | None:
    if stream.duration and stream.time_base:
        seconds = float(stream.duration * stream.time_base)
    else:
        seconds = (container.duration or 0) / 1_000_000
    return seconds if seconds > 0 else None
