"""Voices of recordings: what is asked of one, what is kept of it, and what others leave alone."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.codecs.pcm import from_float
from antiphon.codecs.wav import write_wav
from antiphon.engines.chunks import Samples, StageError, Word
from antiphon.engines.pipeline import VoiceRecording
from antiphon.engines.speech.decoders.decoder import Codes, Encoder
from antiphon.engines.speech.families.family import Family, Licences, Reference
from antiphon.engines.speech.tokens import references
from antiphon.engines.speech.tokens.recordings import read_samples, spread
from antiphon.engines.speech.tokens.references import SUFFIX, ReferenceStore
from antiphon.engines.stage import StageFailure

NOW = 1_700_000_000
RATE = 8_000
CONSENT = "I am Amy, and agree that my voice is used here."


def with_features(reference: Reference, samples: Samples, rate: int) -> Reference:
    if "unsayable" in reference.text:
        raise ValueError("a word has no sound")
    return replace(reference, features={"seconds": np.float64(samples.size / rate)})


def nobody(*_: object) -> Any:
    raise AssertionError("not asked for")


FAMILY = Family(
    name="neutts",
    summary="",
    architectures=("LlamaForCausalLM",),
    codec="neucodec",
    licences=Licences(code="", model="", codec=""),
    marks={},
    read=nobody,
    languages=("en", "de"),
    voices=("ada",),
    reference="codes",
    reference_seconds=(1.0, 3.0),
    describe=with_features,
    tokens_per_second=50,
    first_audio_tokens=16,
)


class Steps:
    """Encodes each tenth of a second as its loudness; notes where it works."""

    sample_rate = RATE

    def __init__(self) -> None:
        self.threads: list[int] = []

    def encode(self, samples: Samples) -> Codes:
        self.threads.append(threading.get_ident())
        whole = samples[: samples.size // 800 * 800].reshape(-1, 800)
        codes: Codes = (np.abs(whole).max(axis=1) * 100).astype(np.int32)[np.newaxis]
        return codes


def store(
    folder: Path | None, family: Family = FAMILY, load: Callable[[], Encoder] = Steps
) -> ReferenceStore:
    return ReferenceStore(family, folder, load, clock=lambda: NOW)


def tone(seconds: float, rate: int = 24_000, level: float = 0.5) -> Samples:
    time = np.arange(round(seconds * rate)) / rate
    return (level * np.sin(2 * np.pi * 220 * time)).astype(np.float32)


def recording(folder: Path, samples: Samples | None = None, **said: Any) -> VoiceRecording:
    path = folder / "sample"
    path.write_bytes(write_wav(from_float(tone(2) if samples is None else samples), 24_000))
    given: dict[str, Any] = {"name": "amy", "text": "Good evening.", "consent": CONSENT}
    return VoiceRecording(audio=path, **(given | said))


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def refused(work: Coroutine[Any, Any, Any]) -> StageError:
    with pytest.raises(StageFailure) as failure:
        asyncio.run(work)
    return failure.value.error


def files(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "voices" / "references"


def test_a_voice_is_kept_with_its_consent_found_and_removed(folder: Path, tmp_path: Path) -> None:
    encoder = Steps()

    async def main() -> None:
        ours = store(folder, load=lambda: encoder)
        await ours.start()
        card = await ours.add(recording(tmp_path, language="de"))
        assert (card.name, card.language, card.source) == ("amy", "de", "recording")
        assert (card.created_at, card.consent_at, card.own) == (NOW, NOW, True)
        assert (ours.names, ours.cards) == (("amy",), (card,))
        reference = ours.find("amy")
        assert reference is not None
        assert (reference.text, reference.codes.shape) == ("Good evening.", (1, 20))
        assert set(reference.codes[0, 1:-1]) <= {49, 50}
        assert reference.features == {"seconds": 2.0}
        assert [word.text for word in reference.words] == ["Good", "evening."]

        again = store(folder)
        await again.start()
        assert again.cards == (card,)
        kept = again.find("amy")
        assert kept is not None
        assert np.array_equal(kept.codes, reference.codes)
        assert kept.codes.dtype == np.int32
        assert (kept.text, kept.words, kept.features) == (
            reference.text,
            reference.words,
            reference.features,
        )

        await again.remove("amy")
        assert (again.names, again.find("amy"), files(folder)) == ((), None, [])
        # Who speaks with it goes on.
        assert kept.codes.size
        with pytest.raises(StageFailure, match="voice_unknown"):
            await again.remove("amy")

    run(main())
    assert encoder.threads
    assert threading.get_ident() not in encoder.threads


def test_the_file_has_the_words_of_the_consent_and_nothing_of_the_sound(
    folder: Path, tmp_path: Path
) -> None:
    run(keep(store(folder), recording(tmp_path)))
    assert files(folder) == ["amy" + SUFFIX]
    told = json.loads((folder / ("amy" + SUFFIX)).read_text())
    assert (told["consent"], told["consent_at"]) == (CONSENT, NOW)
    assert (told["family"], told["codec"], told["seconds"]) == ("neutts", "neucodec", 2.0)
    assert (folder / ("amy" + SUFFIX)).stat().st_size < 2_000


async def keep(ours: ReferenceStore, *recordings: VoiceRecording) -> None:
    await ours.start()
    for each in recordings:
        await ours.add(each)


def test_words_that_were_heard_keep_their_times(folder: Path, tmp_path: Path) -> None:
    words = (Word("Good", 100, 400), Word("evening.", 400, 900))
    ours = store(folder)
    run(keep(ours, recording(tmp_path, words=words)))
    reference = ours.find("amy")
    assert reference is not None
    assert reference.words == words


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        ({"samples": tone(0.9)}, "recording_unusable", "at least 1 s, got 0.9 s"),
        ({"samples": tone(3.6)}, "recording_unusable", "at most 3 s"),
        ({"samples": tone(2, level=0.001)}, "recording_unusable", "silent"),
        ({"text": " "}, "text_unusable", "1 to 2000 characters"),
        ({"text": "unsayable"}, "text_unusable", "a word has no sound"),
        ({"consent": ""}, "consent_unusable", "1 to 4000 characters"),
        ({"language": "fr"}, "unsupported_language", "en, de"),
        ({"name": "../amy"}, "voice_unusable", "letters, digits"),
        ({"name": "ada"}, "voice_exists", "ada"),
    ],
)
def test_what_can_t_be_used_is_refused_and_leaves_nothing(
    folder: Path, tmp_path: Path, said: dict[str, Any], code: str, words: str
) -> None:
    error = refused(keep(store(folder), recording(tmp_path, **said)))
    assert error.code == code
    assert words in error.message
    assert str(tmp_path) not in error.message
    assert not folder.exists() or files(folder) == []


def test_a_file_that_is_no_audio_is_refused(folder: Path, tmp_path: Path) -> None:
    given = recording(tmp_path)
    given.audio.write_bytes(b"no sound in here")
    assert refused(keep(store(folder), given)).code == "recording_unusable"


def test_a_little_too_long_is_cut(tmp_path: Path) -> None:
    path = recording(tmp_path, tone(3.4)).audio
    assert read_samples(path, RATE, (1, 3)).size == 3 * RATE


def test_where_none_can_be_made_it_is_said_why(folder: Path, tmp_path: Path) -> None:
    fixed = replace(FAMILY, name="orpheus", reference="none")
    error = refused(keep(store(folder, fixed), recording(tmp_path)))
    assert (error.code, "orpheus" in error.message) == ("voices_fixed", True)
    assert refused(keep(store(None), recording(tmp_path))).code == "voices_fixed"


def test_an_encoder_that_can_t_be_loaded_says_so(folder: Path, tmp_path: Path) -> None:
    def load() -> Encoder:
        raise StageFailure(StageError("encoder_missing", "nanocodec has no encoder"))

    assert refused(keep(store(folder, load=load), recording(tmp_path))).code == "encoder_missing"


def test_names_are_taken_once_and_there_are_so_many(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "RECORDINGS", 2)
    given = recording(tmp_path)
    ours = store(folder)
    run(keep(ours, given, replace(given, name="Bo.1_a:b+c-d")))
    assert ours.names == ("Bo.1_a:b+c-d", "amy")
    assert refused(keep(ours, given)).code == "voice_exists"
    assert refused(keep(ours, replace(given, name="eve"))).code == "voices_full"
    assert len(files(folder)) == 2


def test_files_of_others_are_left_alone(folder: Path, tmp_path: Path) -> None:
    given = recording(tmp_path)
    other = replace(FAMILY, name="llasa", codec="xcodec2")
    run(keep(store(folder, other), given))
    for name, content in (("bad", b"{"), ("short", b'{"version": 1}'), ("big", b"0" * (2 << 20))):
        (folder / (name + SUFFIX)).write_bytes(content)
    (folder / "readme.txt").write_text("by hand")
    ours = store(folder)
    run(ours.start())
    assert ours.names == ()
    assert refused(keep(ours, given)).code == "voice_exists"
    assert refused(keep(ours, replace(given, name="bad"))).code == "voice_exists"
    assert len(files(folder)) == 5


def test_a_file_whose_codes_are_damaged_is_left_out(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(keep(store(folder), recording(tmp_path)))
    path = folder / ("amy" + SUFFIX)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"codes": "AAAB"}))
    ours = store(folder)
    run(ours.start())
    assert ours.names == ()
    assert "amy is left out" in caplog.text


def test_a_write_that_fails_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert refused(keep(store(folder), recording(tmp_path))).code == "voices_full"
    assert files(folder) == []


def test_words_without_times_are_spread_by_their_letters_over_the_sound() -> None:
    rate = 1_000
    sound = np.zeros(4_000, np.float32)
    sound[1_000:3_000] = 0.5
    words = spread("one, threes", sound, rate)
    assert [word.text for word in words] == ["one,", "threes"]
    assert [round(edge) for word in words for edge in (word.start_ms, word.end_ms)] == [
        1_000,
        1_727,
        1_727,
        3_000,
    ]
    assert spread("", sound, rate) == ()
