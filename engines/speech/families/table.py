"""The table of all families, as ``antiphon families`` prints it and ``docs/codec-lm.md`` has it."""

from __future__ import annotations

from collections.abc import Iterable

from .family import FAMILIES, Family, family

HEAD = (
    "family",
    "codec",
    "decoded",
    "tokens/s",
    "first sound after",
    "voices",
    "languages",
    "licence of the code",
    "of the model",
    "of the codec",
)


def table(names: Iterable[str] = FAMILIES) -> str:
    """A Markdown table, a row a family, in the order of ``names``; ends with a line break."""
    rows = [HEAD, ("---",) * len(HEAD), *(_row(family(name)) for name in names)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(family: Family) -> tuple[str, ...]:
    licences = family.licences
    return (
        family.name,
        family.codec,
        family.mode,
        f"{family.tokens_per_second:.0f}",
        _first(family),
        _voices(family),
        " ".join(family.languages),
        licences.code,
        licences.model,
        licences.codec,
    )


def _first(family: Family) -> str:
    """How many tokens, and how long they take where they come at the speed of speech."""
    ms = 1000 * family.first_audio_tokens / family.tokens_per_second
    return f"{family.first_audio_tokens} tokens, {ms:.0f} ms"


def _voices(family: Family) -> str:
    known = [f"{len(family.voices)} by name"] if family.voices else []
    if family.reference != "none":
        shortest, longest = family.reference_seconds
        known.append(f"of recordings, {shortest:g} to {longest:g} s")
    return ", ".join(known) or "its own"
