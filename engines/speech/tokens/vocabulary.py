"""The vocabulary of a language model, out of the ``tokenizer.json`` of its folder.

By the ``tokenizers`` package alone, so that no model library is needed to ask for an id. A codec
language model has tens of thousands of added tokens, a code each: 66,000 are loaded in 0.1 s,
and a text of a clause is encoded in 0.1 ms.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...chunks import StageError
from ...stage import StageFailure

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FILE = "tokenizer.json"
CONFIG = "config.json"

_PROBE = "a"
"""A text, to see what is put around one."""


class _Sizes(msgspec.Struct):
    """What of a model's ``config.json`` tells how many ids there are."""

    vocab_size: int | None = None


class FolderVocabulary:
    """A :class:`..families.family.Vocabulary`. Safe to share between threads."""

    def __init__(self, tokenizer: Tokenizer, size: int | None = None) -> None:
        """``size``: of the model's own table, where more ids have no name than have one."""
        self._tokenizer = tokenizer
        named = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        self._size = max(named, size or 0)
        self._opening = tuple(_opening(tokenizer))

    @property
    def opening(self) -> Sequence[int]:
        """What the tokenizer puts ahead of a text by itself."""
        return self._opening

    @property
    def size(self) -> int:
        """Ids are smaller, those without a name included."""
        return self._size

    def find(self, name: str) -> int | None:
        """The id of a token by its exact text; ``None`` where there is none."""
        found: int | None = self._tokenizer.token_to_id(name)
        return found

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, in which marks are text as well. Nothing is added around it."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of some tokens, marks included; what is no token has none."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))


def load_vocabulary(folder: Path) -> FolderVocabulary:
    """Read a folder's vocabulary; takes up to half a second, so call it off the event loop.

    Raises:
        StageFailure: with the code ``package_missing`` or ``model_unusable``.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError:
        hint = "tokenizers is not installed: run `pip install 'antiphon[codec-lm]'`"
        raise StageFailure(StageError("package_missing", hint)) from None
    path = folder / FILE
    if not path.is_file():
        what = f"expected {FILE} in the language model's folder, as Hugging Face models have it"
        raise StageFailure(StageError("model_unusable", what))
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception:  # The package raises nothing narrower for a file that it can't read.
        what = f"{FILE} of the language model can't be read"
        raise StageFailure(StageError("model_unusable", what)) from None
    return FolderVocabulary(tokenizer, _size(folder / CONFIG))


def _opening(tokenizer: Tokenizer) -> list[int]:
    """The ids ahead of the text in what the tokenizer makes of one by itself."""
    bare: list[int] = tokenizer.encode(_PROBE, add_special_tokens=False).ids
    whole: list[int] = tokenizer.encode(_PROBE, add_special_tokens=True).ids
    for at in range(len(whole) - len(bare) + 1):
        if whole[at : at + len(bare)] == bare:
            return whole[:at]
    return []


def _size(path: Path) -> int | None:
    """How many ids the model's own table has; ``None`` where the file doesn't say."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Sizes).vocab_size
    except (OSError, msgspec.MsgspecError):
        return None
