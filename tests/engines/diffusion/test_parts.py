"""Batches joined and split, checkpoints, previews, the mailbox: each by itself."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from antiphon.engines.diffusion import batching
from antiphon.engines.diffusion.checkpoints import (
    Kept,
    NotKept,
    decode,
    encode,
    restore_scheduler,
)
from antiphon.engines.diffusion.mailbox import STEPS, Mailbox
from antiphon.engines.diffusion.previews import render
from antiphon.engines.diffusion.task import Checkpoint, Picture, Step


@given(
    rows=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    block=st.integers(1, 3),
    fill=st.integers(0, 3),
)
def test_what_is_joined_is_split_again(rows: list[int], block: int, fill: int) -> None:
    numbers = iter(range(1000))
    calls: list[dict[str, Any]] = [
        {
            "sample": torch.tensor([[next(numbers)] for _ in range(count)]),
            "more": {"text": torch.tensor([[next(numbers)] for _ in range(count * block)])},
            "shapes": [(1, 2)] * count,
            "flag": True,
        }
        for count in rows
    ]
    likeness = [
        {key: batching.likeness(value, count) for key, value in call.items()}
        for call, count in zip(calls, rows, strict=True)
    ]
    assert all(one == likeness[0] for one in likeness)
    total = sum(rows) + fill
    joined = {
        key: batching.join([c[key] for c in calls], rows, [like[key] for like in likeness], fill)
        for key in calls[0]
    }
    assert (len(joined["sample"]), len(joined["shapes"])) == (total, total)
    assert len(joined["more"]["text"]) == total * block
    parts = batching.split((joined["sample"], joined["more"]), rows, total)
    for call, (sample, more) in zip(calls, parts, strict=True):
        assert torch.equal(sample, call["sample"])
        assert torch.equal(more["text"], call["more"]["text"])


def test_calls_that_can_not_go_together_have_other_keys() -> None:
    row = torch.zeros(2, 4)
    table = torch.arange(4.0)
    pairs: list[tuple[Any, Any, bool]] = [
        (row, torch.zeros(2, 5), False),
        (row, row.double(), False),
        (row, None, False),
        (table, table + 1, True),
        ({"text": row}, {"text": torch.zeros(4, 4)}, False),
        (1, True, False),
        (object(), object(), False),
    ]
    for one, other, shared in pairs:
        assert batching.likeness(one, 2, shared=shared) != batching.likeness(
            other, 2, shared=shared
        )
    assert batching.likeness(row, 2) == batching.likeness(torch.ones(4, 4), 4)
    assert batching.likeness(table, 1, shared=True) == batching.likeness(
        table.clone(), 2, shared=True
    )


def test_one_time_for_all_rows_becomes_one_for_each() -> None:
    given_: dict[str, Any] = {"sample": torch.zeros(3, 2), "timestep": torch.tensor(7)}
    assert batching.per_row(given_, "timestep")["timestep"].tolist() == [7, 7, 7]


def test_a_checkpoint_is_what_was_kept() -> None:
    class Scheduler:
        pass

    odd = torch.arange(24, dtype=torch.bfloat16).reshape(1, 2, 3, 4)
    laid = odd.to(memory_format=torch.channels_last)
    state: dict[str, Any] = {
        "outputs": [None, laid, laid[:, :1]],
        "numbers": (1, 2.5, float("inf"), True, "name", None),
        "array": np.linspace(0, 1, 4),
        "scalar": np.float32(0.1),
        "settings": {"kind": torch.float16, 3: [1]},
        "size": laid.size(),
        "empty": torch.zeros(0),
    }
    generator = torch.Generator().manual_seed(3)
    torch.randn(5, generator=generator)
    again = decode(encode(Kept(4, "mark", laid, state, generator.get_state())))
    assert (again.done, again.model) == (4, "mark")
    assert torch.equal(again.latents, laid)
    assert again.latents.stride() == laid.stride()
    scheduler: Any = Scheduler()
    restore_scheduler(scheduler, again.scheduler, torch.device("cpu"))
    assert torch.equal(scheduler.outputs[2], laid[:, :1])
    assert scheduler.outputs[0] is None
    assert scheduler.numbers == state["numbers"]
    assert np.array_equal(scheduler.array, state["array"])
    assert scheduler.scalar.dtype == np.float32
    assert scheduler.scalar == np.float32(0.1)
    assert scheduler.settings == state["settings"]
    assert scheduler.size == (1, 2, 3, 4)
    other = torch.Generator()
    other.set_state(again.generator)
    assert torch.equal(torch.randn(3, generator=other), torch.randn(3, generator=generator))


def test_what_is_no_checkpoint_is_refused() -> None:
    kept = Kept(1, "mark", torch.zeros(1), {"solver": object()}, torch.zeros(1))
    with pytest.raises(NotKept, match="a object can't be kept"):
        encode(kept)
    good = encode(Kept(1, "mark", torch.zeros(1), {}, torch.zeros(1)))
    for bad in (b"", b"broken", good[:-3], good[: len(good) // 2]):
        with pytest.raises(ValueError, match="no checkpoint"):
            decode(bad)


def test_a_preview_has_the_colours_and_the_shape_of_the_picture() -> None:
    # Of two channels the first is red, and blue turned round.
    colours = np.array([[1, 0, -1], [0, 0, 0], [0, 0, 0]], dtype=np.float32)
    grid = torch.zeros(1, 2, 3, 4, 8)
    grid[:, 0, 1, :, :4] = 1
    picture = Image.open(io.BytesIO(render(colours, grid, (512, 1024))))
    assert (picture.format, picture.size) == ("JPEG", (256, 128))
    pixels = np.asarray(picture).astype(int)
    assert np.abs(pixels[64, 32] - (255, 128, 0)).max() < 12
    assert np.abs(pixels[64, 224] - 128).max() < 12


def test_a_mailbox_keeps_what_counts_and_no_more_than_its_bound() -> None:
    async def main() -> None:
        mailbox = Mailbox()
        mailbox.put(Step(1, 300, 1.0, b"seen"))
        for done in range(2, 3 * STEPS):
            mailbox.put(Step(done, 300, 1.0))
            mailbox.put(Checkpoint(done, b""))
        mailbox.put(Picture(np.zeros((1, 1, 1, 3), dtype=np.uint8)))
        told = [await mailbox.get()]
        while not isinstance(told[-1], Picture):
            told.append(await mailbox.get())
        steps = [one for one in told if isinstance(one, Step)]
        assert len(steps) == STEPS
        assert (steps[0].preview, steps[-1].done) == (b"seen", 3 * STEPS - 1)
        assert [one.done for one in told if isinstance(one, Checkpoint)] == [3 * STEPS - 1]

    asyncio.run(main())


def test_the_last_step_is_told_though_nothing_follows() -> None:
    async def main() -> None:
        mailbox = Mailbox()
        # The second comes so soon that it waits for others, of which there are none.
        for done in (1, 2):
            mailbox.put(Step(done, 3, 1.0))
            told = await mailbox.get()
            assert isinstance(told, Step)
            assert told.done == done

    asyncio.run(main())
