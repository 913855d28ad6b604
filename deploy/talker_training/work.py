# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""The folder of a training run: each part is made once, and what is there is gone on from."""

from __future__ import annotations

import os
import wave
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ...engines.speech.decoders.joe_codes import JoeDecoder
from ...engines.speech.decoders.joe_latents import LatentNet, LatentShape
from ...engines.speech.families.joe_units import ANY, units_of
from ...engines.speech.voices.piper import PiperDecoder
from . import codec, export, learning, speaking, teacher, texts
from .examples import Example, Spelling, Utterance, pairs_in
from .student import Student, StudentShape

LONGEST = 1000
"""Tokens of an example: what is longer is left out."""

FITTED = 1500
"""Utterances by which the codebooks are found."""

SAMPLES = 8
"""Held-out sentences that are spoken at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is made, and how long it may take."""

    sentences: int
    held_out: int = 200
    """Sentences, the first of all, that are never read to the student."""

    codec_seconds: float
    learning: learning.LearningPlan
    processes: int = 2
    student: StudentShape = StudentShape()
    codes: LatentShape = LatentShape()
    seed: int = 1
    roots: tuple[Path, ...] = ()
    temperature: float = 0.3
    longest_sample: int = 900
    """Tokens."""


class Work:
    """One run, in one folder."""

    def __init__(
        self, folder: Path, voice: Path, plan: Plan, report: Callable[[str], None]
    ) -> None:
        """``voice``: the teacher's folder, a Piper voice cut in its parts."""
        self.folder, self._voice, self._plan, self._report = folder, voice, plan, report
        folder.mkdir(parents=True, exist_ok=True)

    def run(self) -> Path:
        """Do all that isn't done yet; the folder of the model."""
        sentences = self.sentences()
        shards = self._say(sentences[self._plan.held_out :])
        net = self._codec(shards)
        utterances = self._utterances(shards, net)
        pairs = pairs_in(utterances)
        spelling = Spelling(pairs, net.shape.codes)
        examples = self._examples(utterances, spelling, net)
        torch.manual_seed(self._plan.seed)
        student = Student(self._plan.student, net, pairs)
        learning.learn(student, net, examples, self._plan.learning, self.folder, self._report)
        student.float().requires_grad_(False)
        out = self.folder / "model"
        size = export.write(student, net, self._voice, out)
        self._report(f"{out}: {size / 1e6:.1f} MB")
        self._samples(student, net, spelling, sentences[:SAMPLES])
        return out

    def sentences(self) -> list[str]:
        """All sentences; those held out come first."""
        path = self.folder / "sentences.txt"
        if not path.exists():
            plan = self._plan
            made = texts.sentences(plan.sentences + plan.held_out, plan.seed, plan.roots)
            path.write_text("\n".join(made), encoding="utf-8")
        return path.read_text(encoding="utf-8").split("\n")

    def _say(self, sentences: Sequence[str]) -> list[Path]:
        folder = self.folder / "spoken"
        shards: list[Path] = []
        for shard in teacher.make(self._voice, sentences, folder, self._plan.processes):
            shards.append(shard)
            self._report(f"spoken: {len(shards)} of {-(-len(sentences) // teacher.SHARD)} files")
        return sorted(shards)

    def _codec(self, shards: Sequence[Path]) -> LatentNet:
        path, plan = self.folder / "codec.pt", self._plan
        net = LatentNet(plan.codes)
        if path.exists():
            net.load_state_dict(torch.load(path, weights_only=True))
            return net.requires_grad_(False)
        said: list[NDArray[np.float16]] = []
        for shard in shards:
            said += [each.latents for each in teacher.read_shard(shard)]
            if len(said) >= FITTED:
                break
        self._report("codec: how well each channel is heard")
        heard = np.concatenate(said[:20], axis=1).astype(np.float32)
        weights = codec.sensitivity(PiperDecoder(self._voice, 1), heard)
        self._report("codec: codebooks")
        net = codec.fit(said, weights, plan.codes)
        codes = [codec.encode(net, each) for each in said]
        left = codec.refine(net, codes, said, plan.codec_seconds)
        self._report(f"codec: {100 * left:.0f} % of the linear decoder's error is left")
        _save(net.state_dict(), path)
        return net.requires_grad_(False)

    def _utterances(self, shards: Sequence[Path], net: LatentNet) -> list[Utterance]:
        made: list[Utterance] = []
        for shard in shards:
            path = self.folder / "codes" / f"{shard.stem}.npz"
            said = teacher.read_shard(shard)
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                held = {str(n): codec.encode(net, each.latents) for n, each in enumerate(said)}
                np.savez(path, **held)  # type: ignore[arg-type]
                self._report(f"codes: {path.name}")
            with np.load(path) as codes:
                for number, each in enumerate(said):
                    units, frames = units_of(each.symbols, each.frames.tolist())
                    made.append(Utterance(units, frames, codes[str(number)]))
        return made

    def _examples(
        self, utterances: Sequence[Utterance], spelling: Spelling, net: LatentNet
    ) -> list[Example]:
        made = [spelling.example(each, net.shape.frames) for each in utterances]
        kept = [each for each in made if len(each.ids) <= LONGEST]
        self._report(f"{sum(len(each.ids) for each in kept) / 1e6:.2f} M tokens to learn from")
        return kept

    def _samples(
        self, student: Student, net: LatentNet, spelling: Spelling, sentences: Sequence[str]
    ) -> None:
        speaker = teacher.Teacher(self._voice)
        decoder = JoeDecoder(net, PiperDecoder(self._voice, 1))
        known = {unit for unit, after in student.pairs if after == ANY}
        said = [each for each in map(speaker.say, sentences) if each is not None]
        scripts = [
            spelling.script([unit for unit in units_of(each.symbols)[0] if unit in known])
            for each in said
        ]
        plan = self._plan
        codes = speaking.speak(
            student, scripts, temperature=plan.temperature, most=plan.longest_sample
        )
        (self.folder / "samples").mkdir(exist_ok=True)
        for number, each in enumerate(codes):
            path = self.folder / "samples" / f"{number}.wav"
            write_wav(path, decoder.decode(each), decoder.card.sample_rate)


def write_wav(path: Path, samples: NDArray[np.float32], rate: int) -> None:
    """Write mono sound of 16 bit."""
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes((samples.clip(-1, 1) * 32767).astype("<i2").tobytes())


def _save(held: object, path: Path) -> None:
    partial = path.with_suffix(".partial")
    torch.save(held, partial)
    os.replace(partial, path)
