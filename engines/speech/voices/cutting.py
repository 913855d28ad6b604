# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""Where a Piper graph can be cut, found by how it is wired: names differ between exports.

A VITS graph draws noise twice, for the rhythm and for the prior; rounds durations up, once;
and ends in a decoder that upsamples. From these places the tensors between its parts are a
few steps away. Whether what is found is right is for :mod:`.intake` to verify.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

from ...chunks import StageError
from ...stage import StageFailure

GRAPH_BYTES = 256 << 20
"""A larger file is refused before it is read. Piper's largest voices have 120 MB."""

DOMAINS = frozenset(("", "ai.onnx"))
"""Operators of ONNX itself; others would be code that we don't have, or should not run."""

_NOISE = frozenset(("RandomNormalLike", "RandomNormal"))
_ON_THE_WAY = frozenset(("LeakyRelu", "Relu", "Identity", "Cast", "Mul", "Add"))
"""What may stand between the decoder's first convolution and its first upsampling."""

Model: TypeAlias = Any
"""``onnx.ModelProto``, which has no types."""

Node: TypeAlias = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The tensors between front, flow and decoder."""

    prior: str
    mask: str
    """Empty where the flow needs none."""

    durations: str
    latents: str
    channels: int
    hop: int
    """Samples of a frame."""


def read_graph(path: Path) -> Model:
    """Read a graph that nobody vouches for.

    Raises:
        StageFailure: it is too large, no graph, or reaches for other files or code.
    """
    try:
        if (size := path.stat().st_size) > GRAPH_BYTES:
            allowed = GRAPH_BYTES >> 20
            raise unusable(f"expected a graph of at most {allowed} MiB, got {size >> 20} MiB")
        model = _parse(path.read_bytes())
    except OSError as error:
        raise unusable(f"the graph can't be read: {error.strerror}") from None
    if not (model and model.graph.node and model.graph.output):
        raise unusable("expected an ONNX graph in the .onnx file")
    _require_own(model)
    return model


def _parse(content: bytes) -> Model | None:
    import onnx

    try:
        return onnx.load_model_from_string(content)
    except Exception:
        # protobuf's exceptions have no base class that is public.
        return None


def find_cut(model: Model) -> Cut | None:
    """Where to cut, or ``None`` if the graph is not wired as expected."""
    wiring = _Wiring(model.graph)
    upsampling = [node for node in model.graph.node if node.op_type == "ConvTranspose"]
    rounded = [node for node in model.graph.node if node.op_type == "Ceil"]
    if not upsampling or len(rounded) != 1:
        return None
    durations: str = rounded[0].output[0]
    first = wiring.back_to_convolution(upsampling[0].input[0])
    prior = _prior(wiring, durations)
    if first is None or prior is None:
        return None
    shape = wiring.shapes.get(first.input[1])
    strides = [_ints(node, "strides") for node in upsampling]
    if shape is None or len(shape) != 3 or not all(len(each) == 1 for each in strides):
        return None
    latents: str = first.input[0]
    mask = _mask(wiring, latents, prior)
    if mask is None:
        return None
    return Cut(
        prior=prior,
        mask=mask,
        durations=durations,
        latents=latents,
        channels=shape[1],
        hop=prod(each[0] for each in strides),
    )


def find_durations(model: Model) -> str:
    """Name of the frames of each phoneme id; empty where that is not clear."""
    rounded = [node for node in model.graph.node if node.op_type == "Ceil"]
    return str(rounded[0].output[0]) if len(rounded) == 1 else ""


def extract(model: Model, inputs: Iterable[str], outputs: Iterable[str]) -> Model:
    """The part of a graph between these tensors.

    Inputs that the graph does not have yet are ``(?, ?, ?)``, outputs of any shape; float32.
    """
    from onnx import TensorProto, helper
    from onnx.utils import Extractor

    taken = Extractor(model)
    for name in outputs:
        made = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        taken.value_infos.setdefault(name, made)
    given = {each.name for each in model.graph.input}
    for name in set(inputs) - given:
        shape = [f"{name}_{axis}" for axis in range(3)]
        taken.value_infos[name] = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    return taken.extract_model(list(inputs), list(outputs))


def unusable(what: str) -> StageFailure:
    """The failure of files that are no voice."""
    return StageFailure(StageError("voice_unusable", what))


def _require_own(model: Model) -> None:
    """Refuse what reaches out of the file."""
    from onnx import TensorProto

    domains = {each.domain for each in model.opset_import}
    tensors: list[Any] = []
    # Also those of the branches and bodies of nodes.
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        tensors += graph.initializer
        domains |= {node.domain for node in graph.node}
        for each in (each for node in graph.node for each in node.attribute):
            tensors += [each.t, *each.tensors]
            graphs += [*([each.g] if each.HasField("g") else []), *each.graphs]
    if model.functions or not domains <= DOMAINS:
        raise unusable("expected a graph of ONNX's own operators alone")
    if any(each.data_location == TensorProto.EXTERNAL for each in tensors):
        raise unusable("expected a graph that is one file, without external data")


class _Wiring:
    """Which node makes a tensor, and which read it."""

    def __init__(self, graph: Any) -> None:
        self.made_by: dict[str, Node] = {}
        self.read_by: dict[str, list[Node]] = defaultdict(list)
        for node in graph.node:
            for name in node.input:
                self.read_by[name].append(node)
            for name in node.output:
                self.made_by[name] = node
        self.shapes = {each.name: tuple(each.dims) for each in graph.initializer}

    def before(self, name: str) -> set[str]:
        """All tensors that one is made from, and itself."""
        found: set[str] = set()
        todo = [name]
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += self.made_by[name].input if name in self.made_by else []
        return found

    def back_to_convolution(self, name: str) -> Node | None:
        """The convolution that a tensor comes from, without much in between."""
        for _ in range(8):
            node = self.made_by.get(name)
            if node is None or node.op_type == "Conv":
                return node
            if node.op_type not in _ON_THE_WAY:
                return None
            name = next((each for each in node.input if each in self.made_by), "")
        return None

    def forward_to_sum(self, name: str) -> str | None:
        """The sum that a tensor goes into, through products alone."""
        for _ in range(8):
            readers = self.read_by[name]
            if len(readers) != 1:
                return None
            name = readers[0].output[0]
            if readers[0].op_type == "Add":
                return name
            if readers[0].op_type not in ("Mul", "Cast"):
                return None
        return None


def _prior(wiring: _Wiring, durations: str) -> str | None:
    """The sum of mean and noise: of the noise that has no part in the durations."""
    rhythm = wiring.before(durations)
    noise = [
        name
        for name, node in wiring.made_by.items()
        if node.op_type in _NOISE and name not in rhythm
    ]
    return wiring.forward_to_sum(noise[0]) if len(noise) == 1 else None


def _mask(wiring: _Wiring, latents: str, prior: str) -> str | None:
    """What the latents were multiplied with last; ``None`` if they don't come of the prior."""
    if prior not in wiring.before(latents):
        return None
    last = wiring.made_by[latents]
    if last.op_type != "Mul":
        return ""
    apart = [name for name in last.input if prior not in wiring.before(name)]
    return apart[0] if len(apart) == 1 and apart[0] in wiring.made_by else ""


def _ints(node: Node, name: str) -> tuple[int, ...]:
    return next((tuple(each.ints) for each in node.attribute if each.name == name), (1,))
