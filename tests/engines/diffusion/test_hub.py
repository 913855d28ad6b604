"""Tasks that share a model: the same pictures, whose turn it is, leaving, failing."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.diffusion import Bench, load_model, made_alone, task_for

from antiphon.engines.diffusion.model import Model
from antiphon.engines.diffusion.task import Step, TaskCancelled, TaskFailed

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

Loaded = Callable[[str], Model]

KINDS: list[tuple[str, tuple[str, ...]]] = [
    ("stable-diffusion", ()),
    ("stable-diffusion", ("image",)),
    ("stable-diffusion", ("image", "mask")),
    ("stable-diffusion-3", ()),
    ("stable-diffusion-3", ("image",)),
    ("stable-diffusion-3", ("image", "mask")),
    ("flux", ()),
    ("flux", ("image",)),
    ("flux", ("image", "mask")),
    ("wan", ()),
    ("wan-image", ("image",)),
    ("animatediff", ()),
]


@pytest.fixture(scope="module")
def model(pipeline: Callable[[str], Path]) -> Iterator[Loaded]:
    loaded: dict[str, Model] = {}

    def get(name: str) -> Model:
        if name not in loaded:
            loaded[name] = load_model(pipeline(name))
        return loaded[name]

    with torch.no_grad():
        yield get


def distance(one: Bench, name: str, other: Bench, other_name: str = "it") -> int:
    pair = [
        bench.picture(key).frames.astype(int) for bench, key in ((one, name), (other, other_name))
    ]
    return int(np.abs(pair[0] - pair[1]).max())


@pytest.mark.parametrize(("name", "inputs"), KINDS)
def test_a_picture_is_the_same_alone_in_company_and_taken_up_again(
    model: Loaded, pictures: Mapping[str, Path], name: str, inputs: tuple[str, ...]
) -> None:
    loaded = model(name)
    more: dict[str, Any] = {"inputs": dict.fromkeys(inputs, "a key")}
    if inputs and loaded.abilities.strength:
        more["strength"] = 0.8
    tasks = {
        "long": task_for(loaded.abilities, 1, steps=6, guidance=7.0, **more),
        "late": task_for(loaded.abilities, 2, steps=3, guidance=3.0, **more),
        "last": task_for(loaded.abilities, 3, steps=4, **more),
    }
    alone = {key: made_alone(loaded, task, pictures) for key, task in tasks.items()}

    company = Bench(loaded, inputs=pictures)
    for key, task in tasks.items():
        company.add(key, task)
        company.turn(2)
    company.finish()
    single = max(alone["long"].hub.forwards)
    assert max(company.hub.forwards) > single
    for key, bench in alone.items():
        assert distance(company, key, bench) <= 1
    assert distance(alone["long"], "it", alone["late"]) > 20

    kept = alone["long"].checkpoints("it")
    again = Bench(loaded, inputs=pictures)
    again.add("long", tasks["long"], resume=kept[1], checkpoint_steps=1)
    again.finish()
    assert distance(again, "long", alone["long"]) == 0
    assert [one.state for one in again.checkpoints("long")] == [one.state for one in kept[2:]]
    steps = [one for one in again.told["long"] if isinstance(one, Step)]
    assert [one.done for one in steps] == list(range(3, steps[0].of + 1))


@pytest.mark.parametrize("name", ["stable-diffusion", "wan"])
def test_exact_pictures_are_equal_to_the_bit(model: Loaded, name: str) -> None:
    loaded = model(name)
    tasks = [task_for(loaded.abilities, seed, steps=2 + seed) for seed in range(3)]
    alone = [made_alone(loaded, task, max_rows=4, exact=True) for task in tasks]
    company = Bench(loaded, max_rows=4, exact=True)
    for number, task in enumerate(tasks):
        company.add(str(number), task, checkpoint_steps=1)
        company.turn()
    company.finish()
    for number, bench in enumerate(alone):
        assert distance(company, str(number), bench) == 0
        # Latents tell more than pixels.
        pair = (company.checkpoints(str(number)), bench.checkpoints("it"))
        assert [one.state for one in pair[0]] == [one.state for one in pair[1]]


def test_other_sizes_do_not_share_a_forward(model: Loaded) -> None:
    loaded = model("flux")
    bench = Bench(loaded)
    # As many tokens, but at other places.
    bench.add("wide", task_for(loaded.abilities, 1, width=128))
    bench.add("high", task_for(loaded.abilities, 1, height=128))
    bench.finish()
    assert set(bench.hub.forwards) == {1}
    assert bench.picture("wide").frames.shape == (1, 64, 128, 3)
    assert bench.picture("high").frames.shape == (1, 128, 64, 3)


def test_a_cancelled_task_stops_at_its_step_and_nothing_is_decoded(
    model: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = model("stable-diffusion")
    decoded: list[int] = []
    vae: Any = loaded.pipeline.vae
    decode = vae.decode

    def counted(*args: Any, **named: Any) -> Any:
        decoded.append(1)
        return decode(*args, **named)

    monkeypatch.setattr(vae, "decode", counted)
    bench = Bench(loaded)
    bench.add("gone", task_for(loaded.abilities, 1, steps=3))
    bench.add("stays", task_for(loaded.abilities, 2, steps=4))
    bench.add("never", task_for(loaded.abilities, 3))
    bench.works["never"].cancel()
    bench.turn()
    # Told between two turns, and within the last forward of another.
    bench.works["gone"].cancel()
    before = len(bench.hub.forwards)
    bench.turn()
    assert isinstance(bench.told["gone"][-1], TaskCancelled)
    assert bench.hub.forwards[before:] == [2]
    assert [type(one) for one in bench.told["never"]] == [TaskCancelled]
    bench.finish()
    assert decoded == [1]
    assert distance(bench, "stays", made_alone(loaded, task_for(loaded.abilities, 2, steps=4))) <= 1


def test_one_that_is_cancelled_during_its_last_step_is_not_decoded(model: Loaded) -> None:
    loaded = model("stable-diffusion")
    bench = Bench(loaded)
    task = task_for(loaded.abilities, 1, steps=1)
    bench.add("it", task)

    def cancel(*_: Any) -> None:
        bench.works["it"].cancel()

    hook = loaded.pipeline.unet.register_forward_hook(cancel)
    bench.turn()
    hook.remove()
    assert [type(one) for one in bench.told["it"]] == [TaskCancelled]


def test_the_lower_rank_goes_first_until_the_other_has_waited(model: Loaded) -> None:
    loaded = model("stable-diffusion")
    now = [0.0]
    bench = Bench(loaded, max_rows=2, clock=lambda: now[0])
    bench.add("second", task_for(loaded.abilities, 1, steps=4), rank=25)
    bench.add("first", task_for(loaded.abilities, 2, steps=4), rank=0)

    def steps(name: str) -> int:
        return sum(isinstance(one, Step) for one in bench.told[name])

    # A forward takes a second, which is worth ten ranks to those that it does not serve.
    def tick(*_: Any) -> None:
        now[0] += 1

    taking = loaded.pipeline.unet.register_forward_hook(tick)
    bench.turn(3)
    assert (steps("first"), steps("second")) == (3, 0)
    bench.turn()
    taking.remove()
    assert (steps("first"), steps("second")) == (3, 1)


def test_rows_that_are_too_many_together_are_tried_one_by_one(
    model: Loaded, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loaded = model("stable-diffusion")
    unet: Any = loaded.pipeline.unet
    forward = unet.forward

    def bounded(sample: torch.Tensor, *rest: Any, **named: Any) -> Any:
        if sample.shape[0] > 2:
            raise torch.OutOfMemoryError("3 GiB are missing")
        if sample.shape[0] == 1:
            raise RuntimeError("a secret")
        return forward(sample, *rest, **named)

    monkeypatch.setattr(unet, "forward", functools.wraps(forward)(bounded))
    bench = Bench(loaded)
    bench.add("one", task_for(loaded.abilities, 1))
    bench.add("two", task_for(loaded.abilities, 2))
    # Without guidance it has one row; its fault is its own.
    bench.add("bad", task_for(loaded.abilities, 3, guidance=1.0))
    with caplog.at_level(logging.DEBUG):
        bench.finish()
    failed = bench.told["bad"][-1]
    assert isinstance(failed, TaskFailed)
    assert (failed.code, failed.retry) == ("internal_error", False)
    assert "secret" not in caplog.text
    assert "cat" not in caplog.text
    assert bench.picture("one").frames.shape == bench.picture("two").frames.shape == (1, 64, 64, 3)


def test_a_model_whose_memory_is_full_says_so(
    model: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = model("stable-diffusion")

    def full(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("3 GiB are missing")

    monkeypatch.setattr(loaded.pipeline.vae, "decode", full)
    failed = made_alone(loaded, task_for(loaded.abilities)).told["it"][-1]
    assert isinstance(failed, TaskFailed)
    assert (failed.code, failed.retry) == ("out_of_memory", True)


def test_gradients_stay_off_for_those_who_go_on(model: Loaded) -> None:
    loaded = model("stable-diffusion")
    bench = Bench(loaded)
    bench.add("short", task_for(loaded.abilities, 1, steps=1))
    bench.add("long", task_for(loaded.abilities, 2, steps=3))
    bench.turn(2)
    assert len(bench.told["short"]) == 2
    assert not torch.is_grad_enabled()


def test_an_input_that_is_no_picture_fails_its_task(model: Loaded, tmp_path: Path) -> None:
    loaded = model("stable-diffusion")
    (tmp_path / "image.png").write_bytes(b"no picture")
    task = task_for(loaded.abilities, inputs={"image": "a key"})
    bench = made_alone(loaded, task, {"image": tmp_path / "image.png"})
    failed = bench.told["it"][-1]
    assert isinstance(failed, TaskFailed)
    assert failed.code == "bad_input"
    assert failed.message.startswith("image:")
