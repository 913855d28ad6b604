# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""What the teacher says: phonemes, how long each is, and latents, without any noise.

Without noise latents and durations are a function of the phonemes, which is all that a small
student has to learn.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...engines.speech.graph import Graph
from ...engines.speech.voices.family import read_model
from ...engines.speech.voices.phonemes import Phonemizer
from ...engines.speech.voices.piper import FRONT_FILE, PiperModel, flow_steps, front_inputs
from ...engines.speech.voices.steps import Chain

LEAD, TAIL = 3, 14
"""Frames of silence that are left ahead of the first sound and after the last."""

SHARD = 200
"""Utterances of a file."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """One utterance."""

    symbols: str
    """Of the phonemes, from the first sound on; marks such as those of stress among them."""

    frames: NDArray[np.int32]
    """How long each is; the first one with the silence ahead, the last with that after it."""

    latents: NDArray[np.float16]
    """``(channels, sum of frames)``."""


class Teacher:
    """The first half of a Piper voice, without noise."""

    def __init__(self, folder: Path) -> None:
        self.model: PiperModel = read_model(folder, PiperModel)
        self._phonemizer = Phonemizer(self.model.espeak, self.model.phoneme_id_map)
        self._symbol = {ids[0]: symbol for symbol, ids in self.model.phoneme_id_map.items()}
        self._front = Graph(folder / FRONT_FILE, 1)
        self._flow = flow_steps(folder, self.model, 1)

    def say(self, text: str) -> Spoken | None:
        """Make the latents of a sentence; ``None`` where nothing in it can be pronounced."""
        sequence = self._phonemizer.ids(text)
        if sequence is None:
            return None
        model = self.model
        inputs = front_inputs(sequence.ids, [0.0, model.length_scale, 0.0], None)
        prior, counts = self._front.run(inputs, [model.prior, model.durations])
        latents = Chain(self._flow, prior[0]).upto(prior.shape[2])
        # Begin, pad, (symbol, pad) of each, end.
        counts = counts.ravel().astype(np.int64)
        symbols = "".join(self._symbol[each] for each in sequence.ids[2:-1:2])
        frames = counts[2:-1:2] + counts[3:-1:2]
        lead, tail = int(counts[:2].sum()), int(counts[-1])
        before, after = min(lead, LEAD), min(tail, TAIL)
        frames[0] += before
        frames[-1] += after
        kept = latents[:, lead - before : latents.shape[1] - (tail - after)]
        return Spoken(symbols, frames.astype(np.int32), kept.astype(np.float16))


def make(folder: Path, texts: Sequence[str], out: Path, processes: int) -> Iterator[Path]:
    """Say ``texts`` into shards in ``out``; yields each shard when it is there.

    Those that are there already are not made again.
    """
    out.mkdir(parents=True, exist_ok=True)
    todo = [
        (folder, texts[at : at + SHARD], out / f"{at // SHARD:04d}.npz")
        for at in range(0, len(texts), SHARD)
    ]
    missing = [each for each in todo if not each[2].exists()]
    yield from (each[2] for each in todo if each[2].exists())
    if processes <= 1:
        yield from map(_make_shard, missing)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(_make_shard, missing)


def _make_shard(job: tuple[Path, Sequence[str], Path]) -> Path:
    folder, texts, path = job
    teacher = Teacher(folder)
    said = [each for each in map(teacher.say, texts) if each is not None]
    partial = path.with_suffix(".partial.npz")
    np.savez(
        partial,
        symbols=np.array([each.symbols for each in said]),
        counts=np.array([len(each.frames) for each in said], np.int64),
        frames=np.concatenate([each.frames for each in said]),
        latents=np.concatenate([each.latents for each in said], axis=1),
    )
    os.replace(partial, path)
    return path


def read_shard(path: Path) -> list[Spoken]:
    """The utterances of a shard."""
    with np.load(path) as held:
        symbols, counts = held["symbols"], held["counts"]
        frames, latents = held["frames"], held["latents"]
    bounds = np.concatenate([[0], np.cumsum(counts)])
    ends = np.concatenate([[0], np.cumsum(frames, dtype=np.int64)])
    return [
        Spoken(
            str(symbols[n]),
            frames[bounds[n] : bounds[n + 1]],
            latents[:, ends[bounds[n]] : ends[bounds[n + 1]]],
        )
        for n in range(len(counts))
    ]
