# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Whisper on CTranslate2: the one file that imports ``faster_whisper``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...catalog import Setting
from ...chunks import StageError
from ...stage import StageFailure
from .guess import Guess
from .windows import FULL_SECONDS, RATE

TICK_SECONDS = 0.02
"""Step of Whisper's time stamps."""

FRAMES_PER_SECOND = 100

PROMPT_TOKENS = 100
"""Of the caller's prompt the last so many are shown; each costs decoding time."""

FULL_TOKENS = 224
"""Bound of a decoding of a full window: half of Whisper's context, as it was trained."""

LATE_SECONDS = 0.1
"""Words said to begin later than this before the last sound are made up."""


class Whisper:
    """A loaded model; may be used from as many threads at once as it was told."""

    def __init__(
        self, folder: Path, settings: Mapping[str, Setting], *, threads: int, concurrency: int
    ) -> None:
        """Load from the model's folder; takes about a second.

        Raises:
            StageFailure: a package is missing, or the files can't be read.
        """
        self._net = _load(folder, settings, threads, concurrency)
        self._languages = _languages(self._net)
        self._suppressed = _suppressed(self._net)

    def check_language(self, language: str | None) -> None:
        """Make sure that ``language`` (ISO 639-1, or ``None`` for any) is understood.

        Raises:
            StageFailure: the model does not know it; the message names the language.
        """
        if language is not None and language not in self._languages:
            what = f"this recognizer does not understand the language {language!r}"
            raise StageFailure(StageError("unsupported_language", what))

    def guess(
        self,
        samples: NDArray[np.float32],
        *,
        seconds: int,
        last_sound: float,
        language: str | None,
        prompt: str,
    ) -> Guess:
        """Decode ``samples`` (16 kHz), read as a window of ``seconds`` with silence after them.

        Words that begin after ``last_sound`` (seconds) are left out.
        """
        encoded = self._net.encode(self._features(samples, seconds))
        # Time stamps are left on, although no-timestamps would save two tokens: without
        # them the decoder repeats whatever is short.
        language_tokens, sure = self._language(encoded, language)
        start = [*self._prompt(prompt), self._token("<|startoftranscript|>"), *language_tokens]
        limit = FULL_TOKENS if seconds == FULL_SECONDS else 12 + 10 * seconds
        result: Any = self._net.model.generate(
            encoded,
            [start],
            beam_size=1,
            max_length=len(start) + limit,
            suppress_tokens=self._suppressed,
            return_scores=True,
            return_no_speech_prob=True,
        )[0]
        tokens: list[int] = list(result.sequences_ids[0])
        return Guess(
            text=self._text(tokens, last_sound - LATE_SECONDS),
            mean_logprob=float(result.scores[0]),
            no_speech=float(result.no_speech_prob),
            finished=len(tokens) < limit,
            language_probability=sure,
        )

    def _features(self, samples: NDArray[np.float32], seconds: int) -> NDArray[np.float32]:
        # A short window costs a fraction of the usual 30 s; the silence is real samples,
        # because Whisper was trained on padded audio, not on padded features.
        missing = max(0, seconds * RATE - len(samples))
        features = self._net.feature_extractor(np.pad(samples, (0, missing)), padding=0)
        return np.ascontiguousarray(features[:, : seconds * FRAMES_PER_SECOND], np.float32)

    @property
    def _first_tick(self) -> int:
        return self._token("<|notimestamps|>") + 1

    def _token(self, name: str) -> int:
        return int(self._net.hf_tokenizer.token_to_id(name))

    def _language(self, encoded: Any, language: str | None) -> tuple[list[int], float]:
        """The tokens that name language and task, and how probable the language is."""
        if not self._net.model.is_multilingual:
            return [], 1.0
        spoken, sure = f"<|{language}|>", 1.0
        if language is None:
            spoken, sure = self._net.model.detect_language(encoded)[0][0]
        return [self._token(spoken), self._token("<|transcribe|>")], float(sure)

    def _prompt(self, prompt: str) -> list[int]:
        if not prompt.strip():
            return []
        encoded: Any = self._net.hf_tokenizer.encode(f" {prompt.strip()}", add_special_tokens=False)
        # What a caller writes must not act as a control token.
        words = [token for token in encoded.ids if token < self._token("<|endoftext|>")]
        return [self._token("<|startofprev|>"), *words[-PROMPT_TOKENS:]]

    def _text(self, tokens: Sequence[int], latest: float) -> str:
        """The words of all sentences that begin before ``latest``, in seconds."""
        first_tick, kept, begun = self._first_tick, [], 0.0
        for token in tokens:
            if token >= first_tick:
                begun = (token - first_tick) * TICK_SECONDS
            elif begun < latest:
                kept.append(token)
        return str(self._net.hf_tokenizer.decode(kept)).strip()


def _load(folder: Path, settings: Mapping[str, Setting], threads: int, concurrency: int) -> Any:
    try:
        from faster_whisper import WhisperModel
    except ImportError:
        hint = "faster-whisper is not installed: run `pip install 'antiphon[speech]'`"
        raise StageFailure(StageError("package_missing", hint)) from None
    try:
        return WhisperModel(
            str(folder),
            device="auto",
            compute_type=str(settings.get("compute_type", "default")),
            cpu_threads=threads,
            num_workers=concurrency,
            local_files_only=True,
        )
    except (RuntimeError, OSError, ValueError):
        hint = "the recognizer's model cannot be loaded: fetch it again"
        raise StageFailure(StageError("model_unusable", hint)) from None


def _languages(net: Any) -> frozenset[str]:
    return frozenset(net.supported_languages)


def _suppressed(net: Any) -> list[int]:
    """Tokens that are no speech: brackets, music signs, speaker marks."""
    from faster_whisper import tokenizer, transcribe

    words: Any = tokenizer.Tokenizer(
        net.hf_tokenizer, net.model.is_multilingual, "transcribe", "en"
    )
    choose: Any = transcribe.get_suppressed_tokens
    return list(choose(words, [-1]))
