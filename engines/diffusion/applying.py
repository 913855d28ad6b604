# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""A deployment's switches carried out on a pipeline; what diffusers does not know is refused."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from ..chunks import StageError
from ..stage import StageFailure
from .switches import Named, Switches


def refused(key: str, reason: str) -> StageFailure:
    """An error that names the switch."""
    return StageFailure(StageError("bad_switch", f"switches.{key}: {reason}"))


def load_options(switches: Switches) -> dict[str, Any]:
    """Arguments for ``from_pretrained``.

    Raises:
        StageFailure: a kind of quantisation is unknown.
    """
    said = switches.dtype
    if isinstance(said, str):
        dtype: Any = getattr(torch, said)
    else:
        dtype = {"default": torch.float32} | {
            part: getattr(torch, name) for part, name in said.items()
        }
    found: dict[str, Any] = {"dtype": dtype}
    if switches.quantization:
        from diffusers import PipelineQuantizationConfig

        mapping = {
            part: _made(f"quantization.{part}", Named(use=of.use, options=of.options), "Config")
            for part, of in switches.quantization.items()
        }
        found["quantization_config"] = PipelineQuantizationConfig(quant_mapping=mapping)
    return found


def apply(pipe: Any, denoisers: Iterable[str], switches: Switches) -> None:
    """Turn a loaded pipeline's switches, and move it where it is to run.

    Raises:
        StageFailure: a switch is unknown, or can't be had of this pipeline; the message names it.
    """
    models = {name: getattr(pipe, name) for name in denoisers if getattr(pipe, name, None)}
    if switches.scheduler is not None:
        pipe.scheduler = scheduler_of(pipe.scheduler, switches.scheduler)
    _load_loras(pipe, switches.loras)
    for name, model in models.items():
        _turn(name, model, switches)
    _turn_vae(getattr(pipe, "vae", None), switches)
    _place(pipe, switches)
    for name, model in models.items():
        if switches.compile is not None:
            options = {"fullgraph": switches.compile.fullgraph, "dynamic": switches.compile.dynamic}
            mode = {"mode": switches.compile.mode} if switches.compile.mode else {}
            _call("compile", name, model, "compile_repeated_blocks", options | mode)


def scheduler_of(current: Any, said: Named) -> Any:
    """A scheduler by its class, with the current one's settings where nothing else is said.

    Raises:
        StageFailure: the class or an option is unknown, or it is not for this kind of pipeline.
    """
    kind = _class("scheduler", said.use)
    if not (hasattr(kind, "set_timesteps") and hasattr(kind, "step")):
        raise refused("scheduler", f"{said.use} is no scheduler")
    _known_options("scheduler.options", kind, said.options)
    found = kind.from_config(current.config, **said.options)
    # Pipelines of UNets scale by it; schedulers of flows have none, and theirs don't ask for it.
    flows = current.config.get("use_flow_sigmas") or not hasattr(current, "init_noise_sigma")
    if not flows and not hasattr(found, "init_noise_sigma"):
        names = ", ".join(sorted(kind.__name__ for kind in current.compatibles))
        raise refused("scheduler", f"{said.use} does not fit this pipeline; these do: {names}")
    return found


def _class(key: str, name: str) -> Any:
    import diffusers

    found = None if name.startswith("_") else getattr(diffusers, name, None)
    if not inspect.isclass(found):
        raise refused(key, f"diffusers has no {name}")
    return found


def _known_options(key: str, kind: Any, options: Mapping[str, Any]) -> None:
    known = inspect.signature(kind.__init__).parameters
    for name in options:
        if name not in known or name == "self":
            names = ", ".join(one for one in known if one not in ("self", "kwargs"))
            raise refused(f"{key}.{name}", f"{kind.__name__} has: {names}")


def _made(key: str, said: Named, suffix: str) -> Any:
    kind = _class(key, said.use)
    if not said.use.endswith(suffix):
        raise refused(key, f"{said.use} does not end in {suffix}")
    _known_options(f"{key}.options", kind, said.options)
    try:
        return kind(**said.options)
    except Exception as error:
        raise refused(key, f"{type(error).__name__}: {error}") from error


def _load_loras(pipe: Any, loras: Mapping[str, str]) -> None:
    if not loras:
        return
    if not hasattr(pipe, "load_lora_weights"):
        raise refused("loras", f"{type(pipe).__name__} takes none")
    for name, path in loras.items():
        where = Path(path).expanduser()
        if not where.exists():
            raise refused(f"loras.{name}", f"{where} does not exist")
        folder, file = (where, None) if where.is_dir() else (where.parent, where.name)
        try:
            pipe.load_lora_weights(
                str(folder), adapter_name=name, weight_name=file, local_files_only=True
            )
        except Exception as error:
            raise refused(f"loras.{name}", f"{type(error).__name__}: {error}") from error


def _turn(name: str, model: Any, switches: Switches) -> None:
    if switches.cache is not None:
        config = _made("cache", switches.cache, "Config")
        _call("cache", name, model, "enable_cache", {"config": config})
    if switches.attention_backend is not None:
        backend = {"backend": switches.attention_backend}
        _call("attention_backend", name, model, "set_attention_backend", backend)
    if switches.layerwise_casting:
        options = {
            key: getattr(torch, value, value) if key.endswith("dtype") else value
            for key, value in switches.layerwise_casting.items()
        }
        _call("layerwise_casting", name, model, "enable_layerwise_casting", options)
    if switches.channels_last:
        model.to(memory_format=torch.channels_last)


def _turn_vae(vae: Any, switches: Switches) -> None:
    if switches.vae_slicing:
        _call("vae_slicing", "vae", vae, "enable_slicing", {})
    if switches.vae_tiling:
        _call("vae_tiling", "vae", vae, "enable_tiling", {})


def _place(pipe: Any, switches: Switches) -> None:
    device = switches.device
    if switches.offload == "model":
        _call("offload", "pipeline", pipe, "enable_model_cpu_offload", {"device": device})
    elif switches.offload == "sequential":
        _call("offload", "pipeline", pipe, "enable_sequential_cpu_offload", {"device": device})
    elif switches.offload == "group":
        options = {"onload_device": torch.device(device)} | switches.offload_options
        _call("offload", "pipeline", pipe, "enable_group_offload", options)
    else:
        try:
            pipe.to(device)
        except (RuntimeError, AssertionError) as error:
            raise refused("device", str(error)) from error


def _call(key: str, name: str, of: Any, method: str, options: Mapping[str, Any]) -> None:
    """Call a method of diffusers; its refusal names the switch."""
    found = getattr(of, method, None)
    if found is None:
        raise refused(key, f"{name} ({type(of).__name__}) has no {method}")
    try:
        found(**options)
    except Exception as error:
        raise refused(key, f"{type(error).__name__}: {error}") from error
