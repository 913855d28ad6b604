# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""Cutting the parts of a voice further, and laying them out as a CPU reads them fastest.

A stretch is computed with a context that is then thrown away. A part that is cut into steps
needs less of it: each step only what it reaches itself, at its own rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from .cutting import Model, Node

CONVOLUTIONS = frozenset(("Conv", "ConvTranspose"))

_AXIS = "antiphon_axis"
_WIDE = "antiphon_wide_"


def joints(model: Model, source: str, *, between: frozenset[str] = CONVOLUTIONS) -> list[str]:
    """Tensors through which all must pass that comes of ``source``, in order.

    Those alone with a node of the kinds ``between`` ahead of them and behind them, and of
    several without one in between the last.
    """
    found: list[str] = []
    passed = False
    for node, alive in _sweep(model, source):
        if node.op_type in between:
            passed = True
            found.append("")
        if passed and len(alive) == 1:
            found[-1] = next(iter(alive))
    # Behind the last of these nodes nothing is left to cut.
    return [name for name in found[:-1] if name]


def widen(model: Model, names: Sequence[str]) -> bool:
    """Turn convolutions over time into ones over an image one pixel high, in place.

    Equal but for rounding, and a quarter faster: onnxruntime has blocked kernels for images
    alone. ``names``: the inputs with an axis of time, ``(batch, channels, n)``; outputs stay
    as they were. Returns whether it was done: other nodes must not care for the axis.
    """
    from onnx import helper, numpy_helper

    graph = model.graph
    if not all(node.op_type in _INDIFFERENT or _is_flat(node, graph) for node in graph.node):
        return False
    weights = {node.input[1] for node in graph.node if node.op_type in CONVOLUTIONS}
    for tensor in graph.initializer:
        if tensor.name in weights:
            wide = numpy_helper.to_array(tensor)[:, :, None, :].copy()
            tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
    for node in graph.node:
        if node.op_type in CONVOLUTIONS:
            _widen(node)
    graph.initializer.append(helper.make_tensor(_AXIS, 7, [1], [2]))
    _put_around(graph, names)
    del graph.value_info[:]
    return True


_INDIFFERENT = frozenset(
    ("Conv", "ConvTranspose", "LeakyRelu", "Relu", "Tanh", "Sigmoid", "Add", "Sub", "Neg", "Exp")
)
"""Nodes that do the same with one more axis, as long as what they add has no axis of time."""


def _is_flat(node: Node, graph: Any) -> bool:
    """Whether a product's or quotient's constants are single numbers."""
    if node.op_type not in ("Mul", "Div", "Constant"):
        return False
    sizes = {each.name: tuple(each.dims) for each in graph.initializer}
    return all(not sizes.get(name) for name in node.input)


def _widen(node: Node) -> None:
    for each in node.attribute:
        old = list(each.ints)
        if each.name in ("kernel_shape", "dilations", "strides"):
            new = [1, *old]
        elif each.name == "pads":
            new = [0, old[0], 0, old[1]]
        elif each.name == "output_padding":
            new = [0, *old]
        else:
            continue
        del each.ints[:]
        each.ints.extend(new)


def _put_around(graph: Any, names: Sequence[str]) -> None:
    from onnx import helper

    given, made = set(names), {each.name for each in graph.output}
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name in given | made:
                node.input[place] = _WIDE + name
        for place, name in enumerate(node.output):
            if name in made:
                node.output[place] = _WIDE + name
    for name in names:
        node = helper.make_node("Unsqueeze", [name, _AXIS], [_WIDE + name], name=f"widen {name}")
        graph.node.insert(0, node)
    for name in sorted(made):
        wide = helper.make_node("Squeeze", [_WIDE + name, _AXIS], [name], name=f"narrow {name}")
        graph.node.append(wide)


def _sweep(model: Model, source: str) -> list[tuple[Node, set[str]]]:
    """Each node that depends on ``source``, in order, and what is still needed behind it."""
    graph = model.graph
    depends: set[str] = {source}
    nodes: list[Node] = []
    for node in graph.node:
        if any(name in depends for name in node.input):
            nodes.append(node)
            depends.update(node.output)
    needed = Counter(name for node in nodes for name in node.input if name in depends)
    needed.update(each.name for each in graph.output)
    alive = {source}
    swept: list[tuple[Node, set[str]]] = []
    for node in nodes:
        needed.subtract(name for name in node.input if name in depends)
        alive = {name for name in alive | set(node.output) if needed[name] > 0}
        swept.append((node, alive))
    return swept
