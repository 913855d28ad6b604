"""Prompts make a difference: what is asked for is what is seen, whoever is made beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.support.diffusion import Bench, load_model, task_for
from tests.support.learnt_pipeline import COLOURS, PROMPTS, SIDE, make

from antiphon.engines.diffusion.model import Model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


ASKED = {f"{prompt}-{seed}": prompt for seed in (1, 2) for prompt in PROMPTS}


def seen(picture: NDArray[np.uint8]) -> tuple[str, str]:
    """The colour of a picture's coloured half, and where that is."""
    middle = SIDE // 2
    halves = {"left": picture[:, :middle], "top": picture[:middle]}
    rest = {"left": picture[:, middle:], "top": picture[middle:]}
    # White is bright in its darkest channel.
    place = max(
        halves, key=lambda name: float(rest[name].min(2).mean() - halves[name].min(2).mean())
    )
    mean = halves[place].reshape(-1, 3).mean(0)
    return min(COLOURS, key=lambda name: float(np.abs(mean - COLOURS[name]).sum())), place


def made_together(model: Model) -> dict[str, tuple[str, str]]:
    """What is seen of each."""
    bench = Bench(model, max_rows=4, max_tasks=12)
    for at, (name, prompt) in enumerate(ASKED.items()):
        # They come one after the other, take different counts of steps, and end in another order.
        size = {"width": SIDE, "height": SIDE}
        steps = 30 - at
        task = task_for(model.abilities, prompt=prompt, seed=at, steps=steps, guidance=1.0, **size)
        bench.add(name, task)
        bench.turn()
    bench.finish()
    return {name: seen(bench.picture(name).frames[0]) for name in ASKED}


def test_each_prompt_gives_its_own_picture_in_any_company(tmp_path: Path) -> None:
    make(tmp_path / "model")
    model = load_model(tmp_path / "model")
    with torch.no_grad():
        told = made_together(model)
    right = [name for name, prompt in ASKED.items() if told[name] == PROMPTS[prompt]]
    # It has learnt for some seconds only; by chance two would be right.
    assert len(right) >= 10, told
