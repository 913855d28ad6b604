"""Soprano: 15.6 steps a second, a vocoder on what its language model thinks, not on what it says.

The vocoder is made for the last hidden states of the language model, and engines of such models
give tokens alone. So the same body, a ``Qwen3Model`` without its head, hears the tokens once more
here, with a cache of its own, and the states are what they were. It has to hear what came before
them as well: a stream wants its prompt as ``lead``. *Codes* are all tokens of the model.

The sound of a token is made of the state that *predicted* it, the one after the token before it:
so it was in training. The authors' own streaming takes the state after the token, one step late.

The folder is one as its authors publish it: the language model's, with ``decoder.pth`` or the
same as ``decoder.safetensors``. Computed in single precision, whatever is asked for: what
overlaps is added up over time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ...chunks import Samples, StageError
from ...stage import StageFailure
from ..streaming.attention import StreamTransformer
from ..streaming.chain import Chain
from ..streaming.interpolation import LinearUpsample
from ..streaming.layer import Extent, Rate, State, StreamLayer
from ..streaming.runner import StreamRunner, StreamState, as_samples, exact_card
from .decoder import Codes, DecoderOptions, DecoderState
from .folder import fill, read_weights, unusable
from .pretrained import load_pretrained
from .vocos_model import Vocoder, VocosSettings

NAME = "soprano"

RATE = 32_000
"""Samples a second."""

RATIO = 4
"""Spectra for each token."""

OVERLAP = 4
"""Spectra that add to a sample."""

SLACK = 64
"""Positions that the cache has besides those of a stream: for the end, when there are no tokens
any more and the vocoder still looks ahead."""

DIGIT = 128
"""Where a stream begins is kept in two digits, each of which any precision can hold."""

VOCODER_FILES = ("decoder.safetensors", "decoder.pth")


class SpokenStates(StreamLayer):
    """The states that predict tokens, and those between them on straight lines.

    State: how many tokens were heard ahead of the first step, ``(batch, 2)``; the vector of the
    token before the next step, ``(batch, hidden, 1)``; keys and values; the last state.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.limit = int(model.config.max_position_embeddings)
        self.embed: nn.Embedding = model.embed_tokens
        self.transformer = StreamTransformer(model, window=None, room=self.limit + SLACK)
        self.between = LinearUpsample(int(model.config.hidden_size), RATIO)

    def _joined(self, before: Rate) -> Rate:
        return self.between.join(self.transformer.join(before))

    def new_state(self, batch: int, like: Tensor) -> State:
        """Of streams that :meth:`begin` has yet to be told of."""
        heard = self.transformer.new_state(batch, like)
        token = like.new_zeros(batch, self.embed.embedding_dim, 1)
        return [like.new_zeros(batch, 2), token, *heard, *self.between.new_state(batch, like)]

    def begin(self, tokens: Tensor, state: State) -> None:
        """Hear the prompt, ``(1, count)`` int64, of the one stream that ``state`` is of.

        The first tensors of ``state`` are this layer's; others may follow.
        """
        count = tokens.shape[1] - 1
        vectors = self.embed(tokens)
        if count:
            positions = torch.arange(count, device=tokens.device)[None]
            cache = state[2 : 2 + 2 * len(self.transformer.blocks)]
            self.transformer.run(vectors[:, :count], positions, cache)
        state[0][:, 0] = count // DIGIT
        state[0][:, 1] = count % DIGIT
        state[1].copy_(vectors[:, -1:].transpose(1, 2))

    def feed(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """Vectors of tokens, ``(batch, hidden, count)``, to ``(batch, hidden, count * 4)``."""
        digits = state[0].long()
        ahead = digits[:, :1] * DIGIT + digits[:, 1:]
        before = torch.cat((state[1], values[..., :-1]), dim=-1).transpose(1, 2)
        state[1].copy_(values[..., -1:])
        positions = extent.positions(self.before, values.shape[-1]) + ahead
        heard = self.transformer.run(before, positions, state[2:-1])
        return self.between.feed(heard.transpose(1, 2), state[-1:], extent)


@dataclass(slots=True, eq=False)
class LedState(StreamState):
    """A stream with a prompt."""

    prompt: int = 0
    """Its tokens."""

    lead: Codes | None = None
    """The prompt, until it was heard."""


class SopranoRunner(StreamRunner):
    """A runner whose streams begin with a prompt. Without one, they begin with a token of the
    model that begins texts."""

    def __init__(self, model: Any, vocoder: Vocoder, options: DecoderOptions | None = None) -> None:
        """``model``: a ``Qwen3Model``, which it goes on using."""
        self._model = model
        self._vocoder = vocoder
        self._states = SpokenStates(model)
        self._begin = np.array([[model.config.bos_token_id or 0]], np.int32)
        body = Chain([self._states, *vocoder.layers()])
        sizes = (int(model.config.vocab_size),)
        card = exact_card(NAME, sample_rate=RATE, sizes=sizes, body=body)
        super().__init__(card, front=self._vectors, body=body, whole=self.decode, options=options)

    def open(self, seed: int = 0, *, lead: Codes | None = None) -> LedState:
        """Begin a stream after a prompt, which its first push hears.

        Raises:
            ValueError: the prompt's shape is not ``(1, tokens)``, or a token is none.
        """
        lead = self._led(lead)
        state = super().open(seed)
        return LedState(state.tensors, state.seed, prompt=lead.shape[1], lead=lead)

    def push(
        self, states: Sequence[DecoderState], codes: Sequence[Codes], last: Sequence[bool]
    ) -> list[Samples]:
        """As :meth:`.decoder.Decoder.push`.

        Raises:
            ValueError: as there; or a stream becomes longer than the model's context.
        """
        count = codes[0].shape[1] if codes else 0
        streams = self._checked(states, codes, last)
        for stream in streams:
            if not isinstance(stream, LedState):
                raise ValueError("expected a stream of this decoder")
            if stream.prompt + stream.steps + count > self._states.limit:
                raise ValueError(
                    f"expected at most {self._states.limit} tokens, the prompt's "
                    f"{stream.prompt} among them, got {stream.prompt + stream.steps + count}"
                )
        with torch.inference_mode():
            for stream in streams:
                if count and isinstance(stream, LedState) and stream.lead is not None:
                    self._states.begin(self._ids(stream.lead), stream.tensors)
                    stream.lead = None
        return super().push(states, codes, last)

    def decode(self, codes: Codes, *, lead: Codes | None = None) -> Samples:
        """A whole decode: the language model as a whole, its states as a whole.

        Raises:
            ValueError: as :meth:`push` and :meth:`open`.
        """
        self._check(codes)
        lead = self._led(lead)
        count = codes.shape[1]
        if count < 2:
            return np.zeros(0, np.float32)
        with torch.inference_mode():
            heard = self._ids(np.concatenate((lead, codes[:, :-1]), axis=1))
            thought: Tensor = self._model(input_ids=heard, use_cache=False).last_hidden_state
            spoken = thought[:, -count:].transpose(1, 2)
            size = RATIO * (count - 1) + 1
            spoken = functional.interpolate(spoken, size=size, mode="linear", align_corners=True)
            return as_samples(self._vocoder(spoken)[0, 0])

    def _led(self, lead: Codes | None) -> Codes:
        """The prompt, which was checked."""
        if lead is None or not lead.size:
            return self._begin
        self._check(lead)
        return lead

    def _vectors(self, codes: Tensor) -> Tensor:
        """Tokens, ``(batch, 1, count)``, to ``(batch, hidden, count)``."""
        vectors: Tensor = self._model.embed_tokens(codes[:, 0])
        return vectors.transpose(1, 2)

    def _ids(self, codes: Codes) -> Tensor:
        """On the model's device."""
        return torch.as_tensor(codes.astype(np.int64)).to(self._model.device)


def load(folder: Path, options: DecoderOptions) -> SopranoRunner:
    """As :meth:`.decoder.DecoderModule.load`."""
    options = replace(options, dtype="float32")
    model = load_pretrained(NAME, "Qwen3Model", folder, options, kind="qwen3")
    weights = read_weights(folder, VOCODER_FILES)
    try:
        vocoder = Vocoder(_settings(weights))
    except (KeyError, ValueError, RuntimeError) as error:
        raise unusable(f"the vocoder in {folder} is none of Soprano: {error!r}") from None
    fill(vocoder, _renamed(weights), folder)
    if vocoder.settings.channels != int(model.config.hidden_size):
        width = vocoder.settings.channels
        raise unusable(f"expected a vocoder of states of {model.config.hidden_size}, got {width}")
    vocoder = vocoder.eval().requires_grad_(False).to(options.device)
    try:
        return SopranoRunner(model, vocoder, options)
    except ValueError as error:
        raise unusable(f"this Soprano can't stream: {error}") from None


def load_encoder(folder: Path, options: DecoderOptions) -> NoReturn:
    """There is none: it has one voice.

    Raises:
        StageFailure: always, ``encoder_missing``.
    """
    what = "Soprano has no encoder, so that no voices can be made of recordings"
    raise StageFailure(StageError("encoder_missing", what))


def _settings(weights: Mapping[str, Tensor]) -> VocosSettings:
    """The vocoder's shape, which its weights tell; how they are used is the same in all."""
    width, channels, enter_kernel = weights["decoder.embed.weight"].shape
    size = weights["head.out.weight"].shape[0] - 2
    return VocosSettings(
        channels=channels,
        width=width,
        inner=weights["decoder.convnext.0.pwconv1.weight"].shape[0],
        blocks=sum(name.endswith(".dwconv.weight") for name in weights),
        enter_kernel=enter_kernel,
        kernel=weights["decoder.convnext.0.dwconv.weight"].shape[-1],
        size=size,
        hop=size // OVERLAP,
        padding="center",
        silent=True,
    )


def _renamed(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The authors' names in those of :class:`.vocos_model.Vocoder`; windows are computed."""
    return {
        f"backbone.{name.removeprefix('decoder.')}" if name.startswith("decoder.") else name: value
        for name, value in weights.items()
        if name.startswith(("decoder.", "head.out."))
    }
