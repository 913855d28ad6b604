"""Tasks for tiny pipelines, and a hub that is driven by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from antiphon.engines.diffusion.abilities import Abilities, read_abilities
from antiphon.engines.diffusion.checkpoints import decode
from antiphon.engines.diffusion.hub import Hub
from antiphon.engines.diffusion.model import Model
from antiphon.engines.diffusion.switches import DiffuserConfig, Switches
from antiphon.engines.diffusion.task import Checkpoint, MediaTask, Picture
from antiphon.engines.diffusion.work import Outcome, Work

SIDE = 64


def task_for(abilities: Abilities, seed: int = 1, **changed: Any) -> MediaTask:
    """A small task; its prompt is of its seed."""
    clip = abilities.kind == "video"
    asked: dict[str, Any] = {
        "kind": abilities.kind,
        "model": "tiny",
        "prompt": f"a cat in {seed} colours",
        "width": SIDE,
        "height": SIDE,
        "steps": 3,
        "guidance": 4.0,
        "seed": seed,
        "frames": abilities.frames_near(5) if clip else 1,
        "frames_per_second": 8 if clip else 0,
    }
    return MediaTask(**asked | changed)


def load_model(folder: Path, **config: Any) -> Model:
    switches = config.get("switches", Switches())
    abilities = read_abilities(folder, adapters=tuple(switches.loras))
    return Model(folder, DiffuserConfig(path=str(folder), **config), abilities)


class Bench:
    """A hub over a model, and what it told of each task."""

    def __init__(
        self,
        model: Model,
        *,
        max_rows: int = 8,
        max_tasks: int = 8,
        exact: bool = False,
        inputs: Mapping[str, Path] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        more: dict[str, Any] = {} if clock is None else {"clock": clock}
        self.hub = Hub(model, max_rows=max_rows, max_tasks=max_tasks, exact=exact, **more)
        self.told: dict[str, list[Outcome]] = {}
        self.works: dict[str, Work] = {}
        self._inputs = inputs or {}

    def add(self, name: str, task: MediaTask, **more: Any) -> None:
        resume = more.pop("resume", None)
        told = self.told[name] = []
        kept = decode(resume.state) if resume else None
        work = Work(name, task, self._inputs, told.append, resume=kept, **more)
        self.works[name] = work
        self.hub.add(work)

    def turn(self, count: int = 1) -> None:
        for _ in range(count):
            self.hub.turn()

    def finish(self) -> None:
        while self.hub.busy:
            self.hub.turn()

    def picture(self, name: str) -> Picture:
        last = self.told[name][-1]
        assert isinstance(last, Picture), last
        return last

    def checkpoints(self, name: str) -> list[Checkpoint]:
        return [one for one in self.told[name] if isinstance(one, Checkpoint)]


def made_alone(
    model: Model, task: MediaTask, inputs: Mapping[str, Path] | None = None, **more: Any
) -> Bench:
    """A bench on which one task, ``it``, was carried out."""
    bench = Bench(model, inputs=inputs, **more)
    bench.add("it", task, checkpoint_steps=1)
    bench.finish()
    return bench
