"""Writing the parts of a Piper graph, each verified to make what the whole makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...stage import StageFailure
from ..graph import Graph
from .contexts import TOLERANCE, context_error, cut_error
from .cutting import Cut, Model, extract, unusable
from .joints import joints, widen
from .piper import (
    CODE2WAV_FILE,
    FLOW_FILES,
    FRONT_FILE,
    HIGH_FILE,
    LOW_FILE,
    Decoding,
    FlowStep,
    Joint,
    decoding,
    flow_run,
    front_inputs,
)
from .steps import Chain, Frames, Step

EXACT = TOLERANCE / 10
"""Error of a context that is chosen: a tenth of what is allowed when it is loaded."""

CONTEXTS = (0, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64)
"""Frames of context tried; the smallest is taken with which stretches equal the whole."""

STRETCH = 24
"""Frames of the flow made at a time when its steps are verified."""

Array: TypeAlias = NDArray[np.float32]


def write_parts(model: Model, cut: Cut, ids: tuple[int, ...], out: Path) -> dict[str, Any] | None:
    """Write front, flow and decoder; what to know of them, or ``None`` if they differ.

    ``ids``: of a clause to try.
    """
    output: str = model.graph.output[0].name
    try:
        given = [each.name for each in model.graph.input]
        front = _saved(extract(model, given, [cut.prior, cut.durations]), out / FRONT_FILE)
        flow_part = extract(model, [cut.prior, *filter(None, [cut.mask])], [cut.latents])
        decoder_part = extract(model, [cut.latents], [output])
        prior, durations = front.run(quiet(ids, None), [cut.prior, cut.durations])
        flow = _write_flow(flow_part, cut, prior[0], out)
        decoder = _write_decoder(decoder_part, cut, output, out)
    except Exception:
        # Something else goes from one part into another, or a part does not run by itself:
        # onnxruntime's exceptions share no base class.
        return None
    if flow is None or decoder is None:
        return None
    latents, steps = flow
    run, known = decoder
    joined = run(latents[np.newaxis], 0, 0)[0]
    whole = run_whole(model, ids, None, [output], out)[0].ravel()
    length = cut.hop * round(float(durations.sum()))
    if len(joined) != len(whole) or len(whole) != length or not _same(joined, whole):
        return None
    return {
        "hop": cut.hop,
        "channels": cut.channels,
        "flow": steps,
        "prior": cut.prior,
        "mask": cut.mask,
        "durations": cut.durations,
        "latents": cut.latents,
        **known,
    }


def _write_flow(
    part: Model, cut: Cut, prior: Frames, out: Path
) -> tuple[Frames, tuple[FlowStep, ...]] | None:
    """Write the flow in as many steps as make the same; the latents of ``prior`` with it."""
    whole = _chain(part, cut, (cut.latents,), out)
    if whole is None:
        return None
    latents = Chain(whole[0], prior).upto(prior.shape[1])
    # A coupling ends where its two halves are put together again.
    tensors = joints(part, cut.prior, between=frozenset(("Concat",)))
    if tensors:
        chain = _chain(part, cut, (*tensors, cut.latents), out)
        if chain is not None and _same(_in_stretches(chain[0], prior), latents):
            return latents, chain[1]
        whole = _chain(part, cut, (cut.latents,), out)
        assert whole is not None, "it was there before"
    return latents, whole[1]


def _chain(
    part: Model, cut: Cut, tensors: Sequence[str], out: Path
) -> tuple[list[Step], tuple[FlowStep, ...]] | None:
    """Write the steps that end with these tensors; ``None`` where one reaches too far."""
    for file in out.glob(FLOW_FILES.format("*")):
        file.unlink()
    steps: list[Step] = []
    given = cut.prior
    for number, tensor in enumerate(tensors, 1):
        cut_out = extract(part, [given, *filter(None, [cut.mask])], [tensor])
        run = flow_run(_saved(cut_out, out / FLOW_FILES.format(number)), given, cut.mask, tensor)
        context = _context(run, cut.channels)
        if context is None:
            return None
        steps.append(Step(run, context))
        given = tensor
    told = (
        FlowStep(output=tensor, context_frames=step.context)
        for tensor, step in zip(tensors, steps, strict=True)
    )
    return steps, tuple(told)


def _in_stretches(steps: Sequence[Step], prior: Frames) -> Frames:
    chain, count = Chain(steps, prior), prior.shape[1]
    for stop in range(STRETCH, count, STRETCH):
        chain.upto(stop)
    return chain.upto(count)


def _write_decoder(
    part: Model, cut: Cut, output: str, out: Path
) -> tuple[Decoding, dict[str, Any]] | None:
    """Write the decoder, in two where that makes the same; how to run it, what to know."""
    last = part.graph.node[-1]
    if last.op_type == "Unsqueeze":
        # It only adds an axis, for which others would have to be careful.
        output = str(last.input[0])
        part = extract(part, [cut.latents], [output])
    graph = _saved(part, out / CODE2WAV_FILE)
    alone = decoding(None, graph, cut.latents, output, cut.hop, None)
    context = _context(lambda frames: alone(frames[np.newaxis], 0, 0)[0], cut.channels)
    if context is None:
        return None
    known = {"context_frames": context, "output": output}
    found = joints(part, cut.latents, between=frozenset(("ConvTranspose",)))
    halves = _halves(part, cut, found[0], output, out) if found else None
    if halves is not None:
        low, high, joint = halves
        run = decoding(low, high, cut.latents, output, cut.hop, joint)
        if cut_error(run, cut.channels, context) <= EXACT and _agree(run, alone, cut.channels):
            (out / CODE2WAV_FILE).unlink()
            return run, {**known, "joint": joint}
    for file in (LOW_FILE, HIGH_FILE):
        (out / file).unlink(missing_ok=True)
    return alone, known


def _halves(
    part: Model, cut: Cut, tensor: str, output: str, out: Path
) -> tuple[Graph, Graph, Joint] | None:
    low_part, high_part = extract(part, [cut.latents], [tensor]), extract(part, [tensor], [output])
    widen(low_part, [cut.latents])
    widen(high_part, [tensor])
    low, high = _saved(low_part, out / LOW_FILE), _saved(high_part, out / HIGH_FILE)
    (made,) = low.run({cut.latents: np.zeros((1, cut.channels, 8), np.float32)}, [tensor])
    channels, rate = made.shape[1], made.shape[2] // 8

    def run(frames: Frames) -> Array:
        return high.run({tensor: frames[np.newaxis]}, [output])[0].ravel()

    context = _context(run, channels)
    if context is None:
        return None
    return low, high, Joint(tensor=tensor, rate=rate, context=context)


def _agree(one: Decoding, other: Decoding, channels: int) -> bool:
    frames = np.random.default_rng(1).standard_normal((1, channels, STRETCH), dtype=np.float32)
    return _same(one(frames, 0, 0), other(frames, 0, 0))


def _saved(part: Model, path: Path) -> Graph:
    save(part, path)
    return Graph(path, 1)


def run_whole(
    model: Model, ids: tuple[int, ...], speaker: int | None, outputs: list[str], out: Path
) -> list[NDArray[np.float32]]:
    """Run the whole graph without noise; it is written where a front is."""
    path = out / ("whole.onnx" if (out / FRONT_FILE).exists() else FRONT_FILE)
    try:
        save(extract(model, [each.name for each in model.graph.input], outputs), path)
        return Graph(path, 1).run(quiet(ids, speaker), outputs)
    except StageFailure as error:
        if error.error.code == "package_missing":
            raise
        raise unusable("the graph can't be loaded") from None
    except Exception:
        # As above; what a graph has to say of itself is not told on.
        raise unusable("the graph can't be run on phoneme ids of its description") from None
    finally:
        (out / "whole.onnx").unlink(missing_ok=True)


def _context(run: Callable[[Frames], Array], channels: int) -> int | None:
    """The smallest context with which stretches equal the whole."""
    return next((n for n in CONTEXTS if context_error(run, channels, n) <= EXACT), None)


def _same(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    difference = np.abs(one - other).max(initial=0.0)
    return bool(difference <= TOLERANCE * max(float(other.std()), 1e-9))


def quiet(ids: tuple[int, ...], speaker: int | None) -> dict[str, NDArray[Any]]:
    """What a Piper graph is given to say ``ids`` without any noise."""
    return front_inputs(ids, [0.0, 1.0, 0.0], speaker)


def save(model: Model, path: Path) -> None:
    """Write a graph."""
    path.write_bytes(model.SerializeToString())
