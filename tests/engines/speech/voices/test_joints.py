# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""Where the parts of a voice can be cut further, and convolutions made wide."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from antiphon.engines.speech.voices.cutting import extract
from antiphon.engines.speech.voices.joints import joints, widen

CHANNELS = 4
RANDOM = np.random.default_rng(1)


def weight(name: str, *shape: int) -> Any:
    return numpy_helper.from_array(RANDOM.standard_normal(shape).astype(np.float32), name)


def decoder(*, extra: tuple[Any, ...] = (), constants: tuple[Any, ...] = ()) -> Any:
    """A small decoder: twice up, each time with a residual of two convolutions."""
    nodes: list[Any] = []
    name = "x"
    for number, stride in enumerate((4, 2)):
        at = str(number)
        nodes += [
            helper.make_node(
                "ConvTranspose",
                [name, f"up{at}"],
                [f"u{at}"],
                strides=[stride],
                kernel_shape=[2 * stride],
                pads=[stride // 2, stride // 2],
            ),
            helper.make_node("LeakyRelu", [f"u{at}"], [f"l{at}"], alpha=0.1),
            helper.make_node("Conv", [f"l{at}", f"c{at}"], [f"r{at}"], pads=[2, 2], dilations=[2]),
            helper.make_node("Add", [f"r{at}", f"u{at}"], [f"s{at}"]),
            helper.make_node("Div", [f"s{at}", "three"], [f"d{at}"]),
            helper.make_node("LeakyRelu", [f"d{at}"], [f"y{at}"], alpha=0.1),
        ]
        name = f"y{at}"
    nodes += [*extra, helper.make_node("Tanh", [name], ["output"])]
    weights = [
        weight("up0", CHANNELS, CHANNELS, 8),
        weight("up1", CHANNELS, CHANNELS, 4),
        *(weight(f"c{number}", CHANNELS, CHANNELS, 3) for number in range(2)),
        numpy_helper.from_array(np.array(3.0, np.float32), "three"),
        *constants,
    ]
    shape = [1, CHANNELS, "n"]
    graph = helper.make_graph(
        nodes,
        "decoder",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, None)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(model: Any, given: NDArray[np.float32]) -> NDArray[np.float32]:
    session: Any = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    made: NDArray[np.float32] = session.run(None, {session.get_inputs()[0].name: given})[0]
    return made


def frames(count: int = 30, channels: int = CHANNELS) -> NDArray[np.float32]:
    return RANDOM.standard_normal((1, channels, count)).astype(np.float32)


def test_all_passes_ahead_of_the_second_upsampling() -> None:
    upsampling = frozenset(("ConvTranspose",))
    assert joints(decoder(), "x", between=upsampling) == ["y0"]


def test_inside_a_residual_nothing_can_be_cut() -> None:
    # Up, and its residual, are one part: between the convolutions two tensors are needed.
    assert joints(decoder(), "x") == ["u0", "y0", "u1"]


def test_ahead_of_what_is_read_much_later_nothing_can_be_cut() -> None:
    model = decoder(extra=(helper.make_node("ReduceMean", ["u0"], ["mean"], keepdims=1),))
    sum_of_both = helper.make_node("Add", ["y1", "mean"], ["z"])
    model.graph.node.insert(len(model.graph.node) - 1, sum_of_both)
    model.graph.node[-1].input[0] = "z"
    assert joints(model, "x", between=frozenset(("ConvTranspose",))) == ["u0"]


def test_parts_joined_are_the_whole() -> None:
    model, given = decoder(), frames()
    (joint,) = joints(model, "x", between=frozenset(("ConvTranspose",)))
    low, high = extract(model, ["x"], [joint]), extract(model, [joint], ["output"])
    np.testing.assert_allclose(run(high, run(low, given)), run(model, given), rtol=1e-5)


def test_a_wide_graph_makes_the_same() -> None:
    model, given = decoder(), frames()
    wanted = run(model, given)
    assert widen(model, ["x"])
    kernels = [
        len(each.ints)
        for node in model.graph.node
        for each in node.attribute
        if each.name in ("kernel_shape", "dilations")
    ]
    assert kernels
    assert set(kernels) == {2}
    np.testing.assert_allclose(run(model, given), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "extra",
    [
        helper.make_node("Slice", ["y1", "two", "two"], ["unused"]),
        helper.make_node("Mul", ["y1", "scale"], ["unused"]),
    ],
)
def test_what_cares_for_axes_is_left_as_it_is(extra: Any) -> None:
    scale = weight("scale", CHANNELS, 1)
    two = numpy_helper.from_array(np.array([2]), "two")
    model = decoder(extra=(extra,), constants=(scale, two))
    before = model.SerializeToString()
    assert not widen(model, ["x"])
    assert model.SerializeToString() == before
