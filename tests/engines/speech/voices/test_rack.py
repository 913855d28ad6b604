"""Which loaded halves are kept, with halves that tests make."""

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable

import pytest
from tests.engines.speech.played_voices import PlayedOffer, model
from tests.support.waiting import until

from antiphon.engines.chunks import StageError
from antiphon.engines.speech.voices.offer import Offer
from antiphon.engines.speech.voices.rack import Rack
from antiphon.engines.stage import StageClosed, StageFailure

PATIENCE = 30
BROKEN = StageFailure(StageError("model_unusable", "it is broken"))


class Half:
    def __init__(self, name: str) -> None:
        self.name = name


class Loads:
    """What is loaded, and when a load may end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.threads: set[int] = set()
        self.fails = False
        self.open = threading.Event()
        self.open.set()

    def __call__(self, offer: Offer) -> Half:
        self.begun.append(offer.name)
        self.threads.add(threading.get_ident())
        assert self.open.wait(PATIENCE)
        if self.fails:
            raise BROKEN
        return Half(offer.name)


def offer(name: str) -> Offer:
    return PlayedOffer(model(name))


def with_rack(check: Callable[[Rack[Half], Loads], Awaitable[None]], keep: int = 2) -> None:
    async def main() -> None:
        loads = Loads()
        rack = Rack("test", loads, keep)
        rack.begin_with(DEFAULT, Half("default"))
        try:
            async with asyncio.timeout(PATIENCE):
                await check(rack, loads)
        finally:
            loads.open.set()
            await rack.close()

    asyncio.run(main())


DEFAULT, ANN, BOB, CAT = (offer(name) for name in ("default", "ann", "bob", "cat"))


def kept(rack: Rack[Half]) -> float:
    return rack.statistics()["voices_loaded"]


def test_the_default_is_there_without_a_load() -> None:
    async def check(rack: Rack[Half], loads: Loads) -> None:
        half = rack.ready(DEFAULT)
        assert half is rack.default is await rack.get(DEFAULT)
        rack.request(DEFAULT)
        assert not loads.begun

    with_rack(check)


def test_all_who_ask_wait_for_one_load_off_the_event_loop() -> None:
    async def check(rack: Rack[Half], loads: Loads) -> None:
        loads.open.clear()
        rack.request(ANN)
        asked = [asyncio.create_task(rack.get(ANN)) for _ in range(3)]
        await until(lambda: bool(loads.begun))
        # One that gives up takes nothing from the others.
        asked[0].cancel()
        loads.open.set()
        one, other = await asyncio.gather(*asked[1:])
        assert one is other is rack.ready(ANN)
        assert len(loads.begun) == 1
        assert threading.get_ident() not in loads.threads

    with_rack(check)


def test_those_used_last_are_kept_and_the_default_always() -> None:
    async def check(rack: Rack[Half], loads: Loads) -> None:
        for each in (ANN, BOB, ANN, CAT):
            await rack.get(each)
        gc.collect()
        assert kept(rack) == 3
        assert rack.ready(BOB) is None
        assert rack.ready(ANN)
        assert rack.ready(CAT)
        assert rack.ready(DEFAULT)
        await rack.get(BOB)
        assert [name.removeprefix("model-") for name in loads.begun] == ["ann", "bob", "cat", "bob"]

    with_rack(check, keep=3)


@pytest.mark.parametrize("keep", [1, 2])
def test_who_speaks_keeps_what_was_let_go_and_others_find_it(keep: int) -> None:
    async def check(rack: Rack[Half], loads: Loads) -> None:
        held = await rack.get(ANN)
        await rack.get(BOB)
        gc.collect()
        assert kept(rack) == keep
        assert await rack.get(ANN) is held
        assert len(loads.begun) == 2
        del held
        await rack.get(BOB)
        gc.collect()
        assert rack.ready(ANN) is None

    with_rack(check, keep)


def test_a_load_that_fails_fails_those_who_wait_and_is_tried_again() -> None:
    async def check(rack: Rack[Half], loads: Loads) -> None:
        loads.fails = True
        for outcome in await asyncio.gather(rack.get(ANN), rack.get(ANN), return_exceptions=True):
            assert outcome is BROKEN
        assert len(loads.begun) == 1
        # Nobody asks what came of this one.
        rack.request(BOB)
        await until(lambda: len(loads.begun) == 2)
        await until(lambda: not rack.loading)
        loads.fails = False
        assert (await rack.get(ANN)).name == ANN.name
        assert rack.ready(DEFAULT)

    with_rack(check)


def test_what_was_taken_off_the_shelf_is_not_kept() -> None:
    async def check(rack: Rack[Half], loads: Loads) -> None:
        gone = offer("gone")
        held = await rack.get(gone)
        gone.gone = True
        rack.drop(gone)
        assert kept(rack) == 1
        assert rack.ready(gone) is held
        assert kept(rack) == 1

    with_rack(check)


def test_closing_waits_for_the_load_that_runs_and_ends_the_others() -> None:
    async def check(rack: Rack[Half], loads: Loads) -> None:
        loads.open.clear()
        waiting = [asyncio.create_task(rack.get(each)) for each in (ANN, BOB)]
        await until(lambda: bool(loads.begun))
        closing = asyncio.create_task(rack.close())
        await until(lambda: all(task.done() for task in waiting))
        assert all(isinstance(task.exception(), StageClosed) for task in waiting)
        assert not closing.done()
        loads.open.set()
        await closing
        assert len(loads.begun) == 1
        with pytest.raises(StageClosed):
            await rack.get(CAT)
        assert kept(rack) == 0

    with_rack(check)
