"""A diffuser from the event loop's side, and work that goes on in another process."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from PIL import Image
from tests.support.diffusion import task_for

from antiphon.engines.diffusion.abilities import read_facts
from antiphon.engines.diffusion.hub import Hub
from antiphon.engines.diffusion.named import PLACEHOLDERS, abilities_of, folder_of
from antiphon.engines.diffusion.pipeline_diffuser import PipelineDiffuser
from antiphon.engines.diffusion.switches import DiffuserConfig, Named, Switches
from antiphon.engines.diffusion.task import (
    Checkpoint,
    MediaTask,
    Picture,
    Step,
    TaskCancelled,
    TaskFailed,
    Told,
)
from antiphon.engines.stage import StageFailure

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@asynccontextmanager
async def started(folder: Path, **config: Any) -> AsyncGenerator[PipelineDiffuser, None]:
    diffuser = PipelineDiffuser(folder, DiffuserConfig(path=str(folder), **config))
    await diffuser.start()
    try:
        yield diffuser
    finally:
        await diffuser.close()


async def all_told(
    diffuser: PipelineDiffuser, name: str, task: MediaTask, **more: Any
) -> list[Told]:
    async with aclosing(diffuser.run(name, task, {}, **more)) as told:
        return [one async for one in told]


def frames_of(told: list[Told]) -> Any:
    last = told[-1]
    assert isinstance(last, Picture)
    return last.frames


def test_tasks_are_told_of_by_their_id(pipeline: Callable[[str], Path]) -> None:
    async def main() -> None:
        async with started(
            pipeline("stable-diffusion"), preview_ms=0, checkpoint_steps=2
        ) as diffuser:
            tasks = {f"task-{n}": task_for(diffuser.abilities, n, steps=n) for n in (3, 5, 4)}
            found = await asyncio.gather(
                *(all_told(diffuser, name, task) for name, task in tasks.items())
            )
            for (name, task), told in zip(tasks.items(), found, strict=True):
                steps = [one for one in told if isinstance(one, Step)]
                assert [one.done for one in steps] == list(range(1, task.steps + 1)), name
                assert all(one.of == task.steps and one.ms > 0 for one in steps)
                kept = [one.done for one in told if isinstance(one, Checkpoint)]
                assert kept == list(range(2, task.steps, 2))
                picture = Image.open(io.BytesIO(steps[-1].preview or b""))
                assert (picture.format, picture.size) == ("JPEG", (64, 64))
            again = await all_told(diffuser, "again", tasks["task-5"])
            assert np.abs(frames_of(again).astype(int) - frames_of(found[1])).max() <= 1
            last = again[-1]
            assert isinstance(last, Picture)
            assert last.facts["scheduler"] == "DPMSolverMultistepScheduler"

    asyncio.run(main())


def test_closing_a_run_stops_its_work(pipeline: Callable[[str], Path]) -> None:
    async def main() -> None:
        async with started(pipeline("stable-diffusion")) as diffuser:
            task = task_for(diffuser.abilities, steps=200)
            told = diffuser.run("it", task, {})
            assert isinstance(await anext(told), Step)
            with pytest.raises(TaskFailed, match="under way"):
                await anext(diffuser.run("it", task, {}))
            await told.aclose()
            before = len(diffuser.forwards)
            # The thread takes this after the step that it was at.
            await all_told(diffuser, "next", task_for(diffuser.abilities, steps=1))
            assert len(diffuser.forwards) <= before + 3
            waiting = asyncio.ensure_future(all_told(diffuser, "it", task))
            await asyncio.sleep(0)
            await diffuser.close()
            with pytest.raises(TaskCancelled):
                await waiting
            with pytest.raises(TaskFailed, match="not running"):
                await anext(diffuser.run("late", task, {}))

    asyncio.run(main())


def test_tasks_that_the_model_can_not_do_are_refused(pipeline: Callable[[str], Path]) -> None:
    async def main() -> None:
        async with started(pipeline("stable-diffusion")) as diffuser:
            wide = task_for(diffuser.abilities, width=65)
            with pytest.raises(TaskFailed, match=r"width: must be a multiple of 8") as refused:
                await anext(diffuser.run("it", wide, {}))
            assert refused.value.code == "invalid_task"
            lacking = task_for(diffuser.abilities, inputs={"image": "a key"})
            with pytest.raises(TaskFailed, match="a file is missing"):
                await anext(diffuser.run("it", lacking, {}))

    asyncio.run(main())


def test_what_is_larger_than_the_model_draws_is_enlarged(
    pipeline: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = pipeline("stable-diffusion")
    facts = msgspec.structs.replace(read_facts(folder), drawn_pixels=64 * 32)
    drop = tmp_path / "drop.png"
    Image.effect_noise((256, 128), 60).convert("RGB").save(drop)

    async def main() -> None:
        async with started(folder, facts=facts, preview_ms=0) as diffuser:
            for inputs in ({}, {"image": drop}):
                keys = dict.fromkeys(inputs, "a key")
                asked = task_for(diffuser.abilities, inputs=keys, strength=0.9 if keys else 1.0)
                made: dict[int, list[Told]] = {}
                for width in (64, 256):
                    task = msgspec.structs.replace(asked, width=width, height=width // 2)
                    async with aclosing(diffuser.run(f"at {width}", task, inputs)) as told:
                        made[width] = [one async for one in told]
                small, large = (made[width][-1] for width in (64, 256))
                assert isinstance(small, Picture)
                assert isinstance(large, Picture)
                assert "enlarged_from" not in small.facts
                assert large.facts["enlarged_from"] == "64x32"
                assert large.frames.shape == (1, 128, 256, 3)
                back = Image.fromarray(large.frames[0]).resize((64, 32), Image.Resampling.BOX)
                assert np.abs(np.asarray(back).astype(int) - small.frames[0]).mean() < 8

    asyncio.run(main())


def test_a_checkpoint_of_other_work_is_not_gone_on_with(pipeline: Callable[[str], Path]) -> None:
    async def main() -> None:
        async with started(pipeline("flux"), checkpoint_steps=1) as diffuser:
            task = task_for(diffuser.abilities, 1)
            told = await all_told(diffuser, "it", task)
            kept = next(one for one in told if isinstance(one, Checkpoint))
            other = task_for(diffuser.abilities, 2)
            for checkpoint in (kept, Checkpoint(2, b"broken")):
                again = await all_told(diffuser, "other", other, resume=checkpoint)
                assert np.array_equal(
                    frames_of(again), frames_of(await all_told(diffuser, "o", other))
                )

    asyncio.run(main())


def test_a_fault_of_the_thread_ends_what_waits_for_it(
    pipeline: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_self: Hub) -> None:
        raise RuntimeError

    async def main() -> None:
        async with started(pipeline("flux")) as diffuser:
            monkeypatch.setattr(Hub, "turn", broken)
            task = task_for(diffuser.abilities)
            for code in ("stage_failed", "stage_closed"):
                with pytest.raises(TaskFailed) as failed:
                    await all_told(diffuser, "it", task)
                assert (failed.value.code, failed.value.retry) == (code, True)

    asyncio.run(main())


RESUME = """
import asyncio, sys, warnings
warnings.simplefilter("ignore")
import msgspec, numpy, torch
from pathlib import Path
from antiphon.engines.diffusion.pipeline_diffuser import PipelineDiffuser
from antiphon.engines.diffusion.switches import DiffuserConfig
from antiphon.engines.diffusion.task import Checkpoint, MediaTask, Picture

async def main():
    for place in map(Path, sys.argv[1:]):
        config = msgspec.json.decode((place / "config").read_bytes(), type=DiffuserConfig)
        task = msgspec.json.decode((place / "task").read_bytes(), type=MediaTask)
        kept = Checkpoint(3, (place / "state").read_bytes())
        diffuser = PipelineDiffuser(Path(config.path), config)
        await diffuser.start()
        told = [one async for one in diffuser.run("it", task, {}, resume=kept)]
        (place / "steps").write_text(str(len(told)))
        numpy.save(place / "frames.npy", told[-1].frames)
        await diffuser.close()

asyncio.run(main())
"""

SCHEDULERS = [
    ("stable-diffusion", None),
    ("stable-diffusion", Named(use="EulerAncestralDiscreteScheduler")),
    ("wan", None),
]
"""One with a history, one that adds noise at each step, and one of a clip."""


def test_another_process_goes_on_to_the_same_bits(
    pipeline: Callable[[str], Path], tmp_path: Path
) -> None:
    wanted: dict[Path, Any] = {}

    async def main() -> None:
        for number, (name, scheduler) in enumerate(SCHEDULERS):
            place = tmp_path / str(number)
            place.mkdir()
            folder = pipeline(name)
            more: dict[str, Any] = {
                "switches": Switches(scheduler=scheduler, threads=1),
                "checkpoint_steps": 3,
            }
            async with started(folder, **more) as diffuser:
                task = task_for(diffuser.abilities, 5, steps=6)
                told = await all_told(diffuser, "it", task)
                config = diffuser.config
            kept = next(one for one in told if isinstance(one, Checkpoint))
            assert kept.done == 3
            (place / "config").write_bytes(msgspec.json.encode(config))
            (place / "task").write_bytes(msgspec.json.encode(task))
            (place / "state").write_bytes(kept.state)
            wanted[place] = frames_of(told)

    asyncio.run(main())
    subprocess.run(
        [sys.executable, "-c", RESUME, *map(str, wanted)],
        check=True,
        timeout=55,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE"},
    )
    for place, frames in wanted.items():
        # Three steps and the picture: the others were not done again.
        assert (place / "steps").read_text() == "4"
        assert np.array_equal(np.load(place / "frames.npy"), frames)


@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_a_placeholder_is_what_is_said_of_it_before_it_is_made(name: str, tmp_path: Path) -> None:
    config = DiffuserConfig(path=name)
    folder = folder_of(config, tmp_path)
    assert folder_of(config, tmp_path) == folder
    made = abilities_of(DiffuserConfig(path=str(folder)))
    assert made == abilities_of(config)
    assert made.untrained
    assert [entry.name for entry in tmp_path.iterdir()] == [folder.name]


def test_a_model_that_can_not_be_loaded_stops_the_start(
    pipeline: Callable[[str], Path], tmp_path: Path
) -> None:
    with pytest.raises(StageFailure, match="model_missing"):
        PipelineDiffuser(tmp_path, DiffuserConfig(path=str(tmp_path)))
    lora = {"loud": str(tmp_path / "absent")}

    async def main() -> None:
        folder = pipeline("flux")
        config = DiffuserConfig(path=str(folder), switches=Switches(loras=lora))
        with pytest.raises(StageFailure, match=r"switches.loras.loud: .*absent does not exist"):
            await PipelineDiffuser(folder, config).start()

    asyncio.run(main())
