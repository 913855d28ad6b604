# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""Tiny pipelines with random weights, made in under a second.

They show that everything works, and are what is served until there is a trained model. A folder
of one is like that of any other; ``antiphon.json`` in it says that it is untrained. The same
code makes the same weights.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch

from .abilities import FACTS, Facts
from .named import PLACEHOLDERS
from .quiet import hush

VERSION = 1
"""To be raised with any change of what is made."""

POSITIONS = 16
"""Of the text model."""

WIDTH = 32
"""Of its states."""

SPECIAL = ("<|startoftext|>", "<|endoftext|>")


def ensure(name: str, folder: Path) -> Path:
    """The folder of the placeholder ``name`` in ``folder``, made where it is not there yet.

    It ends with the version, so that other code makes it anew.
    """
    target = folder / f"{name}-{VERSION}"
    if (target / FACTS).is_file():
        return target
    hush()
    folder.mkdir(parents=True, exist_ok=True)
    # Whole or not at all: several processes may want it at once.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as made:
        MAKERS[name](Path(made) / name)
        try:
            (Path(made) / name).rename(target)
        except OSError:
            if not (target / FACTS).is_file():
                shutil.rmtree(target, ignore_errors=True)
                (Path(made) / name).rename(target)
    return target


def clip_tokenizer() -> Any:
    """Of printable characters, one by one."""
    from transformers import CLIPTokenizer

    letters = [chr(code) for code in range(33, 127)]
    words = [*letters, *(f"{letter}</w>" for letter in letters), *SPECIAL]
    vocabulary = {word: number for number, word in enumerate(words)}
    return CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=POSITIONS)


def clip_settings() -> Any:
    """Of the text model of :func:`clip_tokenizer`."""
    from transformers import CLIPTextConfig

    count = 2 * 94
    return CLIPTextConfig(
        vocab_size=count + len(SPECIAL),
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=POSITIONS,
        bos_token_id=count,
        eos_token_id=count + 1,
        pad_token_id=count + 1,
        projection_dim=WIDTH,
    )


def t5_encoder() -> Any:
    """A text model of bytes."""
    from transformers import T5Config, T5EncoderModel

    settings = T5Config(
        vocab_size=384,
        d_model=WIDTH,
        d_kv=8,
        d_ff=2 * WIDTH,
        num_layers=2,
        num_heads=4,
        feed_forward_proj="gated-gelu",
    )
    return T5EncoderModel(settings)


def kl_autoencoder(**changed: Any) -> Any:
    """Eight pixels a latent, along a side."""
    from diffusers import AutoencoderKL

    settings: dict[str, Any] = {
        "block_out_channels": (16, 16, 16, 16),
        "down_block_types": ("DownEncoderBlock2D",) * 4,
        "up_block_types": ("UpDecoderBlock2D",) * 4,
        "layers_per_block": 1,
        "norm_num_groups": 8,
        "latent_channels": 4,
        "sample_size": 64,
    }
    return AutoencoderKL(**settings | changed)


def unet(**changed: Any) -> Any:
    """A UNet for latents of :func:`kl_autoencoder`."""
    from diffusers import UNet2DConditionModel

    settings: dict[str, Any] = {
        "sample_size": 8,
        "layers_per_block": 1,
        "block_out_channels": (16, 32),
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
        "cross_attention_dim": WIDTH,
        "attention_head_dim": 4,
        "norm_num_groups": 8,
    }
    return UNet2DConditionModel(**settings | changed)


def stable_diffusion(**parts: Any) -> Any:
    """A Stable Diffusion of these parts, with nothing that looks at what it made."""
    from diffusers import StableDiffusionPipeline

    kind: Any = StableDiffusionPipeline
    return kind(**parts, safety_checker=None, feature_extractor=None, requires_safety_checker=False)


def make_image(folder: Path) -> None:
    """Stable Diffusion, of 64 pixels a side."""
    from diffusers import DPMSolverMultistepScheduler
    from transformers import CLIPTextModel

    torch.manual_seed(0)
    pipe = stable_diffusion(
        vae=kl_autoencoder(),
        text_encoder=CLIPTextModel(clip_settings()),
        tokenizer=clip_tokenizer(),
        unet=unet(),
        scheduler=DPMSolverMultistepScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1
        ),
    )
    save(pipe, folder, PLACEHOLDERS["placeholder-image"].facts)


def wan_parts(**changed: Any) -> dict[str, Any]:
    """The parts of a Wan pipeline; ``changed`` is of its transformer."""
    from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanTransformer3DModel
    from transformers import ByT5Tokenizer

    settings: dict[str, Any] = {
        "patch_size": (1, 2, 2),
        "num_attention_heads": 2,
        "attention_head_dim": 16,
        "in_channels": 16,
        "out_channels": 16,
        "text_dim": WIDTH,
        "freq_dim": 64,
        "ffn_dim": 64,
        "num_layers": 2,
        "cross_attn_norm": True,
        "qk_norm": "rms_norm_across_heads",
        "rope_max_seq_len": 32,
    }
    torch.manual_seed(0)
    return {
        "tokenizer": ByT5Tokenizer(),
        "text_encoder": t5_encoder(),
        "vae": AutoencoderKLWan(
            base_dim=4,
            z_dim=16,
            dim_mult=[1, 1, 1, 1],
            num_res_blocks=1,
            temperal_downsample=[False, True, True],
        ),
        "transformer": WanTransformer3DModel(**settings | changed),
        "scheduler": UniPCMultistepScheduler(
            prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
        ),
    }


def make_video(folder: Path) -> None:
    """Wan, of 64 pixels a side."""
    from diffusers import WanPipeline

    save(WanPipeline(**wan_parts()), folder, PLACEHOLDERS["placeholder-video"].facts)


MAKERS: Mapping[str, Callable[[Path], None]] = {
    "placeholder-image": make_image,
    "placeholder-video": make_video,
}


def save(pipe: Any, folder: Path, facts: Facts) -> None:
    """Write a pipeline and what is to be known of it; the facts last."""
    pipe.save_pretrained(str(folder))
    said = {key: value for key, value in msgspec.structs.asdict(facts).items() if value is not None}
    (folder / FACTS).write_bytes(msgspec.json.format(msgspec.json.encode(said), indent=2))
