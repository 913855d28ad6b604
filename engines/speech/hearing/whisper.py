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
from ...chunks import StageError, TokenLogprob, Word
from ...stage import StageFailure
from .guess import Guess
from .passages import TICK_SECONDS, Passage, Span, TimedTokens, merge_marks, split_spans
from .spelling import fit_tokens, spell_tokens
from .windows import FULL_SECONDS, RATE

FRAMES_PER_SECOND = 100

PROMPT_TOKENS = 100
"""Of the caller's prompt the last so many are shown; each costs decoding time."""

PROMPT_TICKS = 250
"""5 s, for which a prompt is said to have been spoken."""

PROMPT_CHARS = 20 * PROMPT_TOKENS
"""What of a prompt is looked at: no language has longer tokens on average."""

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

    @property
    def multilingual(self) -> bool:
        """Whether it knows more than English, and can translate into it."""
        return bool(self._net.model.is_multilingual)

    def known_language(self, language: str | None) -> str | None:
        """``language`` as the model calls it: ``en`` for ``en``, ``EN`` and ``en-US``.

        ``None``, for any, stays ``None``.

        Raises:
            StageFailure: the model does not know it; the message names the language.
        """
        if language is None:
            return None
        code = language.replace("_", "-").partition("-")[0].strip().lower()
        if code not in self._languages:
            known = ", ".join(sorted(self._languages))
            what = f"language: expected one out of {known}, got {language[:20]!r}"
            raise StageFailure(StageError("unsupported_language", what))
        return code

    def guess(
        self,
        samples: NDArray[np.float32],
        *,
        seconds: int,
        last_sound: float,
        language: str | None = None,
        prompt: str = "",
        logprobs: bool = False,
        translate: bool = False,
        words: bool = False,
        temperature: float = 0.0,
    ) -> Guess:
        """Decode ``samples`` (16 kHz), read as a window of ``seconds`` with silence after them.

        Words that begin after ``last_sound`` (seconds) are left out. ``logprobs``: whether
        the tokens are wanted; ``words``: whether the times of words are. ``translate``: into
        English, where the model is multilingual. ``temperature``: 0 for the most probable.
        """
        encoded = self._net.encode(self._features(samples, seconds))
        # Time stamps are left on, although no-timestamps would save two tokens: without
        # them the decoder repeats whatever is short.
        spoken, sure = self._language(encoded, language)
        task = [self._token("<|startoftranscript|>"), *self._task(spoken, translate)]
        start = [*self._prompt(prompt), *task]
        limit = FULL_TOKENS if seconds == FULL_SECONDS else 12 + 10 * seconds
        result: Any = self._net.model.generate(
            encoded,
            [start],
            beam_size=1,
            max_length=len(start) + limit,
            suppress_tokens=self._suppressed,
            return_scores=True,
            return_logits_vocab=logprobs,
            return_no_speech_prob=True,
            **({"sampling_temperature": temperature, "sampling_topk": 0} if temperature else {}),
        )[0]
        tokens: list[int] = list(result.sequences_ids[0])
        spans = split_spans(
            tokens, self._first_tick, latest=last_sound - LATE_SECONDS, last=last_sound
        )
        said = [index for span in spans for index in span.at]
        timed: list[TimedTokens] = []
        if words and said:
            frames = min(len(samples), seconds * RATE) * FRAMES_PER_SECOND // RATE
            ids = [tokens[index] for index in said]
            timed = self._aligned(encoded, task, ids, frames, spoken)
        return Guess(
            text=self._decode([tokens[index] for index in said]).strip(),
            mean_logprob=float(result.scores[0]),
            no_speech=float(result.no_speech_prob),
            finished=len(tokens) < limit,
            language_probability=sure,
            tokens=self._spelled(result, said) if logprobs else (),
            language=spoken,
            passages=self._passages(result, spans, timed, logprobs),
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

    def _language(self, encoded: Any, language: str | None) -> tuple[str, float]:
        """The language that is spoken, and how probable that is."""
        if not self.multilingual:
            return "en", 1.0
        if language is not None:
            return language, 1.0
        name, sure = self._net.model.detect_language(encoded)[0][0]
        return str(name).strip("<|>"), float(sure)

    def _task(self, language: str, translate: bool) -> list[int]:
        if not self.multilingual:
            return []
        task = "<|translate|>" if translate else "<|transcribe|>"
        return [self._token(f"<|{language}|>"), self._token(task)]

    def _prompt(self, prompt: str) -> list[int]:
        # Half of a surrogate pair can't be encoded.
        prompt = prompt[-PROMPT_CHARS:].encode(errors="replace").decode().strip()
        if not prompt:
            return []
        encoded: Any = self._net.hf_tokenizer.encode(f" {prompt}", add_special_tokens=False)
        # What a caller writes must not act as a control token.
        words = [token for token in encoded.ids if token < self._token("<|endoftext|>")]
        # As a sentence that was said, with its times: without them the decoder leaves them
        # out of what follows too, and repeats itself.
        begun, ended = self._first_tick, self._first_tick + PROMPT_TICKS
        return [self._token("<|startofprev|>"), begun, *words[-PROMPT_TOKENS:], ended]

    def _passages(
        self, result: Any, spans: Sequence[Span], timed: Sequence[TimedTokens], logprobs: bool
    ) -> tuple[Passage, ...]:
        ids: Sequence[int] = result.sequences_ids[0]
        left = list(timed)
        passages: list[Passage] = []
        for span in spans:
            tokens = tuple(ids[index] for index in span.at)
            text, count, words = self._decode(tokens), 0, list[Word]()
            while left and count < len(tokens):
                word = left.pop(0)
                count += word.count
                words.append(Word(word.text.strip(), word.start * 1000, word.end * 1000))
            spelled = self._spelled(result, span.at) if logprobs else ()
            passages.append(
                Passage(
                    text=text,
                    start=span.start,
                    end=span.end,
                    tokens=tokens,
                    words=tuple(words),
                    logprobs=fit_tokens(spelled, text.strip()),
                )
            )
        return tuple(passages)

    def _aligned(
        self, encoded: Any, task: Sequence[int], tokens: list[int], frames: int, language: str
    ) -> list[TimedTokens]:
        """When the words of ``tokens`` sound, by what the decoder attends to."""
        found: Any = self._net.model.align(encoded, list(task), [tokens], frames)[0]
        splitter = _splitter(self._net, language)
        end = self._token("<|endoftext|>")
        texts, groups = splitter.split_to_word_tokens([*tokens, end])
        pairs = np.asarray(found.alignments, np.int64).reshape(-1, 2)
        if len(groups) < 2 or not pairs.size:
            return []
        # The frames at which the path steps on to the next token.
        steps = np.diff(pairs[:, 0], prepend=-1) > 0
        times = pairs[steps, 1] * TICK_SECONDS
        bounds = np.cumsum([0, *(len(group) for group in groups[:-1])])
        bounds = np.minimum(bounds, len(times) - 1)
        return merge_marks(
            TimedTokens(texts[n], len(groups[n]), float(times[bounds[n]]), float(times[after]))
            for n, after in enumerate(bounds[1:])
        )

    def _spelled(self, result: Any, said: Sequence[int]) -> tuple[TokenLogprob, ...]:
        ids, logits = result.sequences_ids[0], result.logits[0]
        tokens = [(ids[index], _logprob(np.asarray(logits[index]), ids[index])) for index in said]
        return spell_tokens(tokens, self._decode)

    def _decode(self, tokens: Sequence[int]) -> str:
        return str(self._net.hf_tokenizer.decode(list(tokens)))


def _logprob(logits: NDArray[np.float32], token: int) -> float:
    """Natural logarithm of a token's probability; ``logits`` of all tokens, any shape."""
    chances = logits.ravel().astype(np.float64)
    peak = chances.max()
    return float(chances[token] - peak - np.log(np.exp(chances - peak).sum()))


def on_gpu() -> bool:
    """Whether models are loaded onto a GPU."""
    try:
        import ctranslate2
    except ImportError:
        return False
    return int(ctranslate2.get_cuda_device_count()) > 0


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


def _splitter(net: Any, language: str) -> Any:
    """What knows where the words of a language begin."""
    from faster_whisper import tokenizer

    return tokenizer.Tokenizer(net.hf_tokenizer, net.model.is_multilingual, "transcribe", language)


def _suppressed(net: Any) -> list[int]:
    """Tokens that are no speech: brackets, music signs, speaker marks."""
    from faster_whisper import transcribe

    choose: Any = transcribe.get_suppressed_tokens
    return list(choose(_splitter(net, "en"), [-1]))
