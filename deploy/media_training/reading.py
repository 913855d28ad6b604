# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Teaching the text model to understand captions, before anything is drawn.

From what it says at the end of a caption, and after it, small heads have to tell the facts of the
scene. That takes minutes, as no picture is needed; what draws then begins with text that it can
use, which otherwise is what it learns last.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from .captions import say
from .glyphs import COLOURS, TINTS, glyphs
from .runner import Learner, Losses, Phase, Report, learn
from .scenes import PLACES, SIZES, Facts, choose
from .words import POSITIONS, WIDTH, text_model

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


def train_reader(folder: Path, words: Any, seconds: float, report: Report, seed: int = 1) -> Any:
    """Teach the text model, or take it as it is once taught; frozen."""
    torch.manual_seed(seed)
    model, path = text_model(len(words)), folder / "model.pt"
    if path.exists():
        model.load_state_dict(torch.load(path, weights_only=True))
        return model.requires_grad_(False).eval()
    # The gradient of the fused attention is slow in bfloat16 on a CPU.
    model.set_attn_implementation("eager")
    heads = nn.ModuleList(nn.Linear(WIDTH, len(choices)) for choices in CHOICES.values())
    rng = np.random.default_rng(seed)
    phase = Phase(seconds=seconds, rate=2e-3, average=0.99, sheet_seconds=1e9)
    learner = Learner({"text": model, "heads": heads}, phase)

    def losses() -> tuple[Losses, int]:
        facts = [choose(rng) for _ in range(BATCH)]
        ids = tokens(words, [say(each, rng) for each in facts])
        ends = (ids == words.eos_token_id).int().argmax(1)
        # Any place from the end of the caption on: all of them are to know everything.
        at = ends + (torch.rand(BATCH) * (POSITIONS - ends)).long()
        with torch.autocast("cpu", torch.bfloat16):
            states = read(model, ids)
        state = states[torch.arange(BATCH), at].float()
        wanted = torch.tensor([answers(each) for each in facts])
        said = [head(state) for head in heads]
        loss = sum(
            (functional.cross_entropy(each, wanted[:, n]) for n, each in enumerate(said)),
            torch.zeros(()),
        )
        right = {
            name: (said[n].argmax(1) == wanted[:, n]).float().mean()
            for n, name in enumerate(CHOICES)
        }
        return {"loss": loss, **right}, BATCH

    learn(learner, losses, folder, report)
    learner.swap()
    partial = path.with_suffix(".partial")
    torch.save(model.state_dict(), partial)
    partial.rename(path)
    return model.requires_grad_(False).eval()
