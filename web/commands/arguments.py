"""The arguments of ``antiphon say | transcribe | talk | worker``; nothing of what they run is imported."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Protocol

from ..paths import DEFAULT_CONFIG

URL_VARIABLE = "ANTIPHON_URL"
KEY_VARIABLE = "ANTIPHON_API_KEY"

TEXT_FORMATS = ("text", "json", "srt", "vtt", "verbose_json")
SOUND_FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")


class Commands(Protocol):
    """Where commands are added: what ``add_subparsers`` returns."""

    def add_parser(self, name: str, *, help: str) -> argparse.ArgumentParser:  # noqa: A002
        """Add one."""
        ...


def add_commands(commands: Commands) -> None:
    """Add the four commands."""
    _add_say(commands.add_parser("say", help="speak a text: to a file, or aloud"))
    _add_transcribe(commands.add_parser("transcribe", help="write what is said in recordings"))
    _add_talk(commands.add_parser("talk", help="talk with microphone and loudspeaker"))
    _add_worker(commands.add_parser("worker", help="make pictures and clips that a server accepts"))


def _add_say(say: argparse.ArgumentParser) -> None:
    say.add_argument("text", nargs="?", help="the text; - or a pipe: from standard input")
    say.add_argument("--file", type=Path, help="file of the text")
    say.add_argument("-o", dest="out", metavar="FILE", help="file to write; - for standard output")
    say.add_argument("--format", choices=SOUND_FORMATS, help="default: by the suffix of FILE")
    say.add_argument("--play", action="store_true", help="play it, beside writing FILE")
    say.add_argument("--voice", help="default: the deployment's; see --list-voices")
    say.add_argument("--speed", type=float, default=1.0, help="0.25 to 4, default: %(default)s")
    say.add_argument("--loudness", type=float, help="LUFS, -36 to -12; default: as the voice is")
    say.add_argument("--list-voices", action="store_true", help="print the voices, and end")
    say.add_argument("--output", metavar="DEVICE", help="sound device: a number or part of a name")
    _add_server(say)
    _add_config(say, "deployment whose voice speaks where no server is asked")
    say.set_defaults(run=_say)


def _add_transcribe(transcribe: argparse.ArgumentParser) -> None:
    transcribe.add_argument("files", nargs="+", type=Path, metavar="FILE")
    transcribe.add_argument("-o", dest="out", metavar="OUT", help="file, or folder for several")
    transcribe.add_argument("--format", choices=TEXT_FORMATS, help="default: by OUT, or text")
    transcribe.add_argument("--language", help="ISO 639-1; default: it is found")
    transcribe.add_argument("--translate", action="store_true", help="write it in English")
    transcribe.add_argument("--words", action="store_true", help="times of words: verbose_json")
    transcribe.add_argument("--model", help="recognizer of the catalogue, where no server is asked")
    _add_server(transcribe)
    transcribe.set_defaults(run=_transcribe)


def _add_talk(talk: argparse.ArgumentParser) -> None:
    talk.add_argument("--input", metavar="DEVICE", help="microphone: a number or part of a name")
    talk.add_argument("--output", metavar="DEVICE", help="loudspeaker, in the same way")
    talk.add_argument("--list-devices", action="store_true", help="print the devices, and end")
    _add_server(talk)
    _add_config(talk, "deployment of the server that is started where none is named")
    talk.set_defaults(run=_talk)


def _add_worker(worker: argparse.ArgumentParser) -> None:
    _add_config(worker, "deployment whose pictures and clips are made")
    worker.add_argument("--data", type=Path, help="folder of what the server keeps")
    worker.add_argument("--embedded", action="store_true", help=argparse.SUPPRESS)
    worker.set_defaults(run=_worker)


def _add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url", help=f"a running server; default: ${URL_VARIABLE}; empty: none is asked"
    )
    parser.add_argument("--key", help=f"API key of the server; default: ${KEY_VARIABLE}")


def _add_config(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--config", help=f"{what} (default: {DEFAULT_CONFIG})")


def _say(args: argparse.Namespace) -> int:
    from .say import run_say

    return run_say(args)


def _transcribe(args: argparse.Namespace) -> int:
    from .transcribe import run_transcribe

    return run_transcribe(args)


def _talk(args: argparse.Namespace) -> int:
    from .talk import run_talk

    return run_talk(args)


def _worker(args: argparse.Namespace) -> int:
    from .worker import run_worker

    return run_worker(args)
