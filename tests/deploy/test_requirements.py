"""The requirement locks: complete pins that agree with each other and with the project."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from antiphon.deploy.setup_env import ROOT, TORCH_PIN, requirement_lines

LOCKS = sorted((ROOT / "deploy").glob("requirements-*.txt"))


def pins_of(lock: Path) -> list[Requirement]:
    lines = requirement_lines(lock).splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith(("#", "-r "))]


def versions_of(lock: Path) -> dict[str, str]:
    return {canonicalize_name(pin.name): str(pin.specifier) for pin in pins_of(lock)}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_every_requirement_is_pinned_once(lock: Path) -> None:
    pins = pins_of(lock)
    assert [str(pin) for pin in pins if not str(pin.specifier).startswith("==")] == []
    names = [canonicalize_name(pin.name) for pin in pins]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("name", ["cpu", "cuda", "speech"])
def test_the_tools_share_the_pins_of_the_runtime(name: str) -> None:
    runtime = versions_of(ROOT / "deploy" / f"requirements-{name}.txt")
    tools = versions_of(ROOT / "deploy" / "requirements-dev.txt")
    common = runtime.keys() & tools.keys()
    assert "packaging" in common
    assert {key: runtime[key] for key in common} == {key: tools[key] for key in common}


def test_the_cpu_lock_leaves_out_what_breaks_a_cpu_torch() -> None:
    pinned = versions_of(ROOT / "deploy" / "requirements-cpu.txt").keys()
    assert not pinned & {"torchvision", "torchaudio", "torchcodec"}
    assert TORCH_PIN.search(requirement_lines(ROOT / "deploy" / "requirements-cpu.txt"))


def test_the_cpu_lock_satisfies_what_the_package_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    pinned = versions_of(ROOT / "deploy" / "requirements-cpu.txt")
    # That of sound devices needs PortAudio of the system, so no lock holds it.
    locked = [line for name, lines in extras.items() for line in lines if name != "device"]
    declared = [*project["dependencies"], *locked]
    for requirement in map(Requirement, declared):
        version = pinned[canonicalize_name(requirement.name)].removeprefix("==")
        assert requirement.specifier.contains(version), requirement
