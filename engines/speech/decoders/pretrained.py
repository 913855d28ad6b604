# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Codecs that ``transformers`` has a class of, from folders that it wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from .decoder import DecoderOptions
from .folder import package, read_config, unusable


def load_pretrained(
    codec: str, name: str, folder: Path, options: DecoderOptions, *, kind: str | None = None
) -> Any:
    """The model of a folder, ready to decode.

    ``name``: of its class in ``transformers``. ``kind``: the ``model_type`` that its
    configuration has to have; the codec's name where it is not given.

    Files of tensors alone are read, none whose loading would run code.

    Raises:
        StageFailure: the package is missing, the folder is of another model, or a weight lacks.
    """
    transformers = package("transformers", codec=codec)
    made: Any = getattr(transformers, name, None)
    if made is None:
        raise unusable(f"the codec {codec} needs a newer transformers, with {name}")
    wanted = kind or codec
    if (got := read_config(folder).get("model_type")) != wanted:
        raise unusable(f"expected a folder of the model type {wanted}, got {got}")
    try:
        model, told = made.from_pretrained(
            folder,
            dtype=getattr(torch, options.dtype),
            local_files_only=True,
            weights_only=True,
            output_loading_info=True,
        )
    except Exception as error:
        # Whatever a damaged file does to it; the library's own words quote paths.
        what = f"the folder of {codec} can't be loaded ({type(error).__name__})"
        raise unusable(what) from None
    if missing := sorted(told["missing_keys"]):
        what = f"the weights of {codec} lack {len(missing)} tensors, {missing[0]} among them"
        raise unusable(what)
    return model.eval().requires_grad_(False).to(options.device)
