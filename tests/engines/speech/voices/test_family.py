import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.engines.speech.voices.family import VOICE_FILE, read_model
from antiphon.engines.speech.voices.piper import PiperModel
from antiphon.engines.stage import StageFailure

DESCRIPTION: dict[str, Any] = {
    "family": "piper",
    "voices": ["ann"],
    "language": "en",
    "espeak": "en-us",
    "sample_rate": 16000,
    "hop": 160,
    "channels": 8,
    "context_frames": 0,
    "flow_context_frames": 0,
    "prior": "p",
    "mask": "m",
    "durations": "d",
    "latents": "z",
    "noise_scale": 0.5,
    "length_scale": 1,
    "noise_w": 0.5,
    "phoneme_id_map": {"a": [3], "b": [4, 5]},
}


CHANGES: tuple[dict[str, Any], ...] = (
    {"hop": 0},
    {"voices": []},
    {"voices": ["../ann"]},
    {"speakers": {"ann": -1}},
)
BROKEN = [json.dumps(DESCRIPTION | changed) for changed in CHANGES]


def test_a_description_is_read(tmp_path: Path) -> None:
    (tmp_path / VOICE_FILE).write_text(json.dumps(DESCRIPTION))
    voice = read_model(tmp_path, PiperModel)
    assert voice.frame_ms == 10
    assert voice.phoneme_id_map == {"a": (3,), "b": (4, 5)}


@pytest.mark.parametrize(
    "text",
    ["{", json.dumps({"family": "piper"}), *BROKEN, None],
)
def test_a_folder_that_holds_no_voice_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / VOICE_FILE).write_text(text)
    with pytest.raises(StageFailure, match="model_unusable"):
        read_model(tmp_path, PiperModel)
