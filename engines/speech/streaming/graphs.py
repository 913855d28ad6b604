"""The step of a decoder as captured graphs: one launch for hundreds of small kernels.

One stream's push is so little work for a GPU that starting its kernels takes most of the time.
A CUDA graph starts all of them at once, but of one shape and on fixed memory. So one is captured
for each size of push and each of a few sizes of batch, ahead of time; a push is copied into that
memory and out of it. A batch between two sizes is filled up with copies of its first stream,
whose results are thrown away. A push between two sizes is made of several, as streams may be cut
anywhere. What no graph fits runs as it would without them, on the same states.

Where graphs can't be captured at all, the eager step stays, and the log says why.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..kernels.dispatch import device_of
from .layer import UNKNOWN, Extent, State

if TYPE_CHECKING:
    from .runner import EagerStep, Step

log = logging.getLogger(__name__)

MOST_PIECES = 4
"""Graphs of one push; a push that would need more runs without."""

ALIGNED = 64
"""Values that the place of each tensor of a state is a multiple of."""

Work = Callable[[], Tensor]

Capture = Callable[[Work], Work]
"""Makes of work on fixed memory what does it again, and gives the result in the same place."""


def buckets(batch: int) -> tuple[int, ...]:
    """The sizes of batch to capture where ``batch`` is the most: powers of two, and the most."""
    sizes = [1]
    while sizes[-1] * 2 < batch:
        sizes.append(sizes[-1] * 2)
    return tuple(sorted({*sizes, max(1, batch)}))


def bucket_of(streams: int, sizes: Iterable[int]) -> int | None:
    """The smallest size of batch that ``streams`` fit in, if there is one."""
    return min((size for size in sizes if size >= streams), default=None)


def pieces(steps: int, sizes: Iterable[int], most: int = MOST_PIECES) -> tuple[int, ...]:
    """Sizes to push one after the other, so that they make ``steps``; none where there are no
    such, or more than ``most``."""
    left, found = steps, list[int]()
    for size in sorted(set(sizes), reverse=True):
        while left >= size and len(found) < most:
            found.append(size)
            left -= size
    return tuple(found) if not left else ()


@dataclass(frozen=True, slots=True)
class _Place:
    dtype: torch.dtype
    first: int
    shape: tuple[int, ...]


class FlatState(list[Tensor]):
    """A stream's state whose tensors lie in few rows of memory, one for each dtype."""

    def __init__(self, tensors: State, rows: dict[torch.dtype, Tensor]) -> None:
        super().__init__(tensors)
        self.rows = rows


class Packing:
    """Where each tensor of a state lies in such rows."""

    def __init__(self, like: State) -> None:
        """``like``: the state of one stream."""
        self._places: list[_Place] = []
        self._widths: dict[torch.dtype, int] = {}
        for tensor in like:
            first = self._widths.get(tensor.dtype, 0)
            self._places.append(_Place(tensor.dtype, first, tuple(tensor.shape[1:])))
            width = -(-tensor[0].numel() // ALIGNED) * ALIGNED
            self._widths[tensor.dtype] = first + width

    def new(self, batch: int, device: torch.device) -> dict[torch.dtype, Tensor]:
        """Rows of zeros, ``(batch, width)``."""
        return {
            dtype: torch.zeros(batch, width, dtype=dtype, device=device)
            for dtype, width in self._widths.items()
        }

    def views(self, rows: dict[torch.dtype, Tensor]) -> State:
        """The tensors in the rows: writing to these writes to those."""
        views: State = []
        for place in self._places:
            within = rows[place.dtype][:, place.first : place.first + prod(place.shape)]
            views.append(within.view(within.shape[0], *place.shape))
        return views

    def packed(self, state: State) -> FlatState:
        """A state of its own with the same values."""
        rows = self.new(state[0].shape[0] if state else 1, state[0].device if state else _CPU)
        views = self.views(rows)
        for view, tensor in zip(views, state, strict=True):
            view.copy_(tensor)
        return FlatState(views, rows)


_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class _Key:
    batch: int
    steps: int
    edges: bool


@dataclass(frozen=True, slots=True)
class _Graph:
    codes: Tensor
    work: Work


class GraphStep:
    """A step that plays graphs back; streams of several threads take turns."""

    def __init__(
        self, eager: EagerStep, *, books: int, sizes: Sequence[int], batch: int, capture: Capture
    ) -> None:
        """Capture all; takes seconds.

        ``books``: codebooks. ``sizes``: steps of a push. ``batch``: the most streams of one.
        """
        self._eager = eager
        begun = eager.new_state()
        self._packing = Packing(begun)
        self._begun = self._packing.packed(begun)
        device = eager.like.device
        self._rows = self._packing.new(batch, device)
        # First, length and seed of each stream, see Extent.
        self._where = torch.zeros(3, batch, dtype=torch.int64, device=device)
        self._where[1] = UNKNOWN
        self._batches = buckets(batch)
        self._sizes = tuple(sorted(set(sizes)))
        self._lock = threading.Lock()
        self._graphs: dict[_Key, _Graph] = {}
        with device_of(eager.like):
            self._capture_all(books, capture)

    def _capture_all(self, books: int, capture: Capture) -> None:
        # The largest first: what it allocates serves the others.
        for many in reversed(self._batches):
            for steps in reversed(self._sizes):
                codes = self._where.new_zeros(many, books, steps)
                for edges in (True, False):
                    work = capture(self._work(codes, many, edges))
                    self._graphs[_Key(many, steps, edges)] = _Graph(codes, work)

    @property
    def graphs(self) -> int:
        """How many there are."""
        return len(self._graphs)

    def new_state(self) -> State:
        """Of one stream that begins: tensors of batch 1, in rows of their own."""
        return self._packing.packed(self._begun)

    def run(self, codes: Tensor, states: Sequence[State], extent: Extent) -> Tensor:
        """See :class:`.runner.Step`."""
        streams, _, count = codes.shape
        bucket = bucket_of(streams, self._batches)
        parts = pieces(count, self._sizes)
        rows = [state.rows for state in states if isinstance(state, FlatState)]
        if bucket is None or not parts or len(rows) < streams:
            return self._eager.run(codes, states, extent)
        filled = torch.arange(bucket, device=codes.device)
        filled = filled.masked_fill(filled >= streams, 0)
        with self._lock:
            self._take_in(rows, bucket)
            where = torch.stack((extent.first, extent.length, extent.seed))
            self._where[:, :bucket].copy_(where[:, filled])
            given: list[Tensor] = []
            at = 0
            for steps in parts:
                graph = self._graphs[_Key(bucket, steps, extent.edges)]
                graph.codes.copy_(codes[filled, :, at : at + steps])
                # The next graph may write where this one's result lies.
                given.append(graph.work()[:streams].clone())
                self._where[0, :bucket] += steps
                at += steps
            self._hand_out(rows)
        return given[0] if len(given) == 1 else torch.cat(given, -1)

    def _take_in(self, rows: Sequence[dict[torch.dtype, Tensor]], bucket: int) -> None:
        """Copy states into the fixed memory, the first again where streams are missing."""
        padded = [*rows, *[rows[0]] * (bucket - len(rows))]
        for dtype, fixed in self._rows.items():
            torch.cat([each[dtype] for each in padded], out=fixed[:bucket])

    def _hand_out(self, rows: Sequence[dict[torch.dtype, Tensor]]) -> None:
        """Copy them back."""
        for dtype, fixed in self._rows.items():
            parts = [fixed[at : at + 1] for at in range(len(rows))]
            # One kernel for many copies; the only name that torch has for it.
            torch._foreach_copy_([each[dtype] for each in rows], parts)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]

    def _work(self, codes: Tensor, many: int, edges: bool) -> Work:
        """What a graph does."""
        state = self._packing.views({dtype: rows[:many] for dtype, rows in self._rows.items()})
        first, length, seed = self._where[:, :many]

        def work() -> Tensor:
            return self._eager.feed(codes, state, Extent(first, length, seed, edges))

        return work


def cuda_capture() -> Capture:
    """Capture CUDA graphs that share their memory."""
    pool = torch.cuda.graph_pool_handle()

    def capture(work: Work) -> Work:
        # The first runs choose algorithms, try kernels and allocate; not while being captured.
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(2):
                work()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        # Other threads of the process may use the device meanwhile.
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            out = work()

        def play() -> Tensor:
            graph.replay()
            return out

        return play

    return capture


def graphed(
    eager: EagerStep,
    *,
    books: int,
    sizes: Sequence[int],
    batch: int,
    capture: Callable[[], Capture] = cuda_capture,
) -> Step:
    """The step as graphs where it runs on a GPU, else as it is.

    ``books``: codebooks. ``sizes``: of pushes that will be asked for, steps; where there are none
    there is nothing to capture. ``batch``: the most streams of one push.
    """
    if eager.like.device.type != "cuda" or not sizes:
        return eager
    return captured_or(eager, books=books, sizes=sizes, batch=batch, capture=capture)


def captured_or(
    eager: EagerStep,
    *,
    books: int,
    sizes: Sequence[int],
    batch: int,
    capture: Callable[[], Capture],
) -> Step:
    """As :func:`graphed`, on any device."""
    try:
        with torch.inference_mode():
            return GraphStep(eager, books=books, sizes=sizes, batch=batch, capture=capture())
    except Exception as failure:  # Out of memory, or a layer that can't be captured.
        why = str(failure).splitlines()[:1] or [type(failure).__name__]
        log.warning("no graphs were captured, decoding goes on without: %s", why[0])
        return eager
