"""Real speech for the tests that need some."""

import os
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from antiphon.codecs.resample import FloatStreamResampler
from antiphon.engines.catalog import default_cache_root, require
from antiphon.engines.chunks import Samples
from antiphon.engines.speech.code2wav import Decoder
from antiphon.engines.speech.talker import Speaker

RATE = 24_000


@pytest.fixture(scope="session")
def spoken() -> Callable[[str], Samples]:
    """A function that says a text: float32 samples at 24 kHz."""
    _, folder = require("piper-joe", default_cache_root(os.environ))
    speaker, decoder = Speaker(folder, 1), Decoder(folder, 1)

    @cache
    def say(text: str) -> Samples:
        latents = speaker.speak(text, 1.0)
        assert latents is not None
        samples = decoder.decode(latents.frames, 0, 0)
        resampler = FloatStreamResampler(decoder.voice.sample_rate, RATE)
        return np.concatenate([resampler.feed(samples), resampler.flush()])

    return say
