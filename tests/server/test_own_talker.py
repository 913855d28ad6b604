"""The small talker that is shipped, served as its deployment says, and listened to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI
from tests.support.server import Server, serving
from tests.support.speech import RATE, Ear, word_errors

pytestmark = [pytest.mark.models, pytest.mark.server, pytest.mark.timeout(180)]

CONFIG = Path(__file__).parents[2] / "deploy" / "joe-lm.yaml"

TEXT = (
    "The light of the evening takes a longer way, and so it turns red. "
    "There they turn it into honey, which keeps for many years. "
    "Seven of them came to the house before the end of the day."
)

SHARE = 0.5
"""Of wrong words: about a fifth are. A model that is asked wrongly has nearly none right."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(CONFIG) as each:
        yield each


def test_it_is_understood_and_says_no_more_than_it_was_told(server: Server, ear: Ear) -> None:
    with OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0) as client:
        answer = client.audio.speech.create(
            model="tts-1", voice="joe", input=TEXT, response_format="pcm"
        )
        pcm = answer.read()
    errors, words = word_errors(TEXT, ear.hear(pcm, RATE))
    assert errors <= SHARE * words
    seconds = len(pcm) / 2 / RATE
    assert 0.2 < seconds / words < 0.6
