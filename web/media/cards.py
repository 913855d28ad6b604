"""What ``/v1/models`` tells of a model that makes pictures or clips."""

from __future__ import annotations

from ...engines.media import Served


def card_of(model: Served) -> dict[str, object]:
    """Its entry, beside what every model's has: defaults, and what may be asked for."""
    able = model.abilities
    card: dict[str, object] = {
        "capabilities": [able.kind],
        "family": able.family,
        "untrained": able.untrained,
        "inputs": [list(names) for names in able.inputs],
        "strength": able.strength,
        "negative_prompt": able.negative,
        "adapters": list(able.adapters),
        "examples": list(able.examples),
        "defaults": {
            "size": f"{able.width}x{able.height}",
            "steps": able.steps,
            "guidance": able.guidance,
        },
        "limits": {
            "multiple_of": able.multiple_of,
            "pixels": able.max_pixels,
            "drawn_pixels": able.drawn_pixels or able.max_pixels,
            "steps": able.max_steps,
            "guidance": able.guidance_most,
            "prompt_chars": able.max_prompt_chars,
        },
    }
    if able.kind == "video":
        card["frames"] = {
            "default": able.frames,
            "every": able.frames_every,
            "most": able.max_frames,
            "per_second": able.frames_per_second,
        }
    return card
