"""The two stages of a codec language model, as a deployment says."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ...catalog import require
from ...chunks import StageError
from ...deployment import Code2wavConfig
from ...stage import StageFailure
from ..decoders.decoder import DecoderOptions
from ..families.binding import bind
from ..families.family import Family, Reader, family
from .codec import Codec
from .references import ReferenceStore
from .settings import CodecTalkerConfig, is_folder
from .sound import CodecSoundStage
from .talker import CodecTalkerParts, CodecTalkerStage
from .vllm_tokens import load_tokens
from .vocabulary import load_vocabulary

REFERENCES = "references"
"""Where voices of recordings lie in the folder of added voices."""


def codec_lm_stages(
    config: CodecTalkerConfig,
    code2wav: Code2wavConfig,
    cache_root: Path,
    voices: Path | None = None,
) -> tuple[CodecTalkerStage, CodecSoundStage]:
    """Talker and code2wav; nothing is loaded yet.

    ``voices``: the folder of added voices, if any can be added.

    Raises:
        StageFailure: there is no such family; a deployment was checked for that.
    """
    known = family(config.family)
    language = config.language or known.languages[0]
    codec = Codec(
        known.codec,
        partial(folder_of, "stages.talker.codec", config.codec, cache_root),
        DecoderOptions(
            device=config.device,
            dtype=config.codec_dtype,
            threads=code2wav.threads,
            ladder=code2wav.ladder or (),
            batch=code2wav.batch,
        ),
    )
    wanted = config.context_tokens or known.context_tokens
    folder = partial(folder_of, "stages.talker.model", config.model, cache_root)
    parts = CodecTalkerParts(
        family=known,
        sampling=config.sampling(known.sampling),
        context_tokens=lambda: min(wanted, most_tokens(folder())),
        max_requests=config.max_requests,
        language=language,
        seed=config.seed,
        grammar=config.grammar,
        references=ReferenceStore(
            known, None if voices is None else voices / REFERENCES, codec.load_encoder
        ),
        bind=lambda: bound(known, folder(), language),
        launch=lambda: load_tokens(
            config, known.architectures, wanted, folder(), cache_root / ".vllm"
        ),
        card=codec.card,
    )
    return CodecTalkerStage(parts), CodecSoundStage(code2wav, codec)


def bound(known: Family, folder: Path, language: str) -> Reader:
    """A family bound to the vocabulary of a model's folder; blocks.

    Raises:
        StageFailure: the vocabulary can't be read, or is not of the family; or that does not
            speak the ``language``.
    """
    if language not in known.languages:
        what = f"stages.talker.language: expected one of {', '.join(known.languages)}"
        raise StageFailure(StageError("model_unusable", f"{what}, got {language}"))
    try:
        return bind(known, load_vocabulary(folder))
    except ValueError as error:
        what = f"stages.talker.model: it is no model of {known.name}: {error}"
        raise StageFailure(StageError("model_unusable", what)) from None


def most_tokens(folder: Path) -> int:
    """The most that a model's context has, as far as its folder says so; blocks."""
    try:
        about: Any = msgspec.json.decode((folder / "config.json").read_bytes())
        return int(about["max_position_embeddings"])
    except (OSError, ValueError, KeyError, TypeError):
        # The engine says what is wrong with the folder.
        return sys.maxsize


def folder_of(key: str, named: str, cache_root: Path) -> Path:
    """The folder of a model that a deployment names.

    Raises:
        StageFailure: it is not there; ``key`` says which.
    """
    if not is_folder(named):
        return require(named, cache_root)[1]
    folder = Path(named)
    if not folder.is_dir():
        what = f"{key}: there is no folder {folder.name} where the deployment says"
        raise StageFailure(StageError("model_missing", what))
    return folder
