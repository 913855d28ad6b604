"""Many texts through the speech endpoint in every format, compared with the voice itself.

The server's voice does not vary here, so files without loss must hold the voice's own samples.
Others are compared with them at both ends and as a whole, and read by the recognizer.

Each text is asked for in one format of either kind, in turn, and single words in all, as making
speech takes long. With ``ANTIPHON_TEST_ALL=1`` in the environment every text is in all formats.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import yaml
from openai import OpenAI
from tests.support.round_trip import (
    Sound,
    Wave,
    as_wave,
    decoded,
    heard_errors,
    level,
    likeness,
    plain_sound,
)
from tests.support.server import Server
from tests.support.speech import BYTES_PER_MS, RATE, Ear, Speaker, Utterance, silence

pytestmark = [
    pytest.mark.models,
    pytest.mark.server,
    # The first test speaks all of them.
    pytest.mark.timeout(900),
]

TEXTS: dict[str, list[str]] = yaml.safe_load(
    Path(__file__).with_name("sentences.yaml").read_text(encoding="utf-8")
)
SENTENCES = [text for texts in TEXTS.values() for text in texts]
SILENT = TEXTS["nothing to pronounce"]
SINGLE = TEXTS["one word"]

ALL = os.environ.get("ANTIPHON_TEST_ALL") == "1"

LOSSLESS = ("pcm", "wav", "flac")
LOSSY = ("mp3", "opus", "aac")
FORMATS = (*LOSSLESS, *LOSSY)

FILES = {
    "wav": ("wav", "pcm_s16le", RATE),
    "flac": ("flac", "flac", RATE),
    "mp3": ("mp3", "mp3", RATE),
    "opus": ("ogg", "opus", 48_000),
    "aac": ("aac", "aac", RATE),
}
"""Container, codec and the decoder's rate; all have one channel."""

LEAD = {"mp3": 1105, "aac": 1024, "opus": 0}
"""Samples that come ahead of the sound; the file has no place to say so."""

FRAME = {"mp3": 576, "aac": 1024, "opus": 0}
"""Samples up to which silence follows it."""

ROUNDING = 2
"""Steps of s16le by which chunks that are cut elsewhere may differ."""

END = 200 * RATE // 1000
"""Samples of the first and the last sound that must be there."""

LOUD = 500
"""From here on it is sound; steps of s16le."""

NOTHING = 100 * BYTES_PER_MS
"""Bytes of silence for a text with nothing to pronounce."""

WINDOW = 27_000 * BYTES_PER_MS
"""The recognizer reads up to 30 s at once."""

Spoken = dict[str, dict[str, Sound]]


def forms_of(text: str) -> Sequence[str]:
    """The formats that a text is asked for in."""
    return FORMATS if ALL or text in (*SINGLE, *SILENT) else turn(text)


def turn(text: str) -> tuple[str, str]:
    """The formats whose turn it is."""
    number = SENTENCES.index(text)
    return LOSSLESS[number % 3], LOSSY[number // 3 % 3]


@pytest.fixture(scope="module")
def voice(speaker: Speaker) -> dict[str, Utterance]:
    """Every text by the voice alone."""
    return {text: speaker.read(text) for text in SENTENCES}


@pytest.fixture(scope="module")
def spoken(scripted_server: Server) -> Spoken:
    """What the server sends, by format and text."""

    def ask(asked: tuple[str, str]) -> Sound:
        form, text = asked
        answer = client.audio.speech.create(
            model="tts-1",
            voice="alloy",
            input=text,
            response_format=form,  # type: ignore[arg-type]
        )
        file = answer.read()
        return plain_sound(file) if form == "pcm" else decoded(file)

    wanted = [(form, text) for text in SENTENCES for form in forms_of(text)]
    with OpenAI(base_url=f"{scripted_server.url}/v1", api_key="x", max_retries=0) as client:
        with ThreadPoolExecutor(2) as pool:
            sounds = list(pool.map(ask, wanted))
    found: Spoken = {form: {} for form in FORMATS}
    for (form, text), sound in zip(wanted, sounds, strict=True):
        found[form][text] = sound
    return found


def audible(spoken: Spoken, form: str) -> Iterator[tuple[str, Sound]]:
    return ((text, sound) for text, sound in spoken[form].items() if text not in SILENT)


def ends(wave: Wave) -> tuple[slice, slice]:
    """Where the first and the last sound is."""
    loud = np.flatnonzero(np.abs(wave) > LOUD)
    first, last = int(loud[0]), int(loud[-1])
    return slice(first, first + END), slice(max(0, last - END), last)


def test_there_are_many_texts() -> None:
    assert len(set(SENTENCES)) >= 100
    assert {type(text) for text in SENTENCES} == {str}
    assert min(len(TEXTS["long"]), len(SINGLE), len(SILENT)) >= 4


def test_the_first_and_the_last_word_sound(voice: dict[str, Utterance]) -> None:
    missing: list[str] = []
    for text, said in voice.items():
        if text in SILENT:
            assert not said.pcm
            continue
        wave = as_wave(said.pcm)
        for word in (said.words[0], said.words[-1]):
            at = wave[round(word.start_ms * RATE / 1000) : round(word.end_ms * RATE / 1000)]
            # Very short ones may be soft, but not so soft.
            if len(at) < RATE // 20 or np.abs(at).max() < LOUD:
                missing.append(f"{word.text!r} of {text!r}")
    assert not missing


@pytest.mark.parametrize("form", LOSSLESS)
def test_what_has_no_loss_is_the_voice_itself(
    voice: dict[str, Utterance], spoken: Spoken, form: str
) -> None:
    assert len(spoken[form]) > len(SENTENCES) // 3
    for text, sound in audible(spoken, form):
        wave = as_wave(voice[text].pcm)
        assert len(sound.samples) == len(wave), text
        assert np.abs(sound.samples - wave).max() <= ROUNDING, text


@pytest.mark.parametrize("form", FILES)
def test_files_are_what_they_are_called(spoken: Spoken, form: str) -> None:
    container, codec, rate = FILES[form]
    for text, sound in spoken[form].items():
        found = (sound.container, sound.codec, sound.rate, sound.channels)
        assert found == (container, codec, rate, 1), text


@pytest.mark.parametrize("form", LOSSY)
def test_nothing_is_missing_from_a_file_with_loss(
    voice: dict[str, Utterance], spoken: Spoken, form: str
) -> None:
    assert len(spoken[form]) > len(SENTENCES) // 3
    for text, sound in audible(spoken, form):
        wave = as_wave(voice[text].pcm)
        assert 0 <= len(sound.samples) - LEAD[form] - len(wave) <= FRAME[form], text
        same = sound.samples[LEAD[form] :][: len(wave)]
        head, tail = ends(wave)
        assert likeness(wave, same) > 0.95, text
        assert likeness(wave[head], same[head]) > 0.9, text
        assert likeness(wave[tail], same[tail]) > 0.75, text
        # The first frames of AAC have few bits, and a short word has no others.
        assert level(same) == pytest.approx(level(wave), abs=1.0), text


@pytest.mark.parametrize("form", FORMATS)
def test_without_anything_to_pronounce_it_is_silent(spoken: Spoken, form: str) -> None:
    for text in SILENT:
        samples = spoken[form][text].samples[LEAD.get(form, 0) :]
        assert 0 <= len(samples) - NOTHING // 2 <= FRAME.get(form, 0), text
        assert np.abs(samples).max() <= ROUNDING, text


def test_files_with_loss_are_understood_as_the_voice_is(
    voice: dict[str, Utterance], spoken: Spoken, ear: Ear
) -> None:
    told: dict[str, tuple[int, int, int]] = {}
    for form in LOSSY:
        texts = [text for text, _ in audible(spoken, form) if ALL or form in turn(text)]
        for window in windows(texts, voice):
            ours = [voice[text].pcm for text in window]
            theirs = [spoken[form][text].pcm for text in window]
            written = " ".join(window)
            lost_anyway, _ = heard_errors(written, together(ear, ours))
            lost, words = heard_errors(written, together(ear, theirs))
            if lost > lost_anyway:
                # In half a minute Whisper may leave a sentence out: one by one, then.
                lost = min(lost, heard_errors(written, one_by_one(ear, theirs))[0])
            before = told.get(form, (0, 0, 0))
            told[form] = (before[0] + lost, before[1] + lost_anyway, before[2] + words)
    words = sum(told[form][2] for form in LOSSY)
    assert words > 600
    lost, lost_anyway = (sum(told[form][which] for form in LOSSY) for which in (0, 1))
    assert lost_anyway < words / 10, told
    assert lost - lost_anyway <= words / 50, told


def windows(texts: Sequence[str], voice: dict[str, Utterance]) -> list[list[str]]:
    """Texts as they go together into what the recognizer reads at once."""
    found: list[list[str]] = [[]]
    size = 0
    for text in texts:
        length = len(voice[text].pcm) + len(silence(500))
        if size and size + length > WINDOW:
            found.append([])
            size = 0
        found[-1].append(text)
        size += length
    return found


def together(ear: Ear, sounds: Sequence[bytes]) -> str:
    """What is heard of sounds that follow each other with pauses."""
    return ear.hear(b"".join(pcm + silence(500) for pcm in sounds))


def one_by_one(ear: Ear, sounds: Sequence[bytes]) -> str:
    """What is heard of each by itself, with silence around it."""
    return " ".join(ear.hear(silence(300) + pcm + silence(500)) for pcm in sounds)
