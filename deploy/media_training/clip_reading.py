# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Teaching the text model of clips to understand captions, before anything is drawn.

From what it says at any word of a caption, small heads have to tell all that is true of the clip,
and what the glyph looks like. That takes minutes, as nothing is drawn. What draws looks at all
words alike at first, so that it begins with text it can use; else it draws the same for all
captions for long.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .glyphs import COLOURS, TINTS
from .motion_words import say
from .motions import MOTIONS, NAMES, Facts, choose
from .reading import LOOKS, Lesson, look, taught
from .runner import Report

BATCH = 128
WORDS = 24
"""Tokens of a caption; what is longer is cut off."""

WIDTH = 128

CHOICES: dict[str, list[str]] = {
    "glyph": list(NAMES),
    "background": list(COLOURS),
    "tint": ["", *TINTS],
    "motion": list(MOTIONS),
}
"""What the heads tell, and what each may say."""


def text_model(tokens: int) -> Any:
    """An untaught T5 encoder."""
    from transformers import T5Config, T5EncoderModel

    settings = T5Config(
        vocab_size=tokens,
        d_model=WIDTH,
        d_kv=32,
        d_ff=2 * WIDTH,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        feed_forward_proj="gated-gelu",
    )
    return T5EncoderModel(settings)


def answers(facts: Facts) -> list[int]:
    """The right ones, in the order of :data:`CHOICES`."""
    said = (facts.glyph, facts.background, facts.tint or "", facts.motion)
    return [choices.index(each) for choices, each in zip(CHOICES.values(), said, strict=True)]


def tokens(words: Any, captions: list[str]) -> tuple[Tensor, Tensor]:
    """Ids and mask, both ``(n, WORDS)``, as the pipeline has them."""
    read = words(
        captions, padding="max_length", max_length=WORDS, truncation=True, return_tensors="pt"
    )
    return read.input_ids, read.attention_mask


def states_of(model: Any, words: Any, captions: list[str]) -> Tensor:
    """What the model says, ``(n, WORDS, WIDTH)``; zeros behind the end, as in the pipeline."""
    ids, mask = tokens(words, captions)
    states: Tensor = model(ids, mask).last_hidden_state
    return states * mask[..., None]


def train_reader(folder: Path, words: Any, seconds: float, report: Report, seed: int = 1) -> Any:
    """See :func:`.reading.taught`."""
    torch.manual_seed(seed)
    model, rng = text_model(len(words)), np.random.default_rng(seed)

    def lesson() -> Lesson:
        facts = [choose(rng) for _ in range(BATCH)]
        ids, mask = tokens(words, [say(each, rng) for each in facts])
        at = (torch.rand(BATCH) * mask.sum(1)).long()
        with torch.autocast("cpu", torch.bfloat16):
            states = model(ids, mask).last_hidden_state
        state = states[torch.arange(BATCH), at].float()
        seen = [look(each.glyph, each.at_first) for each in facts]
        return state, [answers(each) for each in facts], seen

    return taught(model, CHOICES, LOOKS, lesson, folder, seconds, report)
