"""What can be set of the process of a codec language model."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

Positive: TypeAlias = Annotated[int, Meta(gt=0)]


class TokenModelConfig(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="use",
    tag="tokens",
):
    """A codec language model on vLLM, in a process of its own."""

    model: Annotated[str, Meta(min_length=1)]
    """A model of the catalogue, or a folder in the Hugging Face layout."""

    context_tokens: Positive | None = None
    """Prompt and speech together; ``null`` for what its family was taught on."""

    max_requests: Positive = 8
    """Utterances generated at once; more wait inside vLLM."""

    kv_cache_mib: Positive | None = None
    """``null`` for as much as :attr:`max_requests` need on a CPU, and on a GPU for what
    :attr:`gpu_memory_utilization` leaves."""

    threads: Positive = 1
    """Threads of the CPU build; a GPU ignores it."""

    weights: Literal["auto", "int8", "unchanged"] = "unchanged"
    """``int8`` lets a CPU that multiplies small integers write faster, from a copy of the
    model made at its first start, where it has hundreds of millions of weights; ``auto`` is
    that where the CPU can. A GPU ignores it."""

    enforce_eager: bool | None = None
    """``false`` captures graphs, which makes a GPU faster and its start slower; ``null`` is
    that on a GPU, and ``true`` on a CPU."""

    gpu_memory_utilization: Annotated[float, Meta(gt=0, le=1)] = 0.5
    """Share of a GPU's memory; the codec and other models need some as well."""

    tensor_parallel: Positive = 1
