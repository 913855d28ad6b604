# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""The model of clips: its autoencoder first, then what draws in its latents.

A stock Wan pipeline (Wan Team 2025), taught by flow matching (Lipman et al., 2022): the
transformer is shown a mixture of latents and noise, and says the way from the one to the other.
Its text model is a small T5 encoder, of words instead of bytes, that is taught first.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from ...engines.diffusion.abilities import Facts as Abilities
from ...engines.diffusion.placeholder import save
from ...engines.diffusion.quiet import hush
from .autoencoder import as_tensor
from .clip_autoencoder import DOWN, LATENTS, TIME, encode, train_autoencoder
from .clip_reading import WIDTH as TEXT_WIDTH
from .clip_reading import WORDS, states_of, train_reader
from .glyphs import Pixels
from .motion_words import say, vocabulary
from .motions import FRAMES, PER_SECOND, SIDE, Facts, choose, draw
from .pool import MOST_PIXELS, Pool, halved, times
from .runner import Learner, Losses, Phase, Report, learn, tile
from .words import tokenizer

AUTOENCODER, READER = 14 * 60.0, 3 * 60.0
"""Seconds of the time that the autoencoder learns, and the text model; at most a quarter of it,
and a tenth."""

BATCH = 16
FRESH = 2
"""New clips in each step; the others have been seen with other captions, noise and times."""

POOL = 32768
"""Encoded clips that are held: 335 MB."""

FIRST = 1536
"""Of them, before the first step."""

UNCAPTIONED = 0.1
"""Of the samples, how many are learnt without a caption, for guidance."""

HARD, HARDER = ("turn", "recolour"), 0.3
"""What keeps its place and its size is told from what stays still by the glyph's looks alone, and
learnt last: so much of what is something else is one of these instead."""

WIDTH, LAYERS = 192, 8

STEPS, GUIDANCE, SHIFT = 16, 3.0, 3.0
"""Of samples, and of the model as it is served."""

TAUGHT_SHIFTS = (5.0, 1.5)
"""How much more of the noisy mixtures are learnt from, of the one half of the samples and of the
other: what moves where is decided in nearly nothing but noise, what it looks like as it turns is not."""

EXAMPLES = (
    "a cat moves to the left on a yellow background",
    "a rocket flying up on a blue background",
    "a red car moves to the right on white",
    "an apple falls on a green background",
    "a star grows on a black background",
    "a heart shrinks on a white background",
    "a house becomes blue on a grey background",
    "a purple frog goes down on pink",
)
"""What whoever is served by it is told to try."""

SHOWN = (
    *EXAMPLES,
    "a fish turns on a turquoise background",
    "a ghost stays still on a purple background",
)
"""What the sheets of samples are asked for."""


def lesson(rng: np.random.Generator) -> Facts:
    """What to draw next."""
    facts = choose(rng)
    if facts.motion in HARD or rng.random() > HARDER:
        return facts
    return choose(rng, lambda other: other.motion in HARD and not other.unseen())


def transformer() -> Any:
    """An untaught one for latents of 5 by 8 by 8, 80 tokens of 2 by 2 of them."""
    from diffusers import WanTransformer3DModel

    return WanTransformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=WIDTH // 32,
        attention_head_dim=32,
        in_channels=LATENTS,
        out_channels=LATENTS,
        text_dim=TEXT_WIDTH,
        freq_dim=128,
        ffn_dim=3 * WIDTH,
        num_layers=LAYERS,
        cross_attn_norm=True,
        qk_norm="rms_norm_across_heads",
        rope_max_seq_len=64,
    )


def compiler() -> str | None:
    """That of C++, if it is installed: parts of the model are compiled with it."""
    return shutil.which("g++")


def pipeline(parts: dict[str, Any]) -> Any:
    """The whole of them."""
    from diffusers import UniPCMultistepScheduler, WanPipeline

    scheduler = UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=SHIFT
    )
    kind: Any = WanPipeline
    made = kind(**parts, scheduler=scheduler)
    made.set_progress_bar_config(disable=True)
    return made


class Moving:
    """What learns, what it learns with, and its loss."""

    def __init__(self, words: Any, encoder: Any, reader: Any, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.words, self.encoder, self.reader = words, encoder, reader
        self.transformer: Any = transformer()
        if compiler():
            # Twice as fast: most of a step is in small operations, that are joined.
            self.transformer.compile_repeated_blocks(fullgraph=True, dynamic=False)
        shape = (POOL, LATENTS, 1 + (FRAMES - 1) // TIME, SIDE // DOWN, SIDE // DOWN)
        self.pool = Pool(shape, lesson, self._encoded, self._rng)
        shift, scale = encoder.config.latents_mean, encoder.config.latents_std
        self._mean = torch.tensor(shift).view(1, -1, 1, 1, 1)
        self._std = torch.tensor(scale).view(1, -1, 1, 1, 1)

    def _encoded(self, facts: Sequence[Facts]) -> Tensor:
        drawn: Pixels = np.stack([draw(each, self._rng) for each in facts])
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            latents: Tensor = encode(self.encoder, as_tensor(drawn)).mode()
        return (latents - self._mean) / self._std

    @property
    def models(self) -> dict[str, nn.Module]:
        """What learns."""
        return {"transformer": self.transformer}

    def parts(self) -> dict[str, Any]:
        """Of the pipeline; the transformer is a copy that isn't compiled, for batches of any size."""
        plain = transformer()
        plain.load_state_dict(self.transformer.state_dict())
        return {
            "vae": self.encoder,
            "text_encoder": self.reader,
            "tokenizer": self.words,
            "transformer": plain.requires_grad_(False).eval(),
        }

    def losses(self) -> tuple[Losses, int]:
        """Of the next batch."""
        self.pool.add(FRESH)
        latents, facts = self.pool.take(BATCH)
        told = ["" if self._rng.random() < UNCAPTIONED else say(each, self._rng) for each in facts]
        shift = torch.tensor(TAUGHT_SHIFTS).repeat(BATCH // len(TAUGHT_SHIFTS))
        noise, share = torch.randn_like(latents), times(len(latents), shift)
        part = share[:, None, None, None, None]
        mixed = (1 - part) * latents + part * noise
        # The gradient of the fused attention is slow in bfloat16 on a CPU.
        with torch.autocast("cpu", torch.bfloat16), sdpa_kernel(SDPBackend.MATH):
            states = states_of(self.reader, self.words, told)
            said = self.transformer(mixed, 1000 * share, states, return_dict=False)[0]
        away = (said.float() - (noise - latents)).square()
        return {"loss": away.mean()}, BATCH


def samples(parts: dict[str, Any], prompts: tuple[str, ...], seeds: range) -> Pixels:
    """Each prompt with each seed: ``(prompts * seeds, FRAMES, SIDE, SIDE, 3)``."""
    pipe = pipeline(parts)
    made: list[Pixels] = []
    for prompt in prompts:
        frames = pipe(
            [prompt] * len(seeds),
            height=SIDE,
            width=SIDE,
            num_frames=FRAMES,
            num_inference_steps=STEPS,
            guidance_scale=GUIDANCE,
            max_sequence_length=WORDS,
            generator=[torch.Generator().manual_seed(seed) for seed in seeds],
            output_type="np",
        ).frames
        made.append((frames.clip(0, 1) * 255).round().astype(np.uint8))
    return np.concatenate(made)


def write(parts: dict[str, Any], folder: Path) -> None:
    """Write the pipeline in bfloat16, as it is served."""
    facts = Abilities(
        width=SIDE,
        height=SIDE,
        steps=STEPS,
        guidance=GUIDANCE,
        frames=FRAMES,
        frames_per_second=PER_SECOND,
        max_pixels=MOST_PIXELS,
        drawn_pixels=SIDE * SIDE,
        max_frames=FRAMES,
        max_prompt_chars=500,
        call={"max_sequence_length": WORDS},
        examples=EXAMPLES,
    )
    save(pipeline(halved(parts)), folder, facts)


def train(out: Path, seconds: float, report: Report, seed: int = 1) -> None:
    """Do all that isn't done yet; ``out/pipeline`` is the model as it is then."""
    hush()
    first, second = min(AUTOENCODER, seconds / 4), min(READER, seconds / 10)
    encoder = train_autoencoder(out / "autoencoder", first, report)
    words = tokenizer(vocabulary())
    reader = train_reader(out / "reader", words, second, report)
    torch.manual_seed(seed)
    moving = Moving(words, encoder, reader, seed)
    phase = Phase(
        seconds=seconds - first - second, rate=1.2e-3, warmup=300, falling=0.45, sheet_seconds=900
    )
    learner = Learner(moving.models, phase)
    report("denoiser: the first clips")
    for _ in range(FIRST // 16):
        moving.pool.add(16)

    def sheet(path: Path) -> None:
        parts = moving.parts()
        made = samples(parts, SHOWN, range(2))
        tile(made[:, ::4].reshape(-1, SIDE, SIDE, 3), 10, path)
        write(parts, out / "pipeline")

    with warnings.catch_warnings():
        # Weights stay in float32 where the rest is bfloat16.
        warnings.filterwarnings("ignore", message="Mismatch dtype between input and weight")
        learn(learner, moving.losses, out / "denoiser", report, sheet)
