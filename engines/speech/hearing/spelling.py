"""The tokens of a transcript as pieces of its text, each with its probability."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...chunks import TokenLogprob

HALF = "\N{REPLACEMENT CHARACTER}"
"""What a decoder puts for bytes that are not yet a character."""

LONGEST_CHARACTER = 4
"""Bytes, so at most as many tokens."""


def spell_tokens(
    tokens: Iterable[tuple[int, float]], decode: Callable[[Sequence[int]], str]
) -> tuple[TokenLogprob, ...]:
    """Tokens and their log probabilities as text; ``decode`` gives the text of token ids.

    Tokens that only together are a character become one, as probable as all of them.
    """
    spelled: list[TokenLogprob] = []
    ids: list[int] = []
    total = 0.0
    for token, logprob in tokens:
        ids.append(token)
        total += logprob
        text = decode(ids)
        if not text.endswith(HALF) or len(ids) == LONGEST_CHARACTER:
            spelled.append(TokenLogprob(text, total))
            ids, total = [], 0.0
    if ids:
        spelled.append(TokenLogprob(decode(ids), total))
    return tuple(spelled)


def fit_tokens(tokens: Iterable[TokenLogprob], text: str) -> tuple[TokenLogprob, ...]:
    """The tokens that spell ``text``, cut to what is in it; none if they don't spell it.

    The space ahead of the first word, and what follows the text's end, falls away.
    """
    fitted: list[TokenLogprob] = []
    at = 0
    for token in tokens:
        spelled = token.token if at else token.token.lstrip()
        spelled = spelled[: len(text) - at]
        if not text.startswith(spelled, at):
            return ()
        if spelled:
            fitted.append(TokenLogprob(spelled, token.logprob))
            at += len(spelled)
    return tuple(fitted) if at == len(text) else ()
