# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportPrivateImportUsage=false
"""diffusers' switches: passed on, or refused with the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from tests.support.diffusion import Bench, load_model, made_alone, task_for

from antiphon.engines.diffusion.switches import DiffuserConfig, Named, Switches
from antiphon.engines.stage import StageFailure

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"switches": {"turbo": True}}, "unknown field `turbo`"),
        ({"switches": {"dtype": "int8"}}, "Invalid enum value 'int8'"),
        ({"switches": {"offload": "model"}}, "needs an accelerator"),
        ({"switches": {"offload_options": {"use_stream": True}}}, "only with offload: group"),
        (
            {"switches": {"cache": {"use": "FirstBlockCacheConfig"}}},
            "change each other's pictures; it needs max_tasks: 1",
        ),
        (
            {"switches": {"offload": "model", "device": "cuda"}},
            "whenever a task joins; it needs max_tasks: 1",
        ),
    ],
)
def test_a_deployment_that_can_not_be_is_refused(said: dict[str, Any], message: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert({"path": "x"} | said, DiffuserConfig)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        (Switches(scheduler=Named(use="FastScheduler")), "switches.scheduler: diffusers has no"),
        (Switches(scheduler=Named(use="UNet2DModel")), "UNet2DModel is no scheduler"),
        (
            Switches(scheduler=Named(use="DDIMScheduler", options={"speed": 2})),
            "switches.scheduler.options.speed: DDIMScheduler has: num_train_timesteps",
        ),
        (
            Switches(scheduler=Named(use="FlowMatchEulerDiscreteScheduler")),
            "does not fit this pipeline; these do: ",
        ),
        (Switches(attention_backend="warp"), "switches.attention_backend: "),
        (Switches(device="cuda:77"), "switches.device: "),
        (
            Switches(cache=Named(use="FirstBlockCacheConfig")),
            "switches.cache: unet (UNet2DConditionModel) has no enable_cache",
        ),
    ],
)
def test_a_switch_that_diffusers_does_not_know_is_refused(
    pipeline: Callable[[str], Path], switches: Switches, message: str
) -> None:
    tasks = 1 if switches.cache else 8
    with pytest.raises(StageFailure) as refused:
        load_model(pipeline("stable-diffusion"), switches=switches, max_tasks=tasks)
    assert refused.value.error.code == "bad_switch"
    assert message in refused.value.error.message


def test_a_cache_is_for_one_task_at_a_time(pipeline: Callable[[str], Path]) -> None:
    cache = Named(use="FirstBlockCacheConfig", options={"threshold": 0.0})
    model = load_model(pipeline("wan"), switches=Switches(cache=cache), max_tasks=1)
    with torch.no_grad():
        bench = Bench(model)
        for seed in (1, 2):
            bench.add(str(seed), task_for(model.abilities, seed))
        bench.turn()
        # One that breaks off leaves nothing to the next.
        bench.works["1"].cancel()
        bench.finish()
        assert set(bench.hub.forwards) == {1}
        alone = made_alone(model, task_for(model.abilities, 2))
        assert np.array_equal(bench.picture("2").frames, alone.picture("it").frames)


@pytest.fixture(scope="module")
def lora(pipeline: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter for the transformer of the tiny Flux."""
    from diffusers import FluxPipeline, FluxTransformer2DModel
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    folder = tmp_path_factory.mktemp("lora")
    transformer: Any = FluxTransformer2DModel.from_pretrained(pipeline("flux") / "transformer")
    torch.manual_seed(1)
    transformer.add_adapter(
        LoraConfig(r=2, lora_alpha=8, init_lora_weights="gaussian", target_modules=["to_q", "to_v"])
    )
    for name, weight in transformer.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight)
    weights: Any = get_peft_model_state_dict(transformer)
    FluxPipeline.save_lora_weights(str(folder), transformer_lora_layers=weights)
    return folder / "pytorch_lora_weights.safetensors"


def test_adapters_count_for_the_tasks_that_name_them(
    pipeline: Callable[[str], Path], lora: Path
) -> None:
    model = load_model(pipeline("flux"), switches=Switches(loras={"loud": str(lora)}))
    plain = load_model(pipeline("flux"))
    base = task_for(model.abilities)
    loud = task_for(model.abilities, adapters={"loud": 1.0})
    half = task_for(model.abilities, adapters={"loud": 0.5})
    with torch.no_grad():
        bench = Bench(model)
        for name, task in (("base", base), ("loud", loud), ("half", half)):
            bench.add(name, task)
            bench.turn()
        bench.finish()
        unchanged = made_alone(plain, base).picture("it").frames
        # Those that name others share no forward.
        assert set(bench.hub.forwards) == {1}
        assert np.array_equal(bench.picture("base").frames, unchanged)
        shown = {name: bench.picture(name).frames.astype(int) for name in bench.told}
        assert np.abs(shown["loud"] - unchanged).max() > 3
        assert np.abs(shown["loud"] - shown["half"]).max() > 1
        alone = made_alone(model, half).picture("it").frames
        assert np.array_equal(bench.picture("half").frames, alone)


def test_another_scheduler_data_type_and_group_offload(pipeline: Callable[[str], Path]) -> None:
    model = load_model(
        pipeline("stable-diffusion"),
        switches=Switches(
            scheduler=Named(use="UniPCMultistepScheduler", options={"solver_order": 3}),
            dtype="bfloat16",
            offload="group",
            offload_options={"offload_type": "leaf_level"},
            vae_slicing=True,
            vae_tiling=True,
        ),
    )
    scheduler = model.pipeline.scheduler
    assert (type(scheduler).__name__, scheduler.config.solver_order) == (
        "UniPCMultistepScheduler",
        3,
    )
    assert model.pipeline.unet.dtype == torch.bfloat16
    with torch.no_grad():
        bench = made_alone(model, task_for(model.abilities))
    assert bench.picture("it").frames.std() > 10


def test_noise_of_a_pipeline_that_names_no_source_is_the_tasks_own(
    pipeline: Callable[[str], Path],
) -> None:
    noisy = Named(use="FlowMatchEulerDiscreteScheduler", options={"stochastic_sampling": True})
    model = load_model(pipeline("stable-diffusion-3"), switches=Switches(scheduler=noisy))
    task = task_for(model.abilities)
    with torch.no_grad():
        first, second = (made_alone(model, task).picture("it").frames for _ in range(2))
    assert np.array_equal(first, second)
