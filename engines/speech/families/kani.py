"""Kani-TTS, first version: the LFM2 hybrid that speaks NanoCodec, four tokens a frame.

The model's tokenizer has no names for what comes behind its 64,400 tokens, so that marks and
codes go by number: mark ``n`` is 64,400 + ``n``, code ``c`` of codebook ``k`` is
64,410 + 4,032 ``k`` + ``c``. Where a vocabulary does have the names below, they win.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ..tokens.layout import Layout, Slot, TokenBlock
from .binding import Plain, named_voice, numbered, one_line
from .family import Family, Licences, Mark, Prompt, PromptRequest, TokenSampling, Vocabulary

VOICES = ("andrew", "jenny", "katie", "kore", "david", "simon", "puck", "thorsten", "bert")
"""Those of the tuned models; which of them one knows is for its publisher to say. A pretrained
model takes no heed of any."""

NAMED = 64_400
"""Tokens that the model's tokenizer knows."""

BASE, SIZE, CODEBOOKS = NAMED + 10, 4032, 4


def _blocks(vocabulary: Vocabulary) -> tuple[TokenBlock, ...]:
    if vocabulary.find(_name(0, 0)) is None:
        blocks = [TokenBlock(BASE + SIZE * book, SIZE) for book in range(CODEBOOKS)]
    else:
        blocks = [numbered(vocabulary, partial(_name, book)) for book in range(CODEBOOKS)]
    if blocks[-1].base + blocks[-1].size > vocabulary.size:
        needed = blocks[-1].base + blocks[-1].size
        raise ValueError(f"expected {needed} tokens or more, got {vocabulary.size}")
    return tuple(blocks)


def _name(book: int, code: int) -> str:
    return f"<|audio_{book}_{code}|>"


class KaniReader:
    """See :class:`.family.Reader`."""

    def __init__(self, vocabulary: Vocabulary, marks: Mapping[str, int]) -> None:
        slots = tuple(Slot(book) for book in range(CODEBOOKS))
        self.layout = Layout(slots, _blocks(vocabulary), steps=1, codebooks=CODEBOOKS)
        self.stop = (marks["end_of_speech"], marks["end_of_ai"])
        self._plain = Plain(vocabulary, marks.values(), self.layout)
        self._before = [marks["start_of_human"], *vocabulary.opening]
        self._after = [marks["end_of_text"], marks["end_of_human"]]

    def prompt(self, asked: PromptRequest) -> Prompt:
        """The voice's name and the text, as said by a person; the model opens the answer."""
        voice = named_voice(asked, VOICES, "kani")
        said = self._plain(f"{voice}: {asked.text}")
        return Prompt(tokens=[*self._before, *said, *self._after])

    def markup(self) -> None:
        """Two marks are said ahead of the codes, and nothing that is of use."""


FAMILY = Family(
    name="kani",
    summary="Kani-TTS 370M to 450M: the shortest way to the first sound",
    architectures=("Lfm2ForCausalLM",),
    codec="nanocodec",
    licences=Licences(
        code="Apache-2.0",
        model="as its card says; made from LFM2, whose licence may apply too",
        codec="NVIDIA Open Model License",
    ),
    marks={
        "end_of_text": Mark(name="<|endoftext|>", id=2),
        "start_of_speech": Mark(name="<|start_of_speech|>", id=NAMED + 1),
        "end_of_speech": Mark(name="<|end_of_speech|>", id=NAMED + 2),
        "start_of_human": Mark(name="<|start_of_human|>", id=NAMED + 3),
        "end_of_human": Mark(name="<|end_of_human|>", id=NAMED + 4),
        "start_of_ai": Mark(name="<|start_of_ai|>", id=NAMED + 5),
        "end_of_ai": Mark(name="<|end_of_ai|>", id=NAMED + 6),
    },
    read=KaniReader,
    markup=True,
    languages=("en", "de", "es", "zh", "ko", "ar"),
    voices=VOICES,
    sampling=TokenSampling(temperature=0.6, top_p=0.95, repetition_penalty=1.1),
    # The publisher's bound on one utterance is 1,200 tokens of speech, 24 s.
    context_tokens=2048,
    tokens_per_second=50.0,
    first_audio_tokens=4,
    max_chars=220,
    normalise=one_line,
)
