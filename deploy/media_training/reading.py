# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Teaching the text model to understand captions, before anything is drawn.

From what it says at the end of a caption, and after it, small heads have to tell the facts of the
scene, and what the glyphs look like: a few numbers that a rough picture of each follows from. That
takes minutes, as nothing is drawn; what draws then begins with text that it can use, which
otherwise is what it learns last, and glyphs that look alike have texts that are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from .captions import say
from .glyphs import COLOURS, TINTS, glyphs, sprite, tinted
from .runner import Learner, Losses, Phase, Report, learn, write_whole
from .scenes import PLACES, SIZES, Facts, choose
from .words import POSITIONS, text_model

BATCH = 128
NAMES = [glyph.name for glyph in glyphs()]
CHOICES: dict[str, list[str]] = {
    "first": NAMES,
    "second": ["", *NAMES],
    "background": list(COLOURS),
    "tint": ["", *TINTS],
    "count": ["1", "2", "3", "4"],
    "place": list(PLACES),
    "size": list(SIZES),
    "beside": ["beside", "above"],
}
"""What the heads tell, and what each may say."""


LOOKS = 40
"""Numbers that say what a glyph looks like."""

ROUGH = 12
"""Pixels of a side of what they say."""

LOOKING = 3.0
"""What an error of them counts, beside the facts."""

Lesson = tuple[Tensor, list[list[int]], list[Tensor]]
"""States ``(n, width)``, and for each the right answers and looks."""


@cache
def looks() -> Tensor:
    """What each glyph looks like as it is and in each tint: ``(glyphs, 1 + tints, LOOKS)``.

    The principal components of rough pictures, the strongest tempered, of about unit variance.
    """
    drawn = [
        sprite(name, 2 * ROUGH) if tint is None else tinted(name, 2 * ROUGH, tint)
        for name in NAMES
        for tint in (None, *TINTS)
    ]
    whole = torch.from_numpy(np.stack(drawn).astype(np.float32) / 255)
    whole[..., :3] *= whole[..., 3:]
    rough = functional.avg_pool2d(whole.permute(0, 3, 1, 2), 2).flatten(1)
    first, spread, _ = torch.linalg.svd(rough - rough.mean(0), full_matrices=False)
    found = first[:, :LOOKS] * spread[:LOOKS].sqrt()
    made: Tensor = (found / found.std()).view(len(NAMES), 1 + len(TINTS), LOOKS)
    return made


def look(glyph: str, tint: str | None) -> Tensor:
    """What one glyph looks like: ``(LOOKS,)``."""
    return looks()[NAMES.index(glyph), 0 if tint is None else 1 + TINTS.index(tint)]


def looks_of(facts: Facts) -> Tensor:
    """Of the first glyph, and of the second or nothing: ``(2 * LOOKS,)``."""
    made = [look(name, facts.tint) for name in facts.glyphs]
    return torch.cat([*made, torch.zeros(LOOKS)])[: 2 * LOOKS]


def answers(facts: Facts) -> list[int]:
    """The right ones, in the order of :data:`CHOICES`."""
    said = {
        "first": facts.glyphs[0],
        "second": facts.glyphs[1] if len(facts.glyphs) > 1 else "",
        "background": facts.background,
        "tint": facts.tint or "",
        "count": str(facts.count),
        "place": facts.place,
        "size": facts.size,
        "beside": facts.beside,
    }
    return [CHOICES[name].index(value) for name, value in said.items()]


def read(model: Any, ids: Tensor) -> Tensor:
    """States ``(n, POSITIONS, WIDTH)`` of tokens ``(n, POSITIONS)``."""
    states: Tensor = model(ids).last_hidden_state
    return states


def tokens(words: Any, captions: list[str]) -> Tensor:
    """Ids ``(n, POSITIONS)``, as the pipeline has them."""
    ids: Tensor = words(
        captions, padding="max_length", truncation=True, return_tensors="pt"
    ).input_ids
    return ids


def answered(
    heads: nn.ModuleList, state: Tensor, wanted: Tensor, choices: Iterable[str]
) -> tuple[Tensor, Losses]:
    """The loss of answers ``wanted``, ``(n, choices)``, given states ``(n, width)``; and for each
    choice by name how many were right."""
    said = [head(state) for head in heads]
    loss = sum(
        (functional.cross_entropy(each, wanted[:, n]) for n, each in enumerate(said)),
        torch.zeros(()),
    )
    right = {
        name: (said[n].argmax(1) == wanted[:, n]).float().mean() for n, name in enumerate(choices)
    }
    return loss, right


def taught(
    model: Any,
    choices: Mapping[str, Sequence[str]],
    numbers: int,
    lesson: Callable[[], Lesson],
    folder: Path,
    seconds: float,
    report: Report,
) -> Any:
    """Teach a text model, or take it as it is once taught; frozen.

    Args:
        model: Untaught.
        choices: What its states have to tell.
        numbers: How many of looks they have to tell.
        lesson: The next batch.
        folder: Where it is kept.
        seconds: How long it learns.
        report: Takes lines of progress.
    """
    path = folder / "model.pt"
    # The gradient of the fused attention is slow in bfloat16 on a CPU.
    model.set_attn_implementation("eager")
    if path.exists():
        model.load_state_dict(torch.load(path, weights_only=True))
        return model.requires_grad_(False).eval()
    width = model.config.hidden_size
    heads = nn.ModuleList(nn.Linear(width, len(each)) for each in choices.values())
    eye = nn.Linear(width, numbers)
    phase = Phase(seconds=seconds, rate=2e-3, average=0.99, sheet_seconds=1e9)
    learner = Learner({"text": model, "heads": heads, "eye": eye}, phase)

    def losses() -> tuple[Losses, int]:
        state, right, seen = lesson()
        loss, told = answered(heads, state, torch.tensor(right), choices)
        missed = (eye(state) - torch.stack(seen)).square().mean()
        return {"loss": loss + LOOKING * missed, "look": missed.detach(), **told}, len(state)

    learn(learner, losses, folder, report)
    learner.swap()
    write_whole(model.state_dict(), path)
    return model.requires_grad_(False).eval()


def train_reader(folder: Path, words: Any, seconds: float, report: Report, seed: int = 1) -> Any:
    """See :func:`taught`."""
    torch.manual_seed(seed)
    model, rng = text_model(len(words)), np.random.default_rng(seed)

    def lesson() -> Lesson:
        facts = [choose(rng) for _ in range(BATCH)]
        ids = tokens(words, [say(each, rng) for each in facts])
        ends = (ids == words.eos_token_id).int().argmax(1)
        # Any place from the end of the caption on: all of them are to know everything.
        at = ends + (torch.rand(BATCH) * (POSITIONS - ends)).long()
        with torch.autocast("cpu", torch.bfloat16):
            states = read(model, ids)
        state = states[torch.arange(BATCH), at].float()
        return state, [answers(each) for each in facts], [looks_of(each) for each in facts]

    return taught(model, CHOICES, 2 * LOOKS, lesson, folder, seconds, report)
