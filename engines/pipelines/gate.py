"""The gate ahead of the speaking stages: where replies wait for their turn to be spoken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType

from ..chunks import StageError
from ..deployment import Pacing
from ..flow import Flow
from ..scheduling.admission import Admission, Applicant, Load, Share
from ..stage import StageFailure

LOOK_SECONDS = 0.05
"""So often it is looked again whether there is room, while replies wait."""

RETRY_MS = 2000
"""After which a reply that was refused should be tried again."""

Counters = Callable[[], Mapping[str, Mapping[str, float]]]
"""Gives the statistics of the speaking stages, by name."""


class Place:
    """The leave of one reply to be spoken; a context that gives it back."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._applicant: Applicant | None = None

    async def enter(self, flow: Flow) -> None:
        """Wait for the leave; once a reply.

        Raises:
            StageFailure: too many wait, or it took too long (``overloaded``).
        """
        assert self._applicant is None, "a reply enters once"
        self._applicant = self._gate.ask(flow)
        await self._gate.wait(self._applicant)

    def leave(self) -> None:
        """Give it back, whether it was had or is waited for. Idempotent."""
        if self._applicant is not None:
            self._gate.leave(self._applicant)

    def __enter__(self) -> Place:
        """As it is."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave."""
        self.leave()


class Gate:
    """Lets replies be spoken as long as the stages have time for them; for the event loop."""

    def __init__(self, pacing: Pacing, counters: Counters) -> None:
        """Stages that count no ``busy_seconds`` and ``audio_seconds`` are taken to be free."""
        self._admission = Admission(
            load=pacing.load, waiting=pacing.waiting, wait_seconds=pacing.wait_seconds
        )
        self._counters = counters
        self._shares: dict[str, Share] = {}
        self._flows: dict[Applicant, Flow] = {}
        self._waiting: dict[Applicant, asyncio.Future[bool]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def place(self) -> Place:
        """A place for one reply, which is not asked for yet."""
        return Place(self)

    def statistics(self) -> dict[str, float]:
        """Those of :class:`Admission`, and the ``share`` of a stage that one reply needs."""
        return self._admission.statistics() | {"share": self._share()}

    def ask(self, flow: Flow) -> Applicant:
        """Ask for a place.

        Raises:
            StageFailure: too many wait (``overloaded``).
        """
        applicant = self._admission.ask(_now(), self._load())
        if applicant is None:
            raise _overloaded("too many replies wait to be spoken")
        self._flows[applicant] = flow
        if applicant.admitted_at is None:
            self._waiting[applicant] = asyncio.get_running_loop().create_future()
            self._look_later()
        return applicant

    async def wait(self, applicant: Applicant) -> None:
        """Return once it is admitted.

        Raises:
            StageFailure: it waited too long (``overloaded``).
        """
        answer = self._waiting.get(applicant)
        if answer is not None and not await answer:
            raise _overloaded("the reply waited too long to be spoken")

    def leave(self, applicant: Applicant) -> None:
        """Free its place, and let in who waits for it."""
        if self._flows.pop(applicant, None) is None:
            return
        self._waiting.pop(applicant, None)
        self._admission.leave(applicant)
        self._look()

    def _look(self) -> None:
        """Let in whoever can be, and turn away those who waited too long."""
        if not self._waiting:
            return
        for applicant in self._admission.admit(_now(), self._load()):
            answer = self._waiting.pop(applicant)
            admitted = applicant.admitted_at is not None
            if not admitted:
                del self._flows[applicant]
            if not answer.done():
                answer.set_result(admitted)
        self._look_later()

    def _look_later(self) -> None:
        if self._waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_now)

    def _look_now(self) -> None:
        self._timer = None
        self._look()

    def _load(self) -> Load:
        spoken = [flow for each, flow in self._flows.items() if each not in self._waiting]
        return Load(
            share=self._share(),
            resting=sum(flow.resting for flow in spoken),
            starting=sum(flow.starting for flow in spoken if not flow.resting),
            pressed=any(flow.pressed for flow in spoken),
        )

    def _share(self) -> float:
        """Of the busiest stage; 0 where none tells."""
        for name, counted in self._counters().items():
            if "busy_seconds" in counted and "audio_seconds" in counted:
                share = self._shares.setdefault(name, Share())
                share.told(
                    counted["busy_seconds"] / counted.get("threads", 1.0), counted["audio_seconds"]
                )
        return max((share.value for share in self._shares.values()), default=0.0)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _overloaded(why: str) -> StageFailure:
    return StageFailure(StageError("overloaded", why, retry_after_ms=RETRY_MS))
