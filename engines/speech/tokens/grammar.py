# pyright: reportMissingImports=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedBaseClass=false
"""Token rules as a logits processor of stock vLLM (version 1 of its interface).

The rules of a request are in its
``SamplingParams.extra_args``, and a request without any is left alone. The one file that knows
that interface.
"""

from __future__ import annotations

from typing import Any

import msgspec
import torch
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from .rows import Row, Ruler
from .rules import RULES_KEY, Rules


class TokenRules(LogitsProcessor):  # type: ignore[misc]
    """Keeps frames whole, punishes what was said lately, and prompts."""

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse rules that can't be read, with a ``ValueError``."""
        _rules(sampling_params)

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        """As vLLM makes it."""
        self._ruler = Ruler()

    def is_argmax_invariant(self) -> bool:
        """It decides what is likeliest."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow requests that come, go and change places, in the order that vLLM sets."""
        if batch_update is None:
            return
        for index in batch_update.removed:
            self._ruler.put(index, None)
        for index, params, prompt, said in batch_update.added:
            self._ruler.put(index, _row(params, prompt, said))
        for one, other, direction in batch_update.moved:
            self._ruler.move(one, other, swap=direction == MoveDirectionality.SWAP)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Apply the rules of all requests, in place. What was said is read here and not sooner:
        an engine that plans ahead learns it last of all."""
        self._ruler.apply(logits)
        return logits


def _row(params: Any, prompt: list[int] | None, said: list[int]) -> Row | None:
    rules = _rules(params)
    return None if rules is None or rules.idle else Row(rules, prompt, said)


def _rules(params: Any) -> Rules | None:
    asked = (params.extra_args or {}).get(RULES_KEY)
    if asked is None:
        return None
    try:
        return msgspec.convert(asked, Rules)
    except msgspec.ValidationError as error:
        raise ValueError(f"{RULES_KEY}: {error}") from None
