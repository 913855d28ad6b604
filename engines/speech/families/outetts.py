"""OuteTTS 1.0: text and codes of DAC in turns, a line a word, so that words have times.

A line is: word start, the word, ``features``, how long it lasts, its energy, spectral centroid
and pitch, ``code``, pairs of codes, word end. A voice is such lines of a recording ahead of those
that the model is to write; see :func:`describe`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypedDict, cast

from ...chunks import Samples, Word
from ..tokens.layout import Layout, Slot, TokenBlock
from .binding import Plain, no_named_voice, numbered, one_line
from .family import (
    Family,
    Licences,
    Mark,
    Prompt,
    PromptRequest,
    Reference,
    TokenSampling,
    Vocabulary,
)
from .measures import measure

STEPS_PER_SECOND = 75
STEP_MS = 1000 / STEPS_PER_SECOND

LONGEST_WORD = 10.0
"""Seconds of a word that are looked for in the vocabulary, in hundredths."""

MARGIN = 20
"""Steps of a recording ahead of its first word, and behind its last, that go with the word."""

WORD_TOKENS = 64
"""A word of more tokens is none: the model has lost its way, and its text is not kept."""

_CODES = ("c1", "c2")
_NUMBERS = ("energy", "spectral_centroid", "pitch")
_QUOTES = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-"})
_EAST = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_ENDS, _EAST_ENDS = ".?!", "。？！?!"


class Line(TypedDict):
    """One word of a recording, kept as JSON in :attr:`Reference.features` under ``words``."""

    word: str
    first: int
    """Step of its first codes."""
    steps: int
    energy: int
    spectral_centroid: int
    pitch: int


def describe(reference: Reference, samples: Samples, sample_rate: int) -> Reference:
    """Divide a recording into the lines of its words.

    A line begins where the last one ended, so that pauses go with the word behind them; the first
    reaches up to 20 steps back, the last up to 20 further. Measures are of the word alone, from
    its start to its end.

    Raises:
        ValueError: the words have no times, or lie outside of the recording.
    """
    if not reference.words:
        raise ValueError("outetts needs the times of the recording's words")
    total = reference.codes.shape[1]
    words = reference.words
    first = max(0, _step(words[0].start_ms) - MARGIN)
    lines: list[Line] = []
    for number, word in enumerate(words):
        margin = MARGIN if number == len(words) - 1 else 0
        stop = min(total, max(first, _step(word.end_ms) + margin))
        if first > total or word.end_ms < word.start_ms:
            raise ValueError(f"word {number + 1} lies outside of the recording")
        begin, end = (round(ms / 1000 * sample_rate) for ms in (word.start_ms, word.end_ms))
        found = measure(samples[begin:end], sample_rate)
        line = Line(
            word=word.text.strip(),
            first=first,
            steps=stop - first,
            energy=found.energy,
            spectral_centroid=found.spectral_centroid,
            pitch=found.pitch,
        )
        lines.append(line)
        first = stop
    return replace(reference, features={**reference.features, "words": lines})


def _step(ms: float) -> int:
    return int(ms / STEP_MS)


def _normalise(text: str) -> str:
    """Straight quotes, plain dashes and dots, on one line."""
    return one_line(text.replace("…", "...").translate(_QUOTES))


class OuteReader:
    """See :class:`.family.Reader`."""

    def __init__(self, vocabulary: Vocabulary, marks: Mapping[str, int]) -> None:
        self._vocabulary, self._marks = vocabulary, marks
        self._blocks = tuple(_block(vocabulary, name) for name in _CODES)
        self.layout = Layout((Slot(0), Slot(1)), self._blocks, steps=1, codebooks=2)
        self.stop = (marks["audio_end"], marks["end"])
        self._plain = Plain(vocabulary, marks.values(), self.layout)
        self._newline = vocabulary.encode("\n")
        self._seconds = _durations(vocabulary)
        self._durations = {round(100 * s): token for token, s in self._seconds.items()}
        if not self._seconds:
            raise ValueError("the vocabulary has no <|t_0.00|> and so on, durations of words")

    def prompt(self, asked: PromptRequest) -> Prompt:
        """The text, behind that of a recording, and the lines of the recording's words."""
        no_named_voice(asked, "outetts")
        text, lines, lead = asked.text, list[int](), None
        if reference := asked.reference:
            words = cast("Sequence[Line]", reference.features.get("words"))
            if not words:
                raise ValueError("voice: this recording has no lines of words for outetts")
            text, added = _joined(reference.text, text)
            lines = self._lines(words, reference, added)
            lead = reference.codes
        marks, newline = self._marks, self._newline
        head = [marks["begin"], *newline, marks["text_start"], *self._plain(text)]
        head += [marks["text_end"], *newline, marks["audio_start"], *newline]
        return Prompt(tokens=[*head, *lines], lead=lead)

    def markup(self) -> WordLines:
        """Reads the words between the codes."""
        return WordLines(self._vocabulary, self._marks, self._seconds)

    def _lines(self, words: Sequence[Line], reference: Reference, added: str) -> list[int]:
        """Of all words, and the start of the next; ``added`` ends the last of them."""
        tokens: list[int] = []
        for number, line in enumerate(words):
            last = number == len(words) - 1
            word = line["word"] + (added if last else "")
            tokens += [self._marks["word_start"], *self._plain(word), self._marks["features"]]
            tokens += [self._duration(line["steps"]), *self._numbers(line), self._marks["code"]]
            stop = line["first"] + line["steps"]
            for pair in reference.codes[:, line["first"] : stop].T:
                tokens += [block.base + int(c) for block, c in zip(self._blocks, pair, strict=True)]
            tokens += [self._marks["word_end"], *self._newline]
        return [*tokens, self._marks["word_start"]]

    def _duration(self, steps: int) -> int:
        """The token of the duration that is nearest."""
        wanted = round(100 * steps / STEPS_PER_SECOND)
        return self._durations[min(self._durations, key=lambda known: abs(known - wanted))]

    def _numbers(self, line: Line) -> list[int]:
        values = cast("Mapping[str, int]", line)
        names = [f"<|{name}_{values[name]}|>" for name in _NUMBERS]
        found = [self._vocabulary.find(name) for name in names]
        missing = [name for name, at in zip(names, found, strict=True) if at is None]
        if missing:
            raise ValueError(f"the vocabulary has no {', '.join(missing)}")
        return [at for at in found if at is not None]


class WordLines:
    """Words of an utterance out of the lines that the model writes."""

    def __init__(
        self, vocabulary: Vocabulary, marks: Mapping[str, int], seconds: Mapping[int, float]
    ) -> None:
        """``seconds``: durations by their tokens."""
        self._decode = vocabulary.decode
        self._start, self._features = marks["word_start"], marks["features"]
        self._seconds = seconds
        # With a voice, the start of the first word is the end of the prompt.
        self._text: list[int] | None = []
        self._said = False

    def feed(self, tokens: Sequence[int], step: int) -> list[Word]:
        """See :meth:`.family.Markup.feed`. A word starts where its codes begin, and ends by the
        duration that the model names ahead of them, in hundredths of a second."""
        words: list[Word] = []
        for token in tokens:
            if token == self._start:
                self._text, self._said = [], False
            elif self._text is None:
                continue
            elif token == self._features:
                self._said = True
            elif not self._said:
                self._text = [*self._text, token] if len(self._text) < WORD_TOKENS else None
            elif token in self._seconds:
                text = self._decode(self._text).strip()
                begin = step * STEP_MS
                if text:
                    words.append(Word(text, begin, begin + 1000 * self._seconds[token]))
                self._text = None
        return words


def _block(vocabulary: Vocabulary, name: str) -> TokenBlock:
    """The codes of a codebook; the last of the names is none."""
    names = numbered(vocabulary, lambda n: f"<|{name}_{n}|>")
    if names.size < 2:
        raise ValueError(f"expected <|{name}_0|> and so on up to <|{name}_1024|>")
    return TokenBlock(names.base, names.size - 1)


def _durations(vocabulary: Vocabulary) -> dict[int, float]:
    """Seconds by the tokens that say them."""
    hundredths = range(round(100 * LONGEST_WORD) + 1)
    found = ((vocabulary.find(f"<|t_{n / 100:.2f}|>"), n / 100) for n in hundredths)
    return {token: seconds for token, seconds in found if token is not None}


def _joined(before: str, text: str) -> tuple[str, str]:
    """A recording's text and the next, and the stop that was missing between them."""
    before = _normalise(before)
    east = bool(_EAST.search(before))
    if before.endswith(tuple(_EAST_ENDS if east else _ENDS)):
        return f"{before}{'' if east else ' '}{text}", ""
    stop = "。" if east else "."
    return f"{before}{stop}{'' if east else ' '}{text}", stop


FAMILY = Family(
    name="outetts",
    summary="OuteTTS 1.0, 0.6B and 1B: many languages, word times, the voice of a recording",
    architectures=("LlamaForCausalLM", "Qwen3ForCausalLM"),
    codec="dac",
    licences=Licences(
        code="Apache-2.0",
        model="0.6B: Apache-2.0, 1B: not for commerce, both to be checked",
        codec="as the card of its checkpoint says, to be checked",
    ),
    marks={
        "begin": Mark(name="<|im_start|>"),
        "end": Mark(name="<|im_end|>"),
        "text_start": Mark(name="<|text_start|>"),
        "text_end": Mark(name="<|text_end|>"),
        "audio_start": Mark(name="<|audio_start|>"),
        "audio_end": Mark(name="<|audio_end|>"),
        "word_start": Mark(name="<|word_start|>"),
        "word_end": Mark(name="<|word_end|>"),
        "features": Mark(name="<|features|>"),
        "code": Mark(name="<|code|>"),
    },
    read=OuteReader,
    markup=True,
    languages=("en", "ar", "de", "es", "fr", "it", "ja", "ko", "lt", "nl", "pt", "ru", "zh"),
    reference="profile",
    reference_seconds=(3.0, 15.0),
    describe=describe,
    sampling=TokenSampling(
        temperature=0.4,
        top_k=40,
        top_p=0.9,
        min_p=0.05,
        repetition_penalty=1.1,
        penalty_window=64,
    ),
    context_tokens=8192,
    tokens_per_second=180.0,
    first_audio_tokens=20,
    max_chars=220,
    normalise=_normalise,
)
