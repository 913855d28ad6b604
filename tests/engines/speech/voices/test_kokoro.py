import os
import shutil
from collections.abc import Callable
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.models import fetched

from antiphon.codecs.resample import FloatStreamResampler
from antiphon.engines.catalog import card
from antiphon.engines.chunks import Word
from antiphon.engines.speech.hearing.whisper import Whisper
from antiphon.engines.speech.voices import kokoro
from antiphon.engines.speech.voices.family import family_of, missing_package, read_model
from antiphon.engines.speech.voices.japanese import Pronouncer
from antiphon.engines.speech.voices.kokoro import KokoroDraft, KokoroTalker, Part
from antiphon.engines.stage import StageFailure

RATE = 24_000
SENTENCE = "とても良いですね。"
WORDS = ["とても", "良いですね。"]


def folder() -> Path:
    return fetched("kokoro-ja")


@cache
def talker() -> KokoroTalker:
    return kokoro.load_talker(folder(), 1, 1.0)


@cache
def speak(
    text: str, speed: float = 1.0, voice: str = "jf_alpha"
) -> tuple[NDArray[np.float32], tuple[Word, ...]]:
    draft = talker().draft(text, speed, voice)
    assert draft is not None
    made = [draft.next(24)]
    while draft.left:
        made.append(draft.next(24))
    assert [latents.last for latents in made] == [False] * (len(made) - 1) + [True]
    assert not any(latents.words for latents in made[1:])
    frames = np.concatenate([latents.frames for latents in made], axis=1)
    decoder = kokoro.load_decoder(folder(), 1)
    return decoder.run(frames[np.newaxis])[0], made[0].words


def loud_ms(samples: NDArray[np.float32]) -> tuple[float, float]:
    """Where sound begins and ends."""
    loud = np.flatnonzero(np.abs(samples) > 0.01)
    return 1000 * loud[0] / RATE, 1000 * loud[-1] / RATE


def test_parts_are_made_when_they_are_needed() -> None:
    made: list[int] = []

    def part(number: int, frames: int) -> Part:
        def make() -> NDArray[np.float32]:
            made.append(number)
            return np.full((2, frames), number, np.float32)

        return Part(frames, make)

    word = Word("a", 0, 1)
    draft = KokoroDraft([part(0, 3), part(1, 2)], (word,))
    assert (draft.left, made) == (5, [])
    taken = [draft.next(2), draft.next(2)]
    assert (draft.left, made) == (2, [0])
    taken += [draft.next(9)]
    assert (draft.left, made) == (0, [0, 1])
    assert [latents.frames[0].tolist() for latents in taken] == [[0, 0], [0], [1, 1]]
    assert [latents.words for latents in taken] == [(word,), (), ()]
    assert [latents.last for latents in taken] == [False, False, True]


def test_a_folder_without_its_tables_is_refused(tmp_path: Path) -> None:
    described = (
        b'{"family": "kokoro", "voices": ["a"], "language": "ja", "sample_rate": 24000,'
        b' "hop": 600, "channels": 600, "context_frames": 0, "symbols": {"a": 1},'
        b' "durations": "d", "energy": "e", "handed_on": ["e"]}'
    )
    (tmp_path / "voice.json").write_bytes(described)
    np.savez(tmp_path / "styles.npz", b=np.zeros(1))
    with pytest.raises(StageFailure) as failed:
        kokoro.load_talker(tmp_path, 1, 1.0)
    assert failed.value.error.code == "model_unusable"


@pytest.mark.models
def test_the_model_describes_itself() -> None:
    model = read_model(folder())
    assert family_of(model) is kokoro
    assert missing_package(model) is None
    assert (model.language, model.voices[0], len(model.voices)) == ("ja", "jf_alpha", 5)
    assert model.frame_ms == 25
    notices = {"LICENSE", "LICENSE-kokoro-onnx-MIT", "NOTICE"}
    assert notices <= {path.name for path in folder().iterdir()}


@pytest.mark.models
def test_a_clause_has_its_words_and_the_silence_that_its_marks_ask_for() -> None:
    samples, words = speak(SENTENCE)
    begins, ends = loud_ms(samples)
    assert [word.text for word in words] == WORDS
    assert 0 <= words[0].start_ms <= begins + 25
    assert all(a.start_ms < a.end_ms <= b.start_ms for a, b in zip(words, words[1:], strict=False))
    assert words[-1].end_ms == pytest.approx(ends, abs=100)
    assert begins < 60
    assert 1000 * len(samples) / RATE - ends == pytest.approx(300, abs=75)
    # Cut early, a clause ends with its sound.
    samples, _ = speak("とても")
    assert 1000 * len(samples) / RATE - loud_ms(samples)[1] < 75


@pytest.mark.models
@pytest.mark.parametrize("speed", [0.5, 4.0])
def test_speed_is_the_time_that_a_clause_takes(speed: float) -> None:
    plain, _ = speak(SENTENCE)
    samples, words = speak(SENTENCE, speed)
    assert len(samples) % 600 == 0
    assert len(samples) / len(plain) == pytest.approx(1 / speed, rel=0.15)
    assert [word.text for word in words] == WORDS
    assert words[-1].end_ms <= 1000 * len(samples) / RATE
    assert words[-1].end_ms == pytest.approx(loud_ms(samples)[1], abs=150)


@pytest.mark.models
def test_a_long_clause_is_made_in_parts_with_the_times_of_all_its_words() -> None:
    text = "とても良い天気ですから、散歩です。"
    draft = talker().draft(text, 1.0, "jm_kumo")
    assert draft is not None
    frames = draft.left
    first, second = draft.next(frames), draft.next(frames)
    assert (draft.left, first.last, second.last) == (0, False, True)
    assert first.frames.shape[1] + second.frames.shape[1] == frames
    words = first.words
    assert "".join(word.text for word in words) == text
    samples = np.concatenate([first.frames, second.frames], axis=1).T.reshape(-1)
    starts = [word.start_ms for word in words]
    assert starts == sorted(starts)
    assert words[-1].end_ms == pytest.approx(loud_ms(samples)[1], abs=100)


@pytest.mark.models
def test_nothing_to_say_is_none() -> None:
    assert talker().draft("😀 。", 1.0, "jf_alpha") is None


@pytest.mark.models
@pytest.mark.parametrize("gone", ["front.onnx", "back.onnx", "words.txt"])
def test_a_folder_that_is_not_whole_is_refused(tmp_path: Path, gone: str) -> None:
    def copy(source: str, target: str) -> None:
        os.symlink(source, target)

    copied: Callable[[str, str], object] = copy
    shutil.copytree(folder(), tmp_path / "voice", copy_function=copied)
    (tmp_path / "voice" / gone).unlink()
    with pytest.raises(StageFailure) as failed:
        kokoro.load_talker(tmp_path / "voice", 1, 1.0)
    assert failed.value.error.code == "model_unusable"


@cache
def whisper() -> Whisper:
    settings = card("whisper-base").settings
    return Whisper(fetched("whisper-base"), settings, threads=1, concurrency=1)


def phonemes(text: str) -> str:
    """In one spelling, whoever wrote it: the author, or a recognizer of its speech."""
    spoken = Pronouncer().read(text)
    return "".join(each.char for each in spoken.symbols if each.is_sound) if spoken else ""


@pytest.mark.models
@pytest.mark.parametrize(
    "voice", ["jf_alpha", "jf_gongitsune", "jf_nezumi", "jf_tebukuro", "jm_kumo"]
)
def test_each_voice_is_understood(voice: str) -> None:
    text = "新しいパソコンを買いました。"
    samples, _ = speak(text, voice=voice)
    heard = FloatStreamResampler(RATE, 16_000)
    at_16k = np.concatenate([heard.feed(samples), heard.flush()])
    guess = whisper().guess(at_16k, seconds=5, last_sound=len(at_16k) / 16_000, language="ja")
    alike = SequenceMatcher(None, phonemes(text), phonemes(guess.text), autojunk=False).ratio()
    # 0.9 to 1 where it is said well, below 0.5 for another sentence.
    assert alike > 0.75, guess.text
