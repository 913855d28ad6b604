# pyright: reportUnknownMemberType=false, reportMissingImports=false
"""Whether a structural tag can be enforced; imports xgrammar, and with it PyTorch."""

from __future__ import annotations

import re


def problem_of(constraint: str) -> str | None:
    """Why a structural tag can't be enforced, in words for a client; ``None`` if it can."""
    import xgrammar

    try:
        xgrammar.Grammar.from_structural_tag(constraint)
    except Exception as error:
        return _reason(error)
    return None


def _reason(error: Exception) -> str:
    """What xgrammar says, without where in its own code it says so."""
    first = (str(error).strip().splitlines() or [""])[0]
    return re.sub(r"^(\[[\d:]+\] )?\S+:\d+: ", "", first)[:200] or "it is not understood"
