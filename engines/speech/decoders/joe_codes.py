# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Codes of our own talker: to latents of a Piper voice, and these to sound by its decoder.

A stretch of latents is computed once and kept as long as it is context. The voice's decoder is
given its stretches with their context on both sides, of which it makes what it makes of the
whole; see :mod:`..voices.piper`. It runs on the CPU, whatever device is asked for: so short is
its work that it isn't worth the way.

The folder holds ``codec.json``, ``codec.safetensors`` and the second half of a voice; without one
it is that of the catalogue's ``piper-joe``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from ...catalog import default_cache_root, require
from ...chunks import Samples, StageError
from ...stage import StageFailure
from ..voices.family import VOICE_FILE, VoiceDecoder
from ..voices.piper import load_decoder
from .decoder import Codes, DecoderCard, DecoderOptions, DecoderState
from .folder import fill, read_weights, unusable
from .joe_latents import LatentNet, LatentShape

NAME = "joe-codes"

SHAPE_FILE = "codec.json"
WEIGHTS_FILE = "codec.safetensors"

VOICE = "piper-joe"
"""Whose latents these are, where the folder has no voice."""


@dataclass(slots=True, eq=False)
class JoeState:
    """One stream."""

    codes: Codes
    """The last ones, as many as a later step's latents depend on or are still to be made of."""

    latents: NDArray[np.float32]
    """The last ones, ``(channels, n)``: what is still to be decoded, and its context ahead."""

    steps: int = 0
    """That were pushed."""

    made: int = 0
    """Steps of which there are latents, or were."""

    decoded: int = 0
    """Frames of which there were samples."""

    ended: bool = field(default=False)


class JoeDecoder:
    """See :class:`.decoder.Decoder`."""

    def __init__(self, net: LatentNet, voice: VoiceDecoder) -> None:
        """``net``: on the CPU.

        Raises:
            StageFailure: latents of the one are none of the other.
        """
        model, shape = voice.model, net.shape
        if shape.channels != model.channels:
            what = f"the codec's latents have {shape.channels} channels, the voice's"
            raise unusable(f"{what} {model.channels}")
        self._net = net.eval().requires_grad_(False)
        self._voice = voice
        self._context = model.context_frames
        self._card = DecoderCard(
            name=NAME,
            sample_rate=model.sample_rate,
            hop=shape.frames * model.hop,
            sizes=(shape.codes,) * shape.books,
            lookahead=(shape.reach * shape.frames + self._context) * model.hop,
        )

    @property
    def card(self) -> DecoderCard:
        """What it is."""
        return self._card

    def open(self, seed: int = 0) -> JoeState:
        """Begin a stream. There is no noise, so that ``seed`` changes nothing."""
        shape = self._net.shape
        empty = np.zeros((shape.channels, 0), np.float32)
        return JoeState(np.zeros((shape.books, 0), np.int32), empty)

    def push(
        self, states: Sequence[DecoderState], codes: Sequence[Codes], last: Sequence[bool]
    ) -> list[Samples]:
        """Go on with some streams; see :meth:`.decoder.Decoder.push`."""
        mine = [self._checked(each) for each in states]
        self._check(codes, last, len(mine))
        return [self._go_on(*each) for each in zip(mine, codes, last, strict=True)]

    def decode(self, codes: Codes) -> Samples:
        """A whole decode, all at once."""
        self._check([codes], [True], 1)
        return self._sound(self._latents(codes), 0, 0)

    def _checked(self, state: DecoderState) -> JoeState:
        if not isinstance(state, JoeState):
            raise TypeError(f"expected a state of this decoder, got {type(state).__name__}")
        if state.ended:
            raise ValueError("expected streams that go on, got one that has ended")
        return state

    def _check(self, codes: Sequence[Codes], last: Sequence[bool], count: int) -> None:
        shape = self._net.shape
        if len(codes) != count or len(last) != count:
            raise ValueError(f"expected codes and ends of {count} streams")
        sizes = {each.shape for each in codes}
        if len(sizes) > 1 or any(each.ndim != 2 or len(each) != shape.books for each in codes):
            raise ValueError(f"expected codes of one size, of {shape.books} codebooks each")
        if not all(last) and any(not each.shape[1] for each in codes):
            raise ValueError("expected codes, or streams that all end")
        for each in codes:
            if each.size and not 0 <= each.min() <= each.max() < shape.codes:
                raise ValueError(f"expected codes from 0 to {shape.codes - 1}")

    def _go_on(self, state: JoeState, codes: Codes, last: bool) -> Samples:
        shape, context = self._net.shape, self._context
        state.steps += codes.shape[1]
        state.ended = last
        state.codes = np.concatenate([state.codes, codes], axis=1)
        # Steps are certain when those beside them are known, frames likewise.
        certain = state.steps if last else max(state.made, state.steps - shape.reach)
        begin = state.steps - state.codes.shape[1]
        new = self._latents(state.codes)[
            :, (state.made - begin) * shape.frames : (certain - begin) * shape.frames
        ]
        state.latents = np.concatenate([state.latents, new], axis=1)
        state.made = certain
        frames = certain * shape.frames
        stop = frames if last else max(state.decoded, frames - context)
        left = state.latents.shape[1] - (frames - state.decoded)
        samples = self._sound(state.latents, left, frames - stop)
        state.decoded = stop
        self._forget(state)
        return samples

    def _forget(self, state: JoeState) -> None:
        """Let go of what is no context any more."""
        shape = self._net.shape
        kept = state.steps - max(0, state.made - shape.reach)
        state.codes = state.codes[:, state.codes.shape[1] - kept :].copy()
        frames = state.made * shape.frames - max(0, state.decoded - self._context)
        state.latents = state.latents[:, state.latents.shape[1] - frames :].copy()
        if state.ended:
            state.codes, state.latents = state.codes[:, :0], state.latents[:, :0]

    def _latents(self, codes: Codes) -> NDArray[np.float32]:
        """``(channels, n)``; those near an end are of a stream that begins or ends there."""
        if not codes.shape[1]:
            return np.zeros((self._net.shape.channels, 0), np.float32)
        with torch.inference_mode():
            made = self._net(torch.from_numpy(codes.astype(np.int64))[None])
        latents: NDArray[np.float32] = made[0].numpy()
        return latents

    def _sound(self, latents: NDArray[np.float32], left: int, right: int) -> Samples:
        if latents.shape[1] <= left + right:
            return np.zeros(0, np.float32)
        made: Samples = self._voice.run(np.ascontiguousarray(latents[np.newaxis]), left, right)[0]
        return made


def load(folder: Path, options: DecoderOptions) -> JoeDecoder:
    """As :meth:`.decoder.DecoderModule.load`."""
    net, voice = read_net(folder), folder
    if not (folder / VOICE_FILE).exists():
        voice = require(VOICE, default_cache_root(os.environ))[1]
    return JoeDecoder(net, load_decoder(voice, options.threads))


def read_net(folder: Path) -> LatentNet:
    """What makes latents of codes, out of a folder.

    Raises:
        StageFailure: it isn't there, or can't be read.
    """
    try:
        shape = msgspec.json.decode((folder / SHAPE_FILE).read_bytes(), type=LatentShape)
    except (OSError, msgspec.MsgspecError) as error:
        raise unusable(f"expected the codec's shape in {folder / SHAPE_FILE}: {error}") from None
    net = LatentNet(shape)
    weights = read_weights(folder, (WEIGHTS_FILE,))
    fill(net, {name: tensor.float() for name, tensor in weights.items()}, folder)
    return net.requires_grad_(False)


def load_encoder(folder: Path, options: DecoderOptions) -> NoReturn:
    """There is none: the codes are of one voice.

    Raises:
        StageFailure: always, ``encoder_missing``.
    """
    what = "this codec knows one voice alone, so that none can be made of recordings"
    raise StageFailure(StageError("encoder_missing", what))
