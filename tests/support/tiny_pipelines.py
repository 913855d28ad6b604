# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""A tiny pipeline of each family, with random weights, written in well under a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from antiphon.engines.diffusion import placeholder
from antiphon.engines.diffusion.abilities import Facts
from antiphon.engines.diffusion.named import PLACEHOLDERS
from antiphon.engines.diffusion.placeholder import (
    WIDTH,
    clip_settings,
    clip_tokenizer,
    kl_autoencoder,
    save,
    t5_encoder,
    unet,
    wan_parts,
)

TEXT = {"max_sequence_length": 32}


def stable_diffusion_3(folder: Path) -> None:
    from diffusers import (
        FlowMatchEulerDiscreteScheduler,
        SD3Transformer2DModel,
        StableDiffusion3Pipeline,
    )
    from transformers import ByT5Tokenizer, CLIPTextModelWithProjection

    torch.manual_seed(0)
    pipe = StableDiffusion3Pipeline(
        transformer=SD3Transformer2DModel(
            sample_size=8,
            patch_size=2,
            in_channels=16,
            out_channels=16,
            num_layers=2,
            attention_head_dim=8,
            num_attention_heads=4,
            joint_attention_dim=WIDTH,
            caption_projection_dim=WIDTH,
            pooled_projection_dim=2 * WIDTH,
            pos_embed_max_size=32,
            qk_norm="rms_norm",
        ),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=_flow_autoencoder(latent_channels=16),
        text_encoder=CLIPTextModelWithProjection(clip_settings()),
        tokenizer=clip_tokenizer(),
        text_encoder_2=CLIPTextModelWithProjection(clip_settings()),
        tokenizer_2=clip_tokenizer(),
        text_encoder_3=t5_encoder(),
        tokenizer_3=ByT5Tokenizer(),
    )
    save(pipe, folder, Facts(steps=4, call=TEXT))


def flux(folder: Path) -> None:
    from diffusers import FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel
    from transformers import ByT5Tokenizer, CLIPTextModel

    torch.manual_seed(0)
    pipe = FluxPipeline(
        transformer=FluxTransformer2DModel(
            patch_size=1,
            in_channels=16,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=WIDTH,
            pooled_projection_dim=WIDTH,
            axes_dims_rope=(4, 4, 8),
            guidance_embeds=True,
        ),
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=_flow_autoencoder(),
        text_encoder=CLIPTextModel(clip_settings()),
        tokenizer=clip_tokenizer(),
        text_encoder_2=t5_encoder(),
        tokenizer_2=ByT5Tokenizer(),
    )
    save(pipe, folder, Facts(width=64, height=64, steps=4, call=TEXT))


def _flow_autoencoder(**changed: Any) -> Any:
    return kl_autoencoder(
        **changed,
        use_quant_conv=False,
        use_post_quant_conv=False,
        shift_factor=0.0609,
        scaling_factor=1.5305,
    )


def animatediff(folder: Path) -> None:
    from diffusers import AnimateDiffPipeline, DDIMScheduler, MotionAdapter, UNetMotionModel
    from transformers import CLIPTextModel

    torch.manual_seed(0)
    flat = unet(
        block_out_channels=(8, 16),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        attention_head_dim=2,
        norm_num_groups=4,
    )
    motion = MotionAdapter(
        block_out_channels=(8, 16),
        motion_layers_per_block=1,
        motion_norm_num_groups=2,
        motion_num_attention_heads=2,
        motion_max_seq_length=16,
    )
    unet_of_clips: Any = UNetMotionModel.from_unet2d(flat, motion)
    pipe = AnimateDiffPipeline(
        vae=kl_autoencoder(),
        text_encoder=CLIPTextModel(clip_settings()),
        tokenizer=clip_tokenizer(),
        unet=unet_of_clips,
        motion_adapter=motion,
        scheduler=DDIMScheduler(beta_schedule="linear", clip_sample=False, steps_offset=1),
    )
    save(pipe, folder, Facts(steps=4, frames=4))


def wan_image_to_video(folder: Path) -> None:
    from diffusers import WanImageToVideoPipeline

    parts = wan_parts(in_channels=36)
    save(WanImageToVideoPipeline(**parts), folder, PLACEHOLDERS["placeholder-video"].facts)


MAKERS: Mapping[str, Callable[[Path], None]] = {
    "stable-diffusion": placeholder.make_image,
    "stable-diffusion-3": stable_diffusion_3,
    "flux": flux,
    "wan": placeholder.make_video,
    "wan-image": wan_image_to_video,
    "animatediff": animatediff,
}
