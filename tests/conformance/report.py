"""What a client's run found, and the table of all of them in ``docs/clients.md``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

TABLE = Path(__file__).parents[2] / "docs" / "clients.md"

OK = "ok"

KINDS = ("scripted", "real")
"""Servers that clients are run against: given lines, and the embedded models."""

FEATURES = (
    "connect",
    "configure",
    "spoken turn",
    "transcription",
    "text turn",
    "tool call",
    "interruption",
    "truncation",
    "end",
)
"""What every client's script tries, in this order.

``connect``: the connection is open and the session has begun. ``configure``: instructions,
tools and turn detection are taken. ``spoken turn``: a question is streamed as a microphone
does, and a reply sounds. ``transcription``: the client is told what was asked. ``text turn``: a
written message is answered. ``tool call``: a function runs, its output goes back, and the model
goes on. ``interruption``: the reply stops when the person speaks over it. ``truncation``: the
client says what was heard, and that is acknowledged. ``end``: the connection ends clean.
"""


SPEECH = "speech"
"""A third server: a real voice, a recognizer of many languages, and given lines."""

SPEECH_FEATURES = (
    "speech",
    "file formats",
    "speech events",
    "transcription",
    "word times",
    "streamed transcript",
    "translation",
    "refusal",
)
"""What the scripts of clients of the speech endpoints try, against :data:`SPEECH`."""

MEDIA = "media"
"""A server of pictures and clips."""

MEDIA_FEATURES = (
    "picture",
    "partial pictures",
    "edit",
    "variation",
    "video",
    "video files",
    "video list",
    "remix",
    "delete",
    "refusal",
)
"""What the scripts of clients of pictures and clips try, against :data:`MEDIA`."""

_OF_KIND = {SPEECH: SPEECH_FEATURES, MEDIA: MEDIA_FEATURES}


def features_of(kind: str) -> tuple[str, ...]:
    """What is tried with a kind of server."""
    return _OF_KIND.get(kind, FEATURES)


class Report(msgspec.Struct, forbid_unknown_fields=True):
    """The one JSON object that a script prints, on the last line of its output."""

    features: dict[str, str]
    """By name: ``ok``, or why not."""

    errors: list[str] = []
    """Every error, unknown event and parse failure that the client's own side noticed."""


@dataclass(frozen=True)
class Client:
    """A public client, as its package is installed.

    Args:
        name: How tests and the table call it.
        package: The index and the package, as ``PyPI openai``.
        version: Exactly what is installed.
        command: Returns the command line before the job's JSON text; makes the client's
            environment first, so it may take long.
        folder: Where it is run.
        dialect: ``GA`` or ``beta``; empty where it has none, at the speech endpoints.
        turns: How its script takes turns: ``server VAD``, ``semantic VAD``, ``push to talk``.
        secure: Whether it speaks TLS only.
        lacks: Features that the client itself has no way to, and why.
        real_lacks: The same, where the embedded model answers.
    """

    name: str
    package: str
    version: str
    command: Callable[[], list[str]]
    folder: Path
    dialect: str = ""
    turns: str = ""
    secure: bool = False
    lacks: Mapping[str, str] = field(default_factory=dict[str, str])
    real_lacks: Mapping[str, str] = field(default_factory=dict[str, str])

    def lacking(self, kind: str) -> Mapping[str, str]:
        """Return what can't be tried with a kind of server, and why."""
        return {**self.lacks, **(self.real_lacks if kind == "real" else {})}


def read_report(output: str) -> Report:
    """Return the report at the end of what a script printed.

    Raises:
        AssertionError: there is none; the message holds the end of the output.
    """
    lines = output.strip().splitlines()
    try:
        return msgspec.json.decode(lines[-1], type=Report)
    except (IndexError, msgspec.MsgspecError) as error:
        tail = "\n".join(lines[-30:])
        raise AssertionError(f"no report at the end of the output ({error}):\n{tail}") from None


def faults(client: Client, kind: str, report: Report) -> list[str]:
    """Return in words what is not as it must be; empty where all is well."""
    lacks = client.lacking(kind)
    features = features_of(kind)
    told = [(name, report.features.get(name, "not reported")) for name in features]
    found = [f"{name}: {why}" for name, why in told if name not in lacks and why != OK]
    found += [
        f"{name}: works, though declared as lacking"
        for name, why in told
        if name in lacks and why == OK
    ]
    found += [f"unknown feature: {name}" for name in report.features if name not in features]
    return found + [f"error: {error}" for error in report.errors]


HEAD = """\
# Clients

Public clients, unmodified, at the versions that the tests install. This file is written by
`tests/conformance`, which runs every one of them; a feature counts only where the client noticed
no error in the whole run. A dash is something that the client has no way to.

Those of the Realtime protocol are run against a server with given lines (`scripted`) and against
the embedded models (`real`). Those of the [speech endpoints](#speech-endpoints)
and of [pictures and clips](#pictures-and-clips) are further down.

| feature | what is tried |
|---|---|
| spoken turn | a question is streamed as a microphone does, and a reply sounds |
| transcription | the client is told what was asked |
| text turn | a written message is answered |
| tool call | a function runs, its output goes back, and the model goes on |
| interruption | speaking over the reply stops it |
| truncation | the client says how much was heard, and that is acknowledged |

`wss` clients can't be told to do without TLS.
"""

SPEECH_HEAD = """
## Speech endpoints

`/v1/audio/speech`, `/v1/audio/transcriptions` and `/v1/audio/translations`, with the embedded voice
and the recognizer `whisper-base`.

| feature | what is tried |
|---|---|
| speech | a text is spoken, and its sound read in pieces |
| file formats | MP3, Opus, AAC, FLAC and WAV |
| speech events | the same as server-sent events |
| transcription | what is asked in a WAV file is written down |
| word times | `verbose_json` with the times of words and segments, and the language |
| streamed transcript | events while the file is read |
| translation | the answer is English; so is the file here |
| refusal | what is not served is told as the client tells errors |

"""

MEDIA_HEAD = """
## Pictures and clips

`/v1/images` and `/v1/videos`, with small models, a worker and a queue of their own.

| feature | what is tried |
|---|---|
| picture | two pictures of one prompt, as PNG and WebP, in the answer and behind a URL |
| partial pictures | a picture is streamed while it forms |
| edit | a picture goes in, with a mask |
| variation | a picture goes in alone |
| video | a clip is ordered, and polled until it is there |
| video files | the film, its thumbnail and its spritesheet |
| video list | all clips, page by page |
| remix | the same clip by other words |
| delete | one that waits or is made is stopped and gone |
| refusal | what is not served is told as the client tells errors |

"""

COLUMNS = FEATURES[2:-1]
"""``connect``, ``configure`` and ``end`` are part of each of the others."""


def table(
    found: Mapping[tuple[str, str], Report],
    clients: Iterable[Client],
    speech_clients: Iterable[Client],
    media_clients: Iterable[Client],
) -> str:
    """Return the text of :data:`TABLE`, given the report of each (client's name, kind)."""
    clients = sorted(clients, key=lambda client: (client.dialect == "beta", client.name))
    head = ("client", "package", "dialect", "scheme", "turns", *COLUMNS)
    text = HEAD
    notes: dict[str, int] = {}
    for kind in KINDS:
        rows = [_row(client, kind, found[client.name, kind], notes) for client in clients]
        text += f"\n## {kind.capitalize()}\n\n" + _lines([head, ("---",) * len(head), *rows])
    for kind, about, some in (
        (SPEECH, SPEECH_HEAD, speech_clients),
        (MEDIA, MEDIA_HEAD, media_clients),
    ):
        names = ("client", "package", *features_of(kind))
        rows = [
            (client.name, _package(client), *_cells(client, kind, found[client.name, kind], notes))
            for client in sorted(some, key=lambda client: client.name)
        ]
        text += about + _lines([names, ("---",) * len(names), *rows])
    if notes:
        text += "\n" + "".join(f"{number}. {note}\n" for note, number in notes.items())
    return text


def _row(client: Client, kind: str, report: Report, notes: dict[str, int]) -> tuple[str, ...]:
    scheme = "wss" if client.secure else "ws"
    about = (client.name, _package(client), client.dialect, scheme, client.turns)
    return (*about, *_cells(client, kind, report, notes))


def _cells(client: Client, kind: str, report: Report, notes: dict[str, int]) -> Iterable[str]:
    lacks = client.lacking(kind)
    for feature in _OF_KIND.get(kind, COLUMNS):
        if feature in lacks:
            yield f"– ({notes.setdefault(lacks[feature], len(notes) + 1)})"
        elif report.features.get(feature) != OK:
            yield "**fails**"
        else:
            yield "with errors" if report.errors else "yes"


def _package(client: Client) -> str:
    index, _, name = client.package.rpartition(" ")
    return f"{index} `{name}` {client.version}"


def _lines(rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
