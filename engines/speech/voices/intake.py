"""From the two files that Piper exports to a voice model's folder, cut and verified.

Nobody vouches for such files: a server prepares them in a process of its own, with bounds on
its time and memory (:func:`prepared`), in which the voice also has to say something.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ...chunks import StageError
from ...stage import StageFailure
from .cutting import find_cut, find_durations, read_graph, unusable
from .description import language_of, probe_of, read_description, speakers_of, summary_of
from .family import VOICE_FILE, VoiceModel, family_of, read_model
from .parts import run_whole, write_parts
from .piper import PiperModel

HOP = 256
"""Samples of a frame where the graph's own can't be found."""

SECONDS = 300.0
"""In which a voice must be prepared; it takes about five."""

MEMORY_BYTES = 8 << 30
"""Address space of the process that prepares. It uses about a GB; libraries reserve more."""

NICENESS = 5
"""Lowered priority of that process."""

WORDS = "1 2 3"
"""What is said for a try: every language has words for figures."""


def prepare_piper(
    graph: Path, description: Path, out: Path, *, name: str, summary: str = ""
) -> None:
    """Make a voice model's files in the empty folder ``out``; takes a few seconds.

    ``name``: of the voice; several speakers are ``name:speaker``.

    Raises:
        StageFailure: it is no voice that can be spoken with (``voice_unusable``).
        ImportError: ``onnx`` is not installed.
    """
    described = read_description(description)
    model = read_graph(graph)
    inputs = {each.name for each in model.graph.input}
    inputs -= {each.name for each in model.graph.initializer}
    several = described.num_speakers > 1
    expected = {"input", "input_lengths", "scales"} | ({"sid"} if several else set[str]())
    if inputs != expected:
        wanted, got = (", ".join(sorted(each)) for each in (expected, inputs))
        raise unusable(f"expected a graph with the inputs {wanted}, got {got}")
    speakers = speakers_of(described, name) if several else {}
    said: dict[str, Any] = {
        "family": "piper",
        "voices": tuple(speakers) or (name,),
        "language": language_of(described),
        "summary": summary or summary_of(described),
        "sample_rate": described.audio.sample_rate,
        "espeak": described.espeak.voice,
        "speakers": speakers,
        "noise_scale": described.inference.noise_scale,
        "length_scale": described.inference.length_scale,
        "noise_w": described.inference.noise_w,
        "phoneme_id_map": described.phoneme_id_map,
    }
    ids = probe_of(described)
    cut = None if several else find_cut(model)
    found = write_parts(model, cut, ids, out) if cut else None
    said |= found or _left_whole(model, ids, out, 0 if several else None)
    _write(said, out)


def _left_whole(model: Any, ids: tuple[int, ...], out: Path, speaker: int | None) -> dict[str, Any]:
    """Write the graph as it is, with its durations as an output; what to know of it."""
    for file in out.iterdir():
        file.unlink()
    output: str = model.graph.output[0].name
    durations = find_durations(model)
    hop = _hop(model, ids, out, speaker, [output, durations]) if durations else None
    if hop is None:
        durations = ""
        (samples,) = run_whole(model, ids, speaker, [output], out)
        if not samples.size:
            raise unusable("the graph makes no sound")
    hop = hop or HOP
    return {
        "whole": True,
        "hop": hop,
        "channels": hop,
        "context_frames": 0,
        "prior": output,
        "durations": durations,
    }


def _hop(
    model: Any, ids: tuple[int, ...], out: Path, speaker: int | None, outputs: list[str]
) -> int | None:
    """Samples of a frame as the durations count them, if they do."""
    try:
        samples, frames = run_whole(model, ids, speaker, outputs, out)
    except StageFailure as error:
        if error.error.code == "package_missing":
            raise
        return None
    hop, rest = divmod(samples.size, max(1, round(float(frames.sum()))))
    return None if rest or not 0 < hop <= 4 * HOP else hop


def _write(said: Mapping[str, Any], out: Path) -> None:
    try:
        msgspec.convert(said, PiperModel, strict=True)
    except msgspec.ValidationError as error:
        raise unusable(f"the description is not one that can be used: {error}") from None
    (out / VOICE_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(said)))


def try_out(folder: Path) -> None:
    """Have a model say a few words with its first voice, and the last.

    Raises:
        StageFailure: it can't (``voice_unusable``), or a package is missing.
    """
    model: VoiceModel = read_model(folder)
    family = family_of(model)
    try:
        talker, decoder = family.load_talker(folder, 1, 1.0), family.load_decoder(folder, 1)
        for voice in dict.fromkeys((model.voices[0], model.voices[-1])):
            draft = talker.draft(WORDS, 1.0, voice)
            if draft is None:
                raise unusable(
                    f"the voice can't pronounce {WORDS!r}: its phonemes are not espeak's"
                )
            sound = decoder.run(draft.next(draft.left).frames[np.newaxis])
            if not sound.size or not np.isfinite(sound).all() or not sound.any():
                raise unusable("the voice makes no sound")
    except StageFailure as error:
        if error.error.code == "model_unusable":
            raise unusable(error.error.message) from None
        raise
    except Exception:
        # Whatever its graph or its phonemes do.
        raise unusable(f"the voice can't say {WORDS!r}") from None


async def prepared(graph: Path, description: Path, out: Path, name: str) -> None:
    """Do :func:`prepare_piper` and :func:`try_out` in a process, which ends with this.

    Raises:
        StageFailure: what they raise; or that it took too long, too much memory, or died.
    """
    command = [sys.executable, "-P", "-m", __name__, *map(str, (graph, description, out)), name]
    child = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(SECONDS):
            told, _ = await child.communicate()
    except TimeoutError:
        raise unusable(f"the voice took more than {SECONDS:.0f} s to prepare") from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    try:
        error = msgspec.json.decode(told, type=StageError | None)
    except msgspec.DecodeError:
        raise unusable("preparing the voice failed: too little memory, or a broken graph") from None
    if error is not None:
        raise StageFailure(error)


def main(graph: str, description: str, out: str, name: str) -> None:
    """Prepare, try, and print what went wrong as JSON, or ``null``."""
    _step_back()
    error: StageError | None = None
    try:
        prepare_piper(Path(graph), Path(description), Path(out), name=name)
        try_out(Path(out))
    except StageFailure as failure:
        error = failure.error
    except ImportError as missing:
        hint = f"{missing.name} is not installed: run `pip install 'antiphon[speech]'`"
        error = StageError("package_missing", hint)
    sys.stdout.buffer.write(msgspec.json.encode(error))


def _step_back() -> None:
    """Let live speech go first, and fail rather than take all memory."""
    # Unix modules; elsewhere there are no such bounds.
    if sys.platform == "linux":
        import resource

        os.nice(NICENESS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


if __name__ == "__main__":
    main(*sys.argv[1:])
