"""Rules applied to the logits of a batch; imported where a model runs, and with it PyTorch.

Nothing here loops over a vocabulary: what is forbidden at each place of a frame is a mask made
once for every kind of frame, and a step picks rows of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from .rules import Rules, Script

MASKS = 8
"""Kinds of frames whose masks are kept: a server has one or two."""

NEVER = float("-inf")

Kind: TypeAlias = tuple[tuple[tuple[int, int], ...], tuple[int, ...], bool, int]
"""Of frames: the blocks, the ends, whether there is markup, and the size of the vocabulary."""


class Place:
    """Where in its frame a request is."""

    def __init__(self, frames: Sequence[tuple[int, int]]) -> None:
        self._frames = frames
        self.position = 0
        """Slots of the frame that are said."""

    def take(self, token: int) -> None:
        """Read a token; one that is no code changes nothing."""
        if self._is_code(token, self.position):
            self.position = (self.position + 1) % len(self._frames)
        elif any(self._is_code(token, slot) for slot in range(len(self._frames))):
            # Without a mask at work it may come to this: the frame is broken.
            self.position = int(self._is_code(token, 0)) % len(self._frames)

    def _is_code(self, token: int, slot: int) -> bool:
        base, size = self._frames[slot]
        return base <= token < base + size


class Prompter:
    """Where in its script a request is."""

    def __init__(self, script: Script, stop: int) -> None:
        self._script = script
        self._stop = stop
        self._told = 0
        self._owed = 0

    @property
    def forced(self) -> int | None:
        """What has to be said next; ``None`` where the model is free."""
        if not self._owed:
            return None
        tokens = self._script.tokens
        return tokens[self._told] if self._told < len(tokens) else self._stop

    def take(self, token: int) -> None:
        """Read a token that was said."""
        if self._owed:
            self._told += 1
            self._owed -= 1
        elif token == self._script.ask:
            self._owed = self._script.each


class Row:
    """One request of the batch."""

    def __init__(self, rules: Rules, prompt: Sequence[int] | None, said: Sequence[int]) -> None:
        """``said`` is the engine's own list, which grows; a token below 0 isn't known yet."""
        self.rules = rules
        self._said = said
        self._recent = list(prompt or ())[-rules.window :] if rules.window else []
        self._begin()

    def _begin(self) -> None:
        self._read = 0
        self.place = Place(self.rules.frames) if self.rules.frames else None
        script = self.rules.script
        self.prompter = Prompter(script, self.rules.ends[0]) if script is not None else None

    def advance(self) -> None:
        """Read what was said since the last time."""
        if len(self._said) < self._read:
            self._begin()
        for token in self._said[self._read :]:
            if token < 0:
                return
            self._read += 1
            if self.place is not None:
                self.place.take(token)
            if self.prompter is not None:
                self.prompter.take(token)

    def recent(self) -> list[int]:
        """The last tokens, as many as the penalty looks at."""
        window = self.rules.window
        said = self._said[max(0, self._read - window) : self._read]
        return [*self._recent, *said][-window:]


class Ruler:
    """Applies the rules of all requests of a batch at once."""

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}
        self._masks: OrderedDict[Kind, Tensor] = OrderedDict()

    def put(self, number: int, row: Row | None) -> None:
        """A request is at this place of the batch now; ``None`` where it has no rules, or there
        is none."""
        if row is None:
            self._rows.pop(number, None)
        else:
            self._rows[number] = row

    def move(self, number: int, other: int, *, swap: bool) -> None:
        """A request has gone to another place, and if ``swap`` that one's to its own."""
        moved, replaced = self._rows.pop(number, None), self._rows.pop(other, None)
        self.put(other, moved)
        if swap:
            self.put(number, replaced)

    def apply(self, logits: Tensor) -> None:
        """Change ``logits``, float ``(batch, vocabulary)``, in place."""
        rows = self._rows
        if not rows:
            return
        for row in rows.values():
            row.advance()
        self._punish(logits, rows)
        self._keep_frames(logits, rows)
        self._prompt(logits, rows)

    def _punish(self, logits: Tensor, rows: Mapping[int, Row]) -> None:
        ruled = {n: row for n, row in rows.items() if row.rules.window and row.rules.penalty != 1}
        recent = {n: tokens for n, row in ruled.items() if (tokens := row.recent())}
        if not recent:
            return
        longest = max(map(len, recent.values()))
        # Filled up with one of its own: what is punished twice is written twice the same.
        padded = [[*each, *each[:1] * (longest - len(each))] for each in recent.values()]
        at = torch.tensor(list(recent), device=logits.device)
        ids = torch.tensor(padded, device=logits.device)
        powers = [rows[number].rules.penalty for number in recent]
        power = torch.tensor(powers, device=logits.device, dtype=logits.dtype)[:, None]
        values = logits[at[:, None], ids]
        logits[at[:, None], ids] = torch.where(values > 0, values / power, values * power)

    def _keep_frames(self, logits: Tensor, rows: Mapping[int, Row]) -> None:
        kinds: dict[Kind, list[tuple[int, int]]] = {}
        for number, row in rows.items():
            if row.place is not None:
                rules = row.rules
                kind: Kind = (rules.frames, rules.ends, rules.markup, logits.shape[1])
                kinds.setdefault(kind, []).append((number, row.place.position))
        for kind, places in kinds.items():
            rules = rows[places[0][0]].rules
            mask = self._mask(kind, rules, logits)
            at, positions = torch.tensor(places, device=logits.device).T
            logits[at] = logits[at].masked_fill(mask[positions], NEVER)

    def _mask(self, kind: Kind, rules: Rules, logits: Tensor) -> Tensor:
        """What is forbidden: ``(slots, vocabulary)`` bool."""
        mask = self._masks.get(kind)
        if mask is None:
            mask = self._masks[kind] = _forbidden(rules, logits.shape[1]).to(logits.device)
            if len(self._masks) > MASKS:
                self._masks.popitem(last=False)
        self._masks.move_to_end(kind)
        return mask

    def _prompt(self, logits: Tensor, rows: Mapping[int, Row]) -> None:
        forced = [
            (number, token)
            for number, row in rows.items()
            if row.prompter is not None and (token := row.prompter.forced) is not None
        ]
        if forced:
            at, tokens = torch.tensor(forced, device=logits.device).T
            logits[at] = NEVER
            logits[at, tokens] = 0.0


def _forbidden(rules: Rules, size: int) -> Tensor:
    codes = torch.zeros(size, dtype=torch.bool)
    mask = torch.ones((len(rules.frames), size), dtype=torch.bool)
    for slot, (base, count) in enumerate(rules.frames):
        codes[base : base + count] = True
        mask[slot, base : base + count] = False
    if rules.markup:
        mask[0] &= codes
    mask[0, list(rules.ends)] = False
    return mask
