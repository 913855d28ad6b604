# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeArgument=false
"""The text half of the model of pictures: a CLIP tokenizer and a small CLIP text model.

Words of captions are one token each; any other word is spelt from parts of them, down to
letters. Byte-pair merges are learnt until each word is whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

POSITIONS = 32
"""Tokens of a prompt; what is longer is cut off."""

WIDTH = 160
SPECIAL = ("<|startoftext|>", "<|endoftext|>")
END = "</w>"

Pair = tuple[str, str]


def merges_of(words: Sequence[str]) -> list[Pair]:
    """Byte-pair merges that make each of the words one token, the most frequent pair first."""
    spelt = [[*word[:-1], word[-1] + END] for word in words]
    made: list[Pair] = []
    found: Counter[Pair] = Counter()
    for parts in spelt:
        found.update(zip(parts, parts[1:], strict=False))
    while found:
        # Ties go by the letters, so that the same words give the same merges.
        best = min(found, key=lambda pair: (-found[pair], pair))
        made.append(best)
        for number, parts in enumerate(spelt):
            merged = _merged(parts, best)
            if len(merged) < len(parts):
                found.subtract(zip(parts, parts[1:], strict=False))
                found.update(zip(merged, merged[1:], strict=False))
                spelt[number] = merged
        found = +found
    return made


def _merged(parts: list[str], pair: Pair) -> list[str]:
    made: list[str] = []
    for part in parts:
        if made and (made[-1], part) == pair:
            made[-1] += part
        else:
            made.append(part)
    return made


def tokenizer(words: Sequence[str]) -> Any:
    """A CLIPTokenizer of printable characters and ``words``."""
    from transformers import CLIPTokenizer

    letters = [chr(code) for code in range(33, 127)]
    merges = merges_of(words)
    tokens = [*letters, *(letter + END for letter in letters)]
    tokens += [first + second for first, second in merges]
    # Two ways may lead to the same token.
    ids = {token: number for number, token in enumerate(dict.fromkeys([*tokens, *SPECIAL]))}
    kind: Any = CLIPTokenizer
    return kind(vocab=ids, merges=merges, model_max_length=POSITIONS)


def text_model(tokens: int) -> Any:
    """An untaught CLIPTextModel; the last two of its ``tokens`` are begin and end."""
    from transformers import CLIPTextConfig, CLIPTextModel

    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=tokens,
            hidden_size=WIDTH,
            intermediate_size=4 * WIDTH,
            num_hidden_layers=3,
            num_attention_heads=4,
            max_position_embeddings=POSITIONS,
            bos_token_id=tokens - 2,
            eos_token_id=tokens - 1,
            pad_token_id=tokens - 1,
            projection_dim=WIDTH,
        )
    )
