"""What may come in from outside: the keys ``media.fetch`` and ``media.inputs`` of a deployment."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Meta

Positive = Annotated[int, Meta(ge=1)]
Pixels = Annotated[int, Meta(ge=1, le=64 << 20)]
"""No more are decoded, whatever is allowed."""

Seconds = Annotated[float, Meta(gt=0, le=600)]

_HOST = re.compile(
    r"(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[1-9][0-9]{0,4})?|\[[0-9a-f:.]+\](:\d+)?"
)


class FetchConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``media.fetch``: which URLs of clients the server follows. None, unless hosts are named."""

    hosts: tuple[str, ...] = ()
    """Hosts that may be fetched from and told of ends: ``example.com``, ``*.example.com`` (what
    is below it, not itself), with a port (``example.com:8443``) where it is not 80 or 443. What
    they resolve to must be public."""

    private_hosts: tuple[str, ...] = ()
    """The same, of hosts that may be on a private network or on this machine."""

    seconds: Seconds = 30.0
    """For all of a fetch, redirects included."""

    redirects: Annotated[int, Meta(ge=0, le=10)] = 3
    """Most redirects that are followed; each goes through all the checks again."""

    concurrency: Positive = 8
    """Fetches at once; more wait."""

    def __post_init__(self) -> None:
        """Refuse what is no host."""
        for key, hosts in (("hosts", self.hosts), ("private_hosts", self.private_hosts)):
            for host in hosts:
                if not _HOST.fullmatch(host):
                    raise ValueError(
                        f"{key}: expected hosts in small letters such as example.com, "
                        f"*.example.com or example.com:8443, got {host[:80]!r}"
                    )


class InputLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``media.inputs``: how large files may be that go into a job."""

    picture_bytes: Positive = 25 << 20
    picture_pixels: Pixels = 16 << 20
    video_bytes: Positive = 100 << 20
    video_pixels: Pixels = 2 << 20
    """Of each frame; ``video_frames`` times that, times six, is the memory that one takes."""

    video_frames: Positive = 300
    concurrency: Positive = 2
    """Files decoded at once; more wait."""

    def key(self, name: str) -> str:
        """How a message names one of these fields."""
        return f"media.inputs.{name}"
