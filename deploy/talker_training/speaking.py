# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Lets a student speak by itself, many utterances at once: for samples and for measuring.

The rules are those of the server's engine: frames of two codes are whole, and after *ask* comes
the next sound of the script, or the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .examples import ASK_ID, BEGIN_ID, STOP_ID
from .student import MARKS, Student


def speak(
    student: Student,
    scripts: Sequence[Sequence[int]],
    *,
    temperature: float,
    top_k: int = 20,
    most: int = 1000,
    seed: int = 0,
) -> list[NDArray[np.int32]]:
    """The codes of each script, ``(2, steps)``; what takes more than ``most`` tokens is cut."""
    chance = torch.Generator().manual_seed(seed)
    voices = [_Voice(script) for script in scripts]
    past: list[list[Tensor]] = [[] for _ in student.layers]
    with torch.inference_mode():
        table, say = student.reading(), student.saying()
        rows = torch.stack(
            [
                torch.cat([say[0], student.ask_row[None]]),
                torch.cat([say[1], torch.zeros_like(student.ask_row[None])]),
            ]
        )
        ids = torch.full((len(voices), 1), BEGIN_ID)
        for _ in range(most):
            hidden = student(ids, past, table)[:, -1]
            slots = torch.tensor([voice.slot for voice in voices])
            logits = torch.einsum("bw,bkw->bk", hidden.float(), rows.float()[slots])
            logits[slots == 1, -1] = float("-inf")
            said = _chosen(logits, temperature, top_k, chance)
            next_ids = [
                voice.take(code, student.codes)
                for voice, code in zip(voices, said.tolist(), strict=True)
            ]
            ids = torch.tensor(next_ids)[:, None]
            if all(voice.done for voice in voices):
                break
    # Whole frames: one that was cut may have half of one.
    whole = [voice.codes[: len(voice.codes) // 2 * 2] for voice in voices]
    return [np.array(codes, np.int32).reshape(-1, 2).T for codes in whole]


def _chosen(logits: Tensor, temperature: float, top_k: int, chance: torch.Generator) -> Tensor:
    if temperature <= 0:
        return logits.argmax(1)
    best = logits.topk(min(top_k, logits.shape[1]), 1)
    picks = torch.multinomial((best.values / temperature).softmax(1), 1, generator=chance)
    return best.indices.gather(1, picks)[:, 0]


class _Voice:
    """Where one utterance is."""

    def __init__(self, script: Sequence[int]) -> None:
        self._script = list(script)
        self._told = 0
        self._forced = True
        self.codes: list[int] = []
        self.done = False

    @property
    def slot(self) -> int:
        """Of the frame."""
        return len(self.codes) % 2

    def take(self, said: int, codes: int) -> int:
        """What is read next, the model having chosen ``said``."""
        if self.done:
            return STOP_ID
        if self._forced:
            self._forced = False
            if self._told == len(self._script):
                self.done = True
                return STOP_ID
            self._told += 1
            return self._script[self._told - 1]
        if self.slot == 0 and said == codes:
            self._forced = True
            return ASK_ID
        token = MARKS + self.slot * codes + said
        self.codes.append(said)
        return token
