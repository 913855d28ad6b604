# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Tasks that share a model step by step.

Each task runs the pipeline's own call, unchanged, in a *greenlet*: a function that can stand
still inside a call. In place of the denoiser it has a :class:`StandIn`, at whose call it stands
still. The hub joins such calls of several tasks, runs the model once, and hands each its rows.
So a task joins at any step and leaves when it is done, and no pipeline's loop is written again.

All of it is one thread's, under one ``torch.no_grad()``: whether gradients are kept is a
matter of the thread, and a task that ends would switch them on again for the others.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import logging
import time
import traceback
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from greenlet import GreenletExit, getcurrent, greenlet

from . import batching
from .task import Picture, TaskCancelled, TaskFailed
from .work import Work

log = logging.getLogger(__name__)

AGEING = 10.0
"""Ranks that a second of waiting is worth."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A denoiser's call by a task that stands still until it is answered."""

    work: Work
    module: Any
    arguments: Mapping[str, Any]
    """By name; the first are the latents."""

    rows: int
    key: Hashable
    """Equal of calls that can go in one batch."""

    likeness: Mapping[str, Hashable]
    since: float


@dataclass(frozen=True, slots=True, eq=False)
class _Ended:
    work: Work
    outcome: Picture | TaskFailed | TaskCancelled


class Runs(Protocol):
    """What the hub needs of a model."""

    @property
    def alone(self) -> bool:
        """Whether it can have but one task at a time."""
        ...

    @property
    def time(self) -> str:
        """See :attr:`.MediaFamily.time`."""
        ...

    @property
    def shared(self) -> tuple[str, ...]:
        """See :attr:`.MediaFamily.shared`."""
        ...

    def dress(self, adapters: tuple[tuple[str, float], ...]) -> None:
        """Make these adapters count, and no others."""
        ...

    def make(self, work: Work, stand_in: Callable[[str, Any], StandIn]) -> Picture:
        """Run a task from its beginning to its end; ``stand_in(name, module)`` is put in
        place of each denoiser."""
        ...

    def settle(self) -> None:
        """Nothing is under way: let go of what a call that broke off has left behind."""
        ...


def _names_of(module: Any) -> list[str]:
    """Of the arguments of a model's call, in their order."""
    return list(inspect.signature(module.forward).parameters)


class StandIn:
    """A denoiser as a task's pipeline has it."""

    def __init__(self, module: Any, park: Callable[[Mapping[str, Any]], Any], alone: bool) -> None:
        self._module = module
        self._park = park
        self._alone = alone
        self._names = _names_of(module)

    def __getattr__(self, name: str) -> Any:
        """All that is not its own is the module's."""
        return getattr(self._module, name)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """As the model is called."""
        given = dict(zip(self._names, args, strict=False)) | named
        first = self._names[0]
        return self._park({first: given.pop(first), **given})

    def cache_context(self, *args: Any, **named: Any) -> contextlib.AbstractContextManager[Any]:
        """Contexts are the model's, not a call's: with several tasks they'd be mixed up."""
        if self._alone:
            found: contextlib.AbstractContextManager[Any] = self._module.cache_context(
                *args, **named
            )
            return found
        return contextlib.nullcontext()


class Hub:
    """For use in the model's thread alone."""

    def __init__(
        self,
        model: Runs,
        *,
        max_rows: int,
        max_tasks: int,
        exact: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._model = model
        self._max_rows = max_rows
        self._max_tasks = 1 if model.alone else max_tasks
        self._exact = exact
        self._clock = clock
        self._waiting: dict[Work, float] = {}
        self._greenlets: dict[Work, greenlet] = {}
        self._parked: dict[Work, Call] = {}
        self._digests: dict[tuple[Work, str], tuple[torch.Tensor, Hashable]] = {}
        self._order: dict[Work, int] = {}
        self._numbers = itertools.count()
        self.forwards: list[int] = []
        """Rows of the last forwards, fillers not counted; the oldest are dropped."""

    @property
    def busy(self) -> bool:
        """Whether anything is under way or waits."""
        return bool(self._waiting or self._greenlets)

    def add(self, work: Work) -> None:
        """Take a task; what comes of it is told by ``work.tell``."""
        self._order[work] = next(self._numbers)
        self._waiting[work] = self._clock()

    def turn(self) -> None:
        """Begin what may begin, and carry out one forward of the model."""
        self._drop_cancelled()
        while self._waiting and len(self._greenlets) < self._max_tasks:
            self._begin(
                min(self._waiting, key=lambda work: self._urgency(work, self._waiting[work]))
            )
        if self._parked:
            calls = self._choose()
            for call, answer in zip(calls, self._answers(calls), strict=True):
                del self._parked[call.work]
                if isinstance(answer, Exception):
                    self._go_on(call.work, throw=answer)
                else:
                    self._go_on(call.work, answer)

    def stop(self) -> None:
        """Break everything off."""
        for work in (*self._waiting, *self._greenlets):
            work.cancel()
        self._drop_cancelled()

    def _urgency(self, work: Work, since: float) -> tuple[float, int]:
        return work.rank - AGEING * (self._clock() - since), self._order[work]

    def _drop_cancelled(self) -> None:
        for work in [work for work in self._waiting if work.cancelled]:
            del self._waiting[work]
            self._end(_Ended(work, TaskCancelled()))
        for work in [work for work in self._parked if work.cancelled]:
            del self._parked[work]
            self._go_on(work, throw=TaskCancelled())

    def _begin(self, work: Work) -> None:
        del self._waiting[work]
        self._greenlets[work] = greenlet(self._run)
        self._go_on(work, work)

    def _run(self, work: Work) -> _Ended:
        """The body of a task's greenlet."""

        def stand_in(name: str, module: Any) -> StandIn:
            return StandIn(
                module, lambda given: self._park(work, name, module, given), self._model.alone
            )

        try:
            return _Ended(work, self._model.make(work, stand_in))
        except GreenletExit:
            raise
        except (TaskCancelled, TaskFailed) as error:
            return _Ended(work, error)
        except torch.OutOfMemoryError:
            return _Ended(
                work, TaskFailed("out_of_memory", "the model's memory is full", retry=True)
            )
        except Exception as error:
            # Neither its words nor its values: they may repeat a prompt.
            where = "".join(traceback.format_tb(error.__traceback__)[-3:])
            log.error("task %s failed: %s\n%s", work.id, type(error).__name__, where)
            return _Ended(work, TaskFailed("internal_error", "the model could not make it"))

    def _go_on(self, work: Work, given: Any = None, *, throw: Exception | None = None) -> None:
        """Let a task run on until it stands still again, or ends."""
        self._model.dress(work.adapters)
        thread = self._greenlets[work]
        found: Any = thread.switch(given) if throw is None else thread.throw(throw)
        if isinstance(found, Call):
            self._parked[work] = found
        else:
            del self._greenlets[work]
            self._end(found)

    def _end(self, ended: _Ended) -> None:
        work = ended.work
        del self._order[work]
        for key in [key for key in self._digests if key[0] is work]:
            del self._digests[key]
        broke_off = not isinstance(ended.outcome, Picture)
        if not self._greenlets and (broke_off or self._model.alone):
            self._model.settle()
        work.tell(ended.outcome)

    def _park(self, work: Work, name: str, module: Any, given: Mapping[str, Any]) -> Any:
        """Within a task: stand still until the hub has run the model for it."""
        work.begun()
        rows = batching.rows_of(given)
        if work.passed_over:
            return _silence(module, given)
        arguments = batching.per_row(given, self._model.time)
        likeness = {key: self._likeness(work, key, value, rows) for key, value in arguments.items()}
        key = (name, work.adapters, tuple(sorted(likeness.items(), key=lambda item: item[0])))
        call = Call(work, module, arguments, rows, key, likeness, self._clock())
        parent = getcurrent().parent
        assert parent is not None
        return parent.switch(call)

    def _likeness(self, work: Work, name: str, value: Any, rows: int) -> Hashable:
        if name not in self._model.shared or not isinstance(value, torch.Tensor):
            return batching.likeness(value, rows)
        # Tables of positions are the same tensor at each step.
        seen = self._digests.get((work, name))
        if seen is None or seen[0] is not value:
            seen = (value, batching.likeness(value, rows, shared=True))
            self._digests[work, name] = seen
        return seen[1]

    def _choose(self) -> list[Call]:
        """The call that is most urgent, and those that can go with it."""
        calls = sorted(self._parked.values(), key=lambda call: self._urgency(call.work, call.since))
        chosen, room = [calls[0]], self._max_rows - calls[0].rows
        for call in calls[1:]:
            if call.key == chosen[0].key and call.rows <= room:
                chosen.append(call)
                room -= call.rows
        return chosen

    def _answers(self, calls: Sequence[Call]) -> list[Any]:
        """What the model says to each; an exception where it could not."""
        try:
            return self._forward(calls)
        except Exception as error:
            if len(calls) == 1:
                return [error]
        # Perhaps one of them is at fault, perhaps together they are too many.
        return [self._answers([call])[0] for call in calls]

    def _forward(self, calls: Sequence[Call]) -> list[Any]:
        first = calls[0]
        rows = [call.rows for call in calls]
        self.forwards = [*self.forwards[-999:], sum(rows)]
        fill = max(0, self._max_rows - sum(rows)) if self._exact else 0
        self._model.dress(first.work.adapters)
        if len(calls) == 1 and not fill:
            return [first.module(**first.arguments)]
        arguments = {
            name: batching.join(
                [call.arguments[name] for call in calls],
                rows,
                [call.likeness[name] for call in calls],
                fill,
            )
            for name in first.arguments
        }
        return batching.split(first.module(**arguments), rows, sum(rows) + fill)


def _silence(module: Any, given: Mapping[str, Any]) -> Any:
    """Zeros in the shape of an answer that nobody hears; see :meth:`.Work.passing`."""
    sample = next(iter(given.values()))
    if isinstance(sample, list):
        answer: Any = [torch.zeros_like(item) for item in sample]
    else:
        channels = getattr(module.config, "out_channels", None)
        shape = list(sample.shape)
        if channels and len(shape) >= 4:
            shape[1] = channels
        answer = sample.new_zeros(shape)
    if given.get("return_dict", True):
        from diffusers.models.modeling_outputs import Transformer2DModelOutput

        return Transformer2DModelOutput(sample=answer)
    return (answer,)
