"""What a pipeline's folder can make, read from its small files: no tensor library, no weights."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec

from ..chunks import StageError
from ..stage import StageFailure
from .families.family import Configs, Frames, MediaFamily, Sizes, Variant, family_of
from .task import Kind, MediaTask

FACTS = "antiphon.json"
"""A file in the folder that says what the parts' own don't: see :class:`Facts`."""

SMALLEST = 16
"""Pixels of a side."""

END_BYTES = 1 << 20
"""Of each end of a file of weights that the revision is made of."""

READ_BYTES = 1 << 20
"""Of a small file, at most."""


class Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is set of one model; ``None`` leaves what its family says.

    In the deployment, or in the model's folder as :data:`FACTS`; the deployment's goes first.
    """

    width: int | None = None
    height: int | None = None
    steps: int | None = None
    guidance: float | None = None
    frames: int | None = None
    frames_per_second: int | None = None
    max_steps: int | None = None
    max_pixels: int | None = None
    """Of one picture or frame."""

    drawn_pixels: int | None = None
    """What the model itself draws, at most; what is asked to be larger is enlarged. For models
    that know but one size, whose users ask for any."""

    max_frames: int | None = None
    max_prompt_chars: int | None = None
    untrained: bool | None = None
    """Its weights are random: it shows that everything works, and nothing else."""

    call: dict[str, Any] | None = None
    """More arguments of the pipeline's call, such as ``max_sequence_length``."""

    examples: tuple[str, ...] | None = None
    """Prompts that show what it can, for people who try it first."""


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """A model's defaults and limits. ``width`` and so on are what is made where nothing is asked."""

    family: str
    kind: Kind
    inputs: tuple[tuple[str, ...], ...]
    """Which may go in together; an empty tuple is text alone."""

    strength: bool
    """Whether any of them heeds ``strength``."""

    negative: bool
    width: int
    height: int
    multiple_of: int
    steps: int
    guidance: float
    guidance_most: float
    frames: int
    frames_every: int
    """Frames are ``1 + k * frames_every``."""

    frames_per_second: int
    max_steps: int
    max_pixels: int
    max_frames: int
    max_prompt_chars: int
    drawn_pixels: int | None = None
    adapters: tuple[str, ...] = ()
    untrained: bool = False
    call: dict[str, Any] = {}
    examples: tuple[str, ...] = ()

    def check(self, task: MediaTask) -> None:
        """Refuse what can't be made.

        Raises:
            ValueError: a field is out of what is allowed; the message names it.
        """
        if task.kind != self.kind:
            raise ValueError(f"kind: {task.model} makes {self.kind}s, not {task.kind}s")
        self._check_size(task)
        self._check_frames(task)
        _within("steps", task.steps, 1, self.max_steps)
        _within("guidance", task.guidance, 0, self.guidance_most)
        _within("seed", task.seed, 0, 2**63 - 1)
        for name, text in (("prompt", task.prompt), ("negative_prompt", task.negative_prompt)):
            if len(text) > self.max_prompt_chars:
                raise ValueError(f"{name}: at most {self.max_prompt_chars} characters are allowed")
        if task.negative_prompt and not self.negative:
            raise ValueError(f"negative_prompt: {task.model} is not told what not to show")
        self._check_inputs(task)

    def _check_size(self, task: MediaTask) -> None:
        for name, side in (("width", task.width), ("height", task.height)):
            if side < max(SMALLEST, self.multiple_of) or side % self.multiple_of:
                raise ValueError(
                    f"{name}: must be a multiple of {self.multiple_of}, and at least "
                    f"{max(SMALLEST, self.multiple_of)}; it is {side}"
                )
        if task.width * task.height > self.max_pixels:
            raise ValueError(
                f"width, height: at most {self.max_pixels} pixels are allowed, "
                f"not {task.width}x{task.height}"
            )

    def _check_frames(self, task: MediaTask) -> None:
        _within("frames", task.frames, 1, self.max_frames)
        if (task.frames - 1) % self.frames_every:
            lower = 1 + (task.frames - 1) // self.frames_every * self.frames_every
            raise ValueError(
                f"frames: must be 1 and a multiple of {self.frames_every} more, such as {lower} or "
                f"{lower + self.frames_every}; it is {task.frames}"
            )
        if self.kind == "video":
            _within("frames_per_second", task.frames_per_second, 1, 120)

    def _check_inputs(self, task: MediaTask) -> None:
        if tuple(sorted(task.inputs)) not in self.inputs:
            known = " or ".join(" and ".join(names) or "none" for names in self.inputs)
            given = " and ".join(sorted(task.inputs)) or "none"
            raise ValueError(f"inputs: {task.model} takes {known}, not {given}")
        if not 0 < task.strength <= 1:
            raise ValueError(f"strength: must be over 0 and at most 1; it is {task.strength}")
        if "image" in task.inputs and self.strength and int(task.steps * task.strength) < 1:
            raise ValueError("strength: with so few steps nothing would be done; more of either")
        for name in task.adapters:
            if name not in self.adapters:
                known = ", ".join(self.adapters) or "none"
                raise ValueError(f"adapters: {name!r} is not known; known are: {known}")

    def drawn(self, width: int, height: int) -> tuple[int, int]:
        """The size that the model itself draws where this one is asked for."""
        most = self.drawn_pixels
        if most is None or width * height <= most:
            return width, height
        return self.size_near(width, height, most)

    def size_near(self, width: int, height: int, pixels: int) -> tuple[int, int]:
        """The largest size of about this shape that is allowed, has at most ``pixels``, and is no
        larger than this one."""
        scale = min(1.0, (pixels / (width * height)) ** 0.5)
        grid = self.multiple_of
        least = -(-SMALLEST // grid) * grid
        across = max(least, int(width * scale) // grid * grid)
        down = max(least, int(height * scale) // grid * grid)
        while across * down > pixels and max(across, down) > least:
            if across >= down:
                across = max(least, across - grid)
            else:
                down = max(least, down - grid)
        return across, down

    def frames_near(self, count: int) -> int:
        """The allowed number of frames that is closest to ``count``."""
        steps = round((count - 1) / self.frames_every)
        return max(1, min(self.max_frames, 1 + max(0, steps) * self.frames_every))


def _within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name}: must be from {least} to {most}; it is {value}")


def read_configs(folder: Path) -> Configs:
    """The settings of a pipeline's parts; ``""`` is the pipeline's own.

    Raises:
        StageFailure: it is no folder of a pipeline.
    """
    index = folder / "model_index.json"
    if not index.is_file():
        raise StageFailure(
            StageError("model_missing", f"{folder}: no model_index.json, so no pipeline's folder")
        )
    configs = {"": _read(index)}
    for path in sorted(folder.glob("*/config.json")):
        configs[path.parent.name] = _read(path)
    return configs


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            found: dict[str, Any] = json.loads(file.read(READ_BYTES))
    except (OSError, ValueError) as error:
        raise StageFailure(StageError("model_broken", f"{path}: {error}")) from error
    return found


def family_in(configs: Configs) -> MediaFamily:
    """The family of a folder.

    Raises:
        StageFailure: none serves its pipeline class.
    """
    try:
        return family_of(str(configs[""].get("_class_name")))
    except ValueError as error:
        raise StageFailure(StageError("model_unknown", str(error))) from error


def variants_of(family: MediaFamily, configs: Configs) -> tuple[Variant, ...]:
    """What a folder can be made into."""
    return tuple(variant for variant in family.variants if family.offers(configs, variant))


def read_facts(folder: Path) -> Facts:
    """What is written in a model's own folder of it.

    Raises:
        StageFailure: an entry is unknown, or of another type.
    """
    path = folder / FACTS
    if not path.is_file():
        return Facts()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Facts)
    except (OSError, msgspec.DecodeError) as error:
        raise StageFailure(StageError("model_broken", f"{path}: {error}")) from error


def read_abilities(
    folder: Path, *, facts: Facts | None = None, adapters: tuple[str, ...] = ()
) -> Abilities:
    """What the model of a folder can make; ``facts`` are the deployment's.

    Raises:
        StageFailure: it is no pipeline's folder, none that is known, or a default is not allowed.
    """
    configs, written = read_configs(folder), read_facts(folder)
    return find_abilities(str(folder), configs, written, facts=facts, adapters=adapters)


def find_abilities(
    name: str,
    configs: Configs,
    written: Facts,
    *,
    facts: Facts | None = None,
    adapters: tuple[str, ...] = (),
) -> Abilities:
    """The same of what was read; ``name`` is for the message.

    Raises:
        StageFailure: no family serves it, or a default is not allowed.
    """
    family = family_in(configs)
    said = {key: _first(key, facts, written) for key in Facts.__struct_fields__}
    sizes, variants = family.sizes(configs), variants_of(family, configs)
    frames = family.frames(configs) if family.frames else Frames(default=1, most=1, per_second=0)
    found = Abilities(
        family=family.name,
        kind=family.kind,
        inputs=tuple(tuple(sorted(variant.inputs)) for variant in variants),
        strength=any(variant.strength for variant in variants),
        negative=family.negative,
        multiple_of=sizes.multiple_of,
        guidance_most=family.guidance_most,
        frames_every=frames.every,
        adapters=adapters,
        **(_defaults(family, sizes, frames) | {key: v for key, v in said.items() if v is not None}),
    )
    _check_defaults(name, found)
    return found


def _first(name: str, facts: Facts | None, written: Facts) -> Any:
    said = getattr(facts, name) if facts is not None else None
    return getattr(written, name) if said is None else said


def _defaults(family: MediaFamily, sizes: Sizes, frames: Frames) -> dict[str, Any]:
    return {
        "width": sizes.width,
        "height": sizes.height,
        "steps": family.steps,
        "guidance": family.guidance,
        "frames": frames.default,
        "frames_per_second": frames.per_second,
        "max_steps": 200,
        "max_pixels": 2 * max(sizes.width * sizes.height, 512 * 512),
        "max_frames": frames.most,
        "max_prompt_chars": 2000,
    }


def _check_defaults(name: str, found: Abilities) -> None:
    task = MediaTask(
        kind=found.kind,
        model=name,
        prompt="",
        width=found.width,
        height=found.height,
        steps=found.steps,
        guidance=found.guidance,
        seed=0,
        frames=found.frames,
        frames_per_second=found.frames_per_second,
        inputs=dict.fromkeys(found.inputs[0], ""),
    )
    try:
        found.check(task)
    except ValueError as error:
        raise StageFailure(StageError("bad_default", f"{name}: default of {error}")) from error


def revision_of(folder: Path) -> str:
    """Digest that tells a model from another, 16 hexadecimal digits.

    Made of the names, sizes and both ends of its files: weights that are trained on differ there.
    """
    digest = hashlib.sha256()
    for path in sorted(entry for entry in folder.rglob("*") if entry.is_file()):
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder).as_posix()}\0{size}\0".encode())
        with path.open("rb") as file:
            digest.update(file.read(END_BYTES))
            if size > END_BYTES:
                file.seek(max(END_BYTES, size - END_BYTES))
                digest.update(file.read(END_BYTES))
    return digest.hexdigest()[:16]
