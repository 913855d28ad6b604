"""Our own talker: a Llama of a few million parameters that says the voice ``piper-joe``.

It is told one sound at a time: where it is done with one it says *ask*, and is given the next by
the engine, out of a script; see :class:`..tokens.rules.Script`. So it copies nothing from a
prompt, which a model of this size does badly, and can't leave out or repeat a word. A frame of
two tokens is 46 ms.

Taught by ``deploy/train_talker.py``. Experimental: what it says is not as well understood as what
its teacher says.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ..tokens.layout import Layout, Slot
from ..tokens.rules import Script
from ..voices.phonemes import Transcriber
from .binding import named_voice, numbered, one_line
from .family import Family, Licences, Mark, Prompt, PromptRequest, TokenSampling, Vocabulary
from .joe_units import ANY, ASK, BEGIN, STOP, code_name, pair_name, pairs_of, units_of
from .spelled import spelled

VOICES = ("joe",)

ESPEAK = "en-us"

STEP_SECONDS = 4 * 256 / 22_050


class JoeReader:
    """See :class:`.family.Reader`."""

    def __init__(self, vocabulary: Vocabulary, marks: Mapping[str, int]) -> None:
        """Raises ``StageFailure`` where piper is not installed."""
        blocks = tuple(numbered(vocabulary, partial(code_name, book)) for book in (0, 1))
        self.layout = Layout((Slot(0), Slot(1)), blocks, steps=1, codebooks=2)
        self.stop = (marks["stop"],)
        self._begin, self._ask = marks["begin"], marks["ask"]
        self._vocabulary = vocabulary
        self._phonemes = Transcriber(ESPEAK)

    def prompt(self, asked: PromptRequest) -> Prompt:
        """The first sound; the others are its script.

        Raises:
            ValueError: there is no such voice, or nothing in the text can be pronounced.
        """
        named_voice(asked, VOICES, "joe-lm")
        units = self._script(asked.text)
        if not units:
            raise ValueError("text: expected something that can be pronounced")
        first, *others = units
        script = Script(ask=self._ask, each=1, tokens=tuple(others))
        return Prompt(tokens=[self._begin, first], script=script)

    def markup(self) -> None:
        """Nothing is said beside the codes that isn't in the script."""

    def _script(self, text: str) -> list[int]:
        """A token for each sound; sounds that the model doesn't know are left out first, so that
        those beside them are neighbours."""
        units, _ = units_of(self._phonemes(text))
        known = [each for each in units if self._find(each, ANY) is not None]
        found = [self._find(*pair) for pair in pairs_of(known)]
        return [each for each in found if each is not None]

    def _find(self, unit: str, following: str) -> int | None:
        """The token of a pair, else that of the unit before anything."""
        at = self._vocabulary.find(pair_name(unit, following))
        return self._vocabulary.find(pair_name(unit, ANY)) if at is None else at


FAMILY = Family(
    name="joe-lm",
    summary="ours, 6 million parameters, of the voice piper-joe; experimental",
    architectures=("LlamaForCausalLM",),
    codec="joe-codes",
    licences=Licences(code="Apache-2.0", model="CC0-1.0", codec="CC0-1.0"),
    marks={
        "begin": Mark(name=BEGIN),
        "ask": Mark(name=ASK),
        "stop": Mark(name=STOP),
    },
    read=JoeReader,
    languages=("en",),
    # It asks between frames.
    markup=True,
    voices=VOICES,
    sampling=TokenSampling(temperature=0.3, top_k=20),
    context_tokens=1024,
    # Two a step, and two for each of 13 to 14 sounds a second.
    tokens_per_second=2 / STEP_SECONDS + 2 * 13.8,
    first_audio_tokens=10,
    max_chars=160,
    normalise=lambda text: one_line(spelled(text)),
)
