# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Makes a folder that the NanoCodec decoder reads of a file that NeMo wrote.

``python -m antiphon.deploy.convert_nanocodec MODEL.nemo FOLDER``: the file's weights are read as
tensors alone, none of its code is run, and NeMo isn't needed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, cast

import yaml

CONFIGURATION = "model_config.yaml"
WEIGHTS = "model_weights.ckpt"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="convert_nanocodec", description=__doc__)
    parser.add_argument("model", type=Path, help="the .nemo file")
    parser.add_argument("folder", type=Path, help="where to write to")
    asked = parser.parse_args(arguments)
    try:
        convert(asked.model, asked.folder)
    except (OSError, tarfile.TarError, ValueError) as error:
        print(f"{asked.model}: {error}", file=sys.stderr)
        return 1
    return 0


def convert(model: Path, folder: Path) -> None:
    """Write ``config.json`` and ``model.safetensors``.

    Raises:
        ValueError: it is no audio codec of this shape.
    """
    import torch
    from safetensors.torch import save_file

    from ..engines.speech.decoders.nanocodec import NanoCodec, NanoSettings, from_nemo

    with tarfile.open(model) as archive:
        described = yaml.safe_load(_member(archive, CONFIGURATION))
        weights = torch.load(_member(archive, WEIGHTS), map_location="cpu", weights_only=True)
    try:
        settings = NanoSettings(**_settings(described))
        codec = NanoCodec(settings)
        codec.load_state_dict(from_nemo(weights))
    except (KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"expected an audio codec of NanoCodec's shape: {error}") from error
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": "nanocodec", **asdict(settings)}
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    save_file(codec.state_dict(), folder / "model.safetensors")


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    """A file of an archive, wherever it lies."""
    for member in archive.getmembers():
        if Path(member.name).name == name and (file := archive.extractfile(member)) is not None:
            return file
    raise ValueError(f"expected {name} inside")


def _settings(described: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of ``NanoSettings`` that NeMo's configuration tells; activations, padding and
    groups have to be those of NanoCodec."""
    decoder = cast("Mapping[str, Any]", described["audio_decoder"])
    quantizer = cast("Mapping[str, Any]", described["vector_quantizer"])
    wanted = {"activation": "half_snake", "output_activation": "clamp", "pad_mode": "zeros"}
    for key, value in wanted.items():
        if decoder.get(key, value) != value:
            raise ValueError(f"expected {value} as audio_decoder.{key}, got {decoder[key]}")
    fields: dict[str, Any] = {
        "sample_rate": int(described["sample_rate"]),
        "codebooks": int(quantizer["num_groups"]),
        "levels": tuple(quantizer["num_levels_per_group"]),
        "channels": int(decoder["base_channels"]),
        "rates": tuple(decoder["up_sample_rates"]),
    }
    optional = {
        "in_kernel": "in_kernel_size",
        "out_kernel": "out_kernel_size",
        "kernels": "resblock_kernel_sizes",
        "dilations": "resblock_dilation_sizes",
    }
    for ours, theirs in optional.items():
        if theirs in decoder:
            value = decoder[theirs]
            fields[ours] = value if isinstance(value, int) else tuple(value)
    return fields


if __name__ == "__main__":
    raise SystemExit(main())
