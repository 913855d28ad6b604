"""What a model can make, and what is refused without loading it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.diffusion import task_for

from antiphon.engines.diffusion.abilities import Facts, read_abilities, revision_of
from antiphon.engines.diffusion.named import abilities_of
from antiphon.engines.diffusion.switches import DiffuserConfig
from antiphon.engines.stage import StageFailure

IMAGE = abilities_of(DiffuserConfig(path="placeholder-image"))
VIDEO = abilities_of(DiffuserConfig(path="placeholder-video"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kind": "video"}, "kind: tiny makes images, not videos"),
        ({"width": 8}, "width: must be a multiple of 8, and at least 16; it is 8"),
        ({"height": 100}, "height: must be a multiple of 8"),
        ({"width": 1024, "height": 512}, "width, height: at most 262144 pixels"),
        ({"height": 2**40}, "width, height: at most"),
        ({"steps": 0}, "steps: must be from 1 to 200; it is 0"),
        ({"guidance": -0.5}, "guidance: must be from 0 to 20"),
        ({"guidance": float("nan")}, "guidance: must be"),
        ({"seed": -1}, "seed: "),
        ({"frames": 2}, "frames: must be from 1 to 1"),
        ({"prompt": "x" * 2001}, "prompt: at most 2000 characters"),
        (
            {"inputs": {"video": ""}},
            "inputs: tiny takes none or image or image and mask, not video",
        ),
        ({"strength": 0.0}, "strength: must be over 0"),
        ({"strength": 0.1, "inputs": {"image": ""}}, "strength: with so few steps"),
        ({"adapters": {"loud": 1.0}}, "adapters: 'loud' is not known; known are: none"),
    ],
)
def test_what_can_not_be_made_is_refused_by_its_field(
    changed: dict[str, Any], message: str
) -> None:
    IMAGE.check(task_for(IMAGE))
    with pytest.raises(ValueError, match=re.escape(message)):
        IMAGE.check(task_for(IMAGE, **changed))


@pytest.mark.parametrize(
    ("own", "size"),
    [((64, 48), (64, 48)), ((70, 63), (64, 56)), ((3, 5), (16, 16)), ((2000, 1000), (720, 360))],
)
def test_a_size_that_is_allowed_is_near(own: tuple[int, int], size: tuple[int, int]) -> None:
    assert IMAGE.size_near(*own, IMAGE.max_pixels) == size
    width, height = IMAGE.size_near(100_000, 3, IMAGE.max_pixels)
    assert (height, width % IMAGE.multiple_of) == (16, 0)
    assert width * height <= IMAGE.max_pixels


@pytest.mark.parametrize(
    ("asked", "drawn"),
    [((64, 64), (64, 64)), ((40, 48), (40, 48)), ((512, 512), (64, 64)), ((768, 256), (104, 32))],
)
def test_a_model_draws_no_more_than_it_knows(
    asked: tuple[int, int], drawn: tuple[int, int]
) -> None:
    knows = abilities_of(
        DiffuserConfig(path="placeholder-image", facts=Facts(drawn_pixels=64 * 64))
    )
    assert knows.drawn(*asked) == drawn
    assert IMAGE.drawn(*asked) == asked


def test_frames_follow_the_rule_of_their_family() -> None:
    assert [VIDEO.frames_near(count) for count in (0, 1, 4, 7, 16, 1000)] == [1, 1, 5, 9, 17, 81]
    with pytest.raises(ValueError, match="frames: .* such as 17 or 21; it is 18"):
        VIDEO.check(task_for(VIDEO, frames=18))
    with pytest.raises(ValueError, match="frames_per_second"):
        VIDEO.check(task_for(VIDEO, frames_per_second=0))


def test_the_deployment_goes_before_the_folder_and_both_before_the_family(
    pipeline: Callable[[str], Path],
) -> None:
    found = read_abilities(pipeline("flux"), facts=Facts(steps=9, max_pixels=128 * 128))
    assert (found.steps, found.width, found.guidance, found.max_pixels) == (9, 64, 3.5, 128 * 128)
    assert not found.negative
    with pytest.raises(ValueError, match="negative_prompt: tiny is not told what not to show"):
        found.check(task_for(found, negative_prompt="fog"))
    with pytest.raises(StageFailure, match="default of width: must be a multiple of 16"):
        read_abilities(pipeline("flux"), facts=Facts(width=72))


def test_an_unknown_pipeline_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text('{"_class_name": "CogViewPipeline"}')
    with pytest.raises(StageFailure, match=r"CogViewPipeline are not served; known are Stable"):
        read_abilities(tmp_path)
    (tmp_path / "model_index.json").write_text("{")
    with pytest.raises(StageFailure, match="model_broken"):
        read_abilities(tmp_path)


def test_a_revision_changes_with_the_weights(tmp_path: Path) -> None:
    file = tmp_path / "unet" / "weights"
    file.parent.mkdir()
    seen: set[str] = set()
    for content in (b"a" * (3 << 20), b"a" * (3 << 20) + b"b", b"a" * (3 << 20) + b"c"):
        file.write_bytes(content)
        assert revision_of(tmp_path) == revision_of(tmp_path)
        seen.add(revision_of(tmp_path))
    assert len(seen) == 3


def test_a_server_loads_no_tensor_library_for_it() -> None:
    modules = ("named", "pipeline_diffuser", "switches")
    imports = "; ".join(f"import antiphon.engines.diffusion.{module}" for module in modules)
    code = (
        f"import sys; {imports}; from antiphon.engines.diffusion import named, switches; "
        "named.abilities_of(switches.DiffuserConfig(path='placeholder-video')); "
        "print(sorted({'torch', 'diffusers', 'transformers', 'greenlet', 'PIL'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
