"""Piper's voices: VITS graphs, cut in three where that can be done without a difference.

The *front* turns phoneme ids into durations and a sample of the prior, a whole clause at
once; the *flow* turns any stretch of that into latents, step by step; the decoder,
*code2wav*, any stretch of those into samples. Most of its work is at the rate of the samples
and reaches a fraction of a frame to each side: where it can be cut once more, context is only
computed up to there. A graph that can't be cut is a front that makes samples at once; they are
handed on as frames. :mod:`.intake` makes the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...chunks import Latents, Word
from ..graph import Graph
from .contexts import require_context, require_same
from .family import Count, NotNegative, VoiceModel, read_model
from .phonemes import PhonemeSequence, Phonemizer
from .seams import Seam, tail_ms
from .steps import Chain, Frames, Step
from .word_times import word_times

NEEDS: Mapping[str, str] = {"piper": "antiphon[piper]", "onnxruntime": "antiphon[speech]"}

FRONT_FILE = "front.onnx"
FLOW_FILES = "flow-{}.onnx"
"""Its steps, counted from 1."""

CODE2WAV_FILE = "code2wav.onnx"
LOW_FILE = "code2wav-low.onnx"
HIGH_FILE = "code2wav-high.onnx"
"""The decoder in two, in place of the one."""

QUIET = 0.01
"""Of the loudest sample: what is below is silence, where the graph tells no durations."""


class FlowStep(msgspec.Struct, frozen=True, kw_only=True):
    """A graph from the output of the step before, or the prior."""

    output: str
    """``(1, channels, n)``; the last are the latents."""

    context_frames: NotNegative
    """How far a frame of its output reaches into its input, on each side."""


class Joint(msgspec.Struct, frozen=True, kw_only=True):
    """What goes from the low half of a decoder into the high one."""

    tensor: str
    """``(1, c, n * rate)``."""

    rate: Count
    """Of its frames, in one of latents."""

    context: NotNegative
    """Of its frames, how many the high half needs on each side."""


class PiperModel(VoiceModel, frozen=True, kw_only=True):
    """What the two halves must know beside the graphs."""

    espeak: str
    """Language of the phonemes, as espeak names it."""

    whole: bool = False
    """Whether there is only a front, which makes samples: ``hop`` of them are a frame."""

    speakers: dict[str, NotNegative] = {}
    """Number of each voice in the graph, where it has several."""

    flow: tuple[FlowStep, ...] = ()
    """Steps from the prior to the latents."""

    joint: Joint | None = None
    """Where the decoder is cut in two, if it is."""

    prior: str
    """Name of the front's output: what the flow reads, ``(1, channels, frames)``, or samples."""

    mask: str = ""
    """Name of the other input of each step, ``(1, 1, frames)``: 1 where there are frames."""

    durations: str = ""
    """Name of the front's output with the frames of each phoneme id; empty without one."""

    latents: str = ""
    """Name of the flow's last output, which is the decoder's input, ``(1, channels, frames)``."""

    output: str = "output"
    """Name of the decoder's output."""

    noise_scale: float
    length_scale: float
    noise_w: float
    phoneme_id_map: dict[str, tuple[NotNegative, ...]]


def load_talker(folder: Path, threads: int, variation: float) -> PiperTalker:
    """Load the first half; takes about half a second.

    Raises:
        StageFailure: a package is missing or the folder can't be used.
    """
    return PiperTalker(folder, threads, variation)


def load_decoder(folder: Path, threads: int) -> PiperDecoder:
    """Load the second half.

    Raises:
        StageFailure: a package is missing or the folder can't be used.
    """
    return PiperDecoder(folder, threads)


class PiperDraft:
    """A clause of which the words' times are known and the latents are still to be made."""

    def __init__(self, latents: Chain, picks: NDArray[np.int64], words: tuple[Word, ...]) -> None:
        """``picks``: which frames of ``latents`` the clause has, ascending."""
        self._latents = latents
        self._picks = picks
        self._words = words

    @property
    def left(self) -> int:
        """Frames not made yet."""
        return len(self._picks)

    def next(self, size: int) -> Latents:
        """Make the next frames, at most ``size``; the words come with the first of them."""
        picks, self._picks = self._picks[:size], self._picks[size:]
        words, self._words = self._words, ()
        made = self._latents.upto(int(picks[-1]) + 1 if len(picks) else 0)
        return Latents(made[:, picks], words, last=not self.left)


class PiperTalker:
    """The loaded first half of a model. For use in one thread."""

    def __init__(self, folder: Path, threads: int, variation: float = 1.0) -> None:
        """``variation``: of rhythm and sound from one time to the next, 1 the voice's own."""
        self._model: PiperModel = read_model(folder, PiperModel)
        self._phonemizer = Phonemizer(self._model.espeak, self._model.phoneme_id_map)
        self._front = Graph(folder / FRONT_FILE, threads)
        self._variation = variation
        self._flow = flow_steps(folder, self._model, threads)
        for number, step in enumerate(self._flow, 1):
            name = f"context_frames of step {number}"
            require_context(name, step.run, self._model.channels, step.context)

    @property
    def model(self) -> PiperModel:
        """What it was loaded from."""
        return self._model

    def draft(self, text: str, speed: float, voice: str) -> PiperDraft | None:
        """Begin a clause, or ``None`` if nothing in it can be pronounced.

        Silence at the ends is brought to the length that the punctuation asks for.
        """
        sequence = self._phonemizer.ids(text)
        if sequence is None:
            return None
        prior, bounds = self._run_front(sequence, speed, voice)
        seam = Seam(
            first_sound=bounds[sequence.groups[0][0]],
            # The pad after the last sound is silence already.
            last_sound=bounds[sequence.groups[-1][1] - 1],
            tail=round(tail_ms(text) / speed / self._model.frame_ms),
        )
        picks = seam.picks(prior.shape[1])
        words = self._words(text, sequence, bounds, seam.cut, len(picks))
        return PiperDraft(Chain(self._flow, prior), picks, words)

    def _run_front(
        self, sequence: PhonemeSequence, speed: float, voice: str
    ) -> tuple[Frames, list[int]]:
        """What the flow reads, and where each phoneme id begins, and the last ends."""
        model = self._model
        scales = [
            model.noise_scale * self._variation,
            model.length_scale / speed,
            model.noise_w * self._variation,
        ]
        inputs = front_inputs(sequence.ids, scales, model.speakers.get(voice))
        names = [model.prior, *filter(None, [model.durations])]
        made, *durations = self._front.run(inputs, names)
        prior = _framed(made, model.hop) if model.whole else made[0]
        if durations:
            return prior, [0, *np.cumsum(durations[0].ravel(), dtype=np.int64).tolist()]
        return prior, _guessed(prior, sequence)

    def _words(
        self, text: str, sequence: PhonemeSequence, bounds: list[int], cut: int, frames: int
    ) -> tuple[Word, ...]:
        def at(index: int) -> float:
            return min(max(bounds[index] - cut, 0), frames) * self._model.frame_ms

        words = text.split()
        return word_times(
            words,
            [self._phonemizer.sounds(word) for word in words],
            [(at(start), at(stop)) for start, stop in sequence.groups],
            [(stop - start) // 2 for start, stop in sequence.groups],
        )


class PiperDecoder:
    """The loaded second half of a model. Several threads may use it at once."""

    def __init__(self, folder: Path, threads: int) -> None:
        model: PiperModel = read_model(folder, PiperModel)
        self._model = model
        low = high = None
        if model.joint is not None:
            low, high = (Graph(folder / each, threads) for each in (LOW_FILE, HIGH_FILE))
        elif not model.whole:
            high = Graph(folder / CODE2WAV_FILE, threads)
        self._decode = decoding(low, high, model.latents, model.output, model.hop, model.joint)
        if not model.whole:
            require_context("context_frames", self._alone, model.channels, model.context_frames)
            require_same("joint.context", self.run, model.channels, model.context_frames)

    @property
    def model(self) -> PiperModel:
        """What it was loaded from."""
        return self._model

    def run(
        self, frames: NDArray[np.float32], left: int = 0, right: int = 0
    ) -> NDArray[np.float32]:
        """Samples of frames ``(batch, channels, n)`` but for so many at both ends.

        ``(batch, (n - left - right) * hop)``.
        """
        return self._decode(frames, left, right)

    def _alone(self, frames: Frames) -> NDArray[np.float32]:
        samples: NDArray[np.float32] = self.run(frames[np.newaxis])[0]
        return samples


Decoding: TypeAlias = Callable[[NDArray[np.float32], int, int], NDArray[np.float32]]
"""See :meth:`PiperDecoder.run`."""


def decoding(
    low: Graph | None, high: Graph | None, latents: str, output: str, hop: int, joint: Joint | None
) -> Decoding:
    """What decodes with these graphs: with both, with one, or with none, frames being samples."""

    def run(frames: NDArray[np.float32], left: int, right: int) -> NDArray[np.float32]:
        given, rate = latents, 1
        if low is not None and joint is not None:
            (frames,) = low.run({latents: frames}, [joint.tensor])
            given, rate = joint.tensor, joint.rate
            # Of the context only what the high half needs goes on.
            far = [max(0, each * rate - joint.context) for each in (left, right)]
            frames = frames[:, :, far[0] : frames.shape[2] - far[1]]
            left, right = left * rate - far[0], right * rate - far[1]
        made = high.run({given: frames}, [output])[0] if high else frames.transpose(0, 2, 1)
        samples = made.reshape(len(frames), -1)
        return samples[:, left * hop // rate : samples.shape[1] - right * hop // rate]

    return run


def flow_steps(folder: Path, model: PiperModel, threads: int) -> list[Step]:
    """Load the steps of the flow.

    Raises:
        StageFailure: a package is missing or the folder can't be used.
    """
    steps: list[Step] = []
    given = model.prior
    for number, step in enumerate(model.flow, 1):
        graph = Graph(folder / FLOW_FILES.format(number), threads)
        run = flow_run(graph, given, model.mask, step.output)
        steps.append(Step(run, step.context_frames))
        given = step.output
    return steps


def flow_run(graph: Graph, given: str, mask: str, output: str) -> Callable[[Frames], Frames]:
    """What runs a graph of frames to frames."""

    def run(frames: Frames) -> Frames:
        inputs = {given: frames[np.newaxis]}
        if mask:
            inputs[mask] = np.ones((1, 1, frames.shape[1]), np.float32)
        (made,) = graph.run(inputs, [output])
        flowed: Frames = made[0]
        return flowed

    return run


def front_inputs(
    ids: tuple[int, ...], scales: list[float], speaker: int | None
) -> dict[str, NDArray[Any]]:
    """What a Piper graph is given. ``scales``: of noise, of length, of noise in the rhythm."""
    inputs: dict[str, NDArray[Any]] = {
        "input": np.array([ids], np.int64),
        "input_lengths": np.array([len(ids)], np.int64),
        "scales": np.array(scales, np.float32),
    }
    if speaker is not None:
        inputs["sid"] = np.array([speaker], np.int64)
    return inputs


def _framed(samples: NDArray[np.float32], hop: int) -> Frames:
    """Samples as frames of which each channel is one of ``hop``; the last is filled up."""
    flat = samples.ravel()
    frames = np.pad(flat, (0, -len(flat) % hop)).reshape(-1, hop).T
    return np.ascontiguousarray(frames)


def _guessed(frames: Frames, sequence: PhonemeSequence) -> list[int]:
    """Bounds of the ids where the graph tells none: evenly, from first sound to last."""
    loud = np.abs(frames).max(axis=0, initial=0.0)
    sound = np.flatnonzero(loud > QUIET * loud.max(initial=0.0))
    begin, end = (int(sound[0]), int(sound[-1]) + 1) if len(sound) else (0, frames.shape[1])
    first, last = sequence.groups[0][0], sequence.groups[-1][1] - 1
    within = np.linspace(begin, end, last - first + 1).round().astype(int).tolist()
    after = [frames.shape[1]] * (len(sequence.ids) - last)
    return [*[begin] * first, *within, *after]
