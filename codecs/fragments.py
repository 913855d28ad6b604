"""A film that is sent while it is being made: fragmented MP4, as Media Source Extensions takes it.

One piece that says what comes (``ftyp``, ``moov``), then one fragment (``moof``, ``mdat``) for each
run of frames. Each begins with a picture that needs no other and says when it is shown (``tfdt``),
so that a player may begin, or go on, at any of them.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import io
from collections.abc import Iterator
from fractions import Fraction

from .h264 import TICKS, Film, add_video, check_film, even, to_yuv

_MOVFLAGS = "empty_moov+default_base_moof+frag_keyframe+skip_trailer"
_HEADER = (b"ftyp", b"moov")


class FragmentedMovie:
    """Encodes the frames of one film, run by run; it holds nothing back.

    Blocking, and for one thread at a time.
    """

    def __init__(self, width: int, height: int, fps: int) -> None:
        """Begin a film. A side that is odd becomes longer by a pixel.

        Raises:
            ValueError: a size or rate that can't be encoded.
        """
        check_film(width, height, fps)
        self.width, self.height, self.fps = width, height, fps
        self._frames = 0
        self._fragments = 0
        self._init = _picked(self._encode([]), inside=True)

    @property
    def init(self) -> bytes:
        """What a player is given first."""
        return self._init

    @property
    def frames(self) -> int:
        """How many were encoded."""
        return self._frames

    @property
    def codec(self) -> str:
        """As ``MediaSource.addSourceBuffer`` names it (RFC 6381): ``avc1.64001f``."""
        at = self._init.index(b"avcC") + 5
        return f"avc1.{self._init[at : at + 3].hex()}"

    def feed(self, frames: Film) -> bytes:
        """Return one fragment of ``frames``, each uint8 ``(height, width, 3)``; none for none.

        Raises:
            ValueError: a frame is not of the film's size; nothing is encoded then.
        """
        if len(frames) == 0:
            return b""
        fragment = _picked(self._encode(frames), inside=False)
        start, self._frames = self._frames, self._frames + len(frames)
        self._fragments += 1
        return _at_time(fragment, start * TICKS)

    def _encode(self, frames: Film) -> bytes:
        import av

        # Without B frames pictures are stored as they are shown; one key picture, at the start.
        options = {"bf": "0", "g": "1000000", "sc_threshold": "0"}
        file = io.BytesIO()
        muxer = {
            "movflags": _MOVFLAGS,
            "fragment_index": str(self._fragments + 1),
            "video_track_timescale": str(self.fps * TICKS),
        }
        with av.open(file, "w", format="mp4", options=muxer) as container:
            video = add_video(container, self.width, self.height, self.fps, options)
            container.start_encoding()
            for index, pixels in enumerate(frames):
                picture = to_yuv(pixels, self.width, self.height)
                picture.pts, picture.time_base = index, Fraction(1, self.fps)
                container.mux(video.encode(picture))
            container.mux(video.encode(None))
        return file.getvalue()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of what is encoded."""
        return even(self.width), even(self.height)


def boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names of the boxes at the top of a file, and all of each."""
    at = 0
    while at + 8 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        if length < 8:
            raise ValueError("expected boxes of 32-bit lengths")
        yield data[at + 4 : at + 8], data[at : at + length]
        at += length


def _picked(file: bytes, *, inside: bool) -> bytes:
    """The header of a file, or all but it."""
    return b"".join(box for name, box in boxes(file) if (name in _HEADER) is inside)


def _at_time(fragment: bytes, ticks: int) -> bytes:
    """The fragment, shown from ``ticks`` on; each is written as if it were the first."""
    # Before `trun` and `mdat`, and behind nothing that could hold these four letters by chance.
    at = fragment.index(b"tfdt") + 4
    if fragment[at] != 1:
        raise ValueError("expected a time of 64 bits")
    return fragment[: at + 4] + ticks.to_bytes(8, "big") + fragment[at + 12 :]
