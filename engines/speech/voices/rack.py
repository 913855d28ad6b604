"""The loaded halves of voice models in one stage: which are kept, and which are being loaded."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from ...stage import StageClosed
from ..worker import step_back
from .offer import Offer

HalfT = TypeVar("HalfT")
"""What is loaded; anything that weak references can refer to."""


class Rack(Generic[HalfT]):
    """Halves that were loaded: the default for good, the others while they are in use.

    Others are loaded one after the other in a thread of their own. Those used last are kept;
    one that was let go lives on in the requests that speak with it, and is found there.
    """

    def __init__(self, stage: str, load: Callable[[Offer], HalfT], keep: int) -> None:
        """``keep``: how many to keep, the default among them."""
        self._stage = stage
        self._load = load
        self._keep = keep
        self._default: tuple[Offer, HalfT] | None = None
        self._kept: OrderedDict[Offer, HalfT] = OrderedDict()
        self._living: WeakValueDictionary[Offer, HalfT] = WeakValueDictionary()
        self._loading: dict[Offer, asyncio.Future[HalfT]] = {}
        self._threads: ThreadPoolExecutor | None = None

    @property
    def default(self) -> HalfT | None:
        """The default, once it is there."""
        return None if self._default is None else self._default[1]

    @property
    def loading(self) -> int:
        """How many are being loaded, or wait for that."""
        return len(self._loading)

    def begin_with(self, offer: Offer, half: HalfT) -> None:
        """Keep the default, loaded elsewhere; others can be loaded from now on."""
        self._default = offer, half
        self._threads = ThreadPoolExecutor(
            1, thread_name_prefix=f"{self._stage}-voices", initializer=step_back
        )

    def ready(self, offer: Offer) -> HalfT | None:
        """A half that needs no waiting; it counts as used now."""
        if self._default is not None and self._default[0] is offer:
            return self._default[1]
        half = self._living.get(offer)
        if half is not None and not offer.gone:
            self._put(offer, half)
        return half

    def request(self, offer: Offer) -> None:
        """Begin to load a half that is not there, as it will be asked for soon."""
        if self.ready(offer) is None and offer not in self._loading:
            self._begin(offer)

    async def get(self, offer: Offer) -> HalfT:
        """A half, loaded if need be; all who ask meanwhile wait for the same.

        Raises:
            StageClosed: the stage is closing.
            StageFailure: it can't be loaded; it is tried again when asked for again.
        """
        half = self.ready(offer)
        if half is not None:
            return half
        loading = self._loading.get(offer) or self._begin(offer)
        try:
            # Whoever gives up leaves the load to the others.
            return await asyncio.shield(loading)
        except asyncio.CancelledError:
            if loading.cancelled():
                raise StageClosed(self._stage) from None
            raise

    def drop(self, offer: Offer) -> None:
        """Keep a half no longer that nobody can ask for any more."""
        self._kept.pop(offer, None)

    async def close(self) -> None:
        """Let all go, after the load that runs. Idempotent."""
        threads, self._threads = self._threads, None
        for loading in self._loading.values():
            loading.cancel()
        if threads is not None:
            await asyncio.to_thread(threads.shutdown, wait=True, cancel_futures=True)
        self._default = None
        self._kept.clear()

    def statistics(self) -> dict[str, float]:
        """``voices_loaded``: models kept now."""
        return {"voices_loaded": float(len(self._kept) + (self._default is not None))}

    def _begin(self, offer: Offer) -> asyncio.Future[HalfT]:
        if self._threads is None:
            raise StageClosed(self._stage)
        loop = asyncio.get_running_loop()
        loading = loop.run_in_executor(self._threads, self._load, offer)
        self._loading[offer] = loading
        loading.add_done_callback(lambda done: self._loaded(offer, done))
        return loading

    def _loaded(self, offer: Offer, loading: asyncio.Future[HalfT]) -> None:
        del self._loading[offer]
        # Asking for the exception also says that it was seen, where nobody waits any more.
        if not loading.cancelled() and loading.exception() is None:
            self._living[offer] = loading.result()
            if not offer.gone and self._threads is not None:
                self._put(offer, loading.result())

    def _put(self, offer: Offer, half: HalfT) -> None:
        self._kept[offer] = half
        self._kept.move_to_end(offer)
        while len(self._kept) > max(0, self._keep - 1):
            self._kept.popitem(last=False)
