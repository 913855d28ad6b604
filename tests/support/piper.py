# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Voices as Piper exports them: a tiny one, wired as all are, and the embedded one put together."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from antiphon.engines.catalog import default_cache_root, require

CHANNELS = 4
HOP = 4
RATE = 8000

SYMBOLS = "_^$ .,;:!?abdefhijklmnoprstuvwzæðŋɐɑɔəɚɛɜɡɪɹɾʃʊʌʒθˈˌːʔᵻ"
ID_MAP = {symbol: [number] for number, symbol in enumerate(SYMBOLS)}


def description(**changed: object) -> dict[str, Any]:
    """What is in ``.onnx.json``."""
    return {
        "audio": {"sample_rate": RATE, "quality": "tiny"},
        "espeak": {"voice": "en-us"},
        "language": {"code": "en_US", "family": "en"},
        "inference": {"noise_scale": 0.3, "length_scale": 1, "noise_w": 0.3},
        "phoneme_type": "espeak",
        "phoneme_map": {},
        "phoneme_id_map": ID_MAP,
        "num_speakers": 1,
        "speaker_id_map": {},
        **changed,
    }


class TinyVoice:
    """A VITS graph of a few hundred numbers; frames reach 2 frames far in flow and decoder.

    ``speakers``: how many it has; ``flow_reach``: further than any context that is tried, if
    large; ``rounds``: whether durations are rounded up, as everywhere, or in another way.
    """

    def __init__(self, *, speakers: int = 1, flow_reach: int = 2, rounds: str = "Ceil") -> None:
        self.speakers = speakers
        self.flow_reach = flow_reach
        self.rounds = rounds
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._random = np.random.default_rng(1)

    def model(self, name: Callable[[str], str] = str) -> Any:
        """The graph, its tensors called by ``name`` of what they are called here."""
        from onnx import TensorProto, helper

        self.nodes.clear()
        self.weights.clear()
        self._text()
        self._rhythm()
        self._flow()
        self._decoder()
        inputs = [
            helper.make_tensor_value_info("input", TensorProto.INT64, ["batch", "ids"]),
            helper.make_tensor_value_info("input_lengths", TensorProto.INT64, ["batch"]),
            helper.make_tensor_value_info("scales", TensorProto.FLOAT, [3]),
        ]
        if self.speakers > 1:
            inputs.append(helper.make_tensor_value_info("sid", TensorProto.INT64, ["batch"]))
        output = helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, 1, "samples"])
        graph = helper.make_graph(self.nodes, "tiny", inputs, [output], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)])
        model.ir_version = 8
        renamed(model, name)
        return model

    def write(
        self, folder: Path, name: str = "tiny", *, model: Any = None, **changed: object
    ) -> tuple[Path, Path]:
        """Both files."""
        graph, described = folder / f"{name}.onnx", folder / f"{name}.onnx.json"
        graph.write_bytes((model or self.model()).SerializeToString())
        if self.speakers > 1:
            changed = {"num_speakers": self.speakers, **changed}
        described.write_text(json.dumps(description(**changed)))
        return graph, described

    def _add(self, kind: str, inputs: Iterable[str], output: str, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def _weight(self, name: str, *shape: int, scale: float = 0.5) -> str:
        made = self._random.normal(scale=scale, size=shape).astype(np.float32)
        return self._constant(name, made)

    def _constant(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _scale(self, number: int) -> str:
        index = self._constant(f"which{number}", np.array(number))
        return self._add("Gather", ["scales", index], f"scale{number}")

    def _text(self) -> None:
        table = self._weight("emb", len(SYMBOLS), CHANNELS)
        found = self._add("Gather", [table, "input"], "embedded")
        if self.speakers > 1:
            voices = self._weight("emb_g", self.speakers, CHANNELS, scale=2.0)
            voice = self._add("Gather", [voices, "sid"], "voice")
            found = self._add("Add", [found, voice], "voiced")
        self._add("Transpose", [found], "mean", perm=[0, 2, 1])

    def _rhythm(self) -> None:
        """Frames of each id, and the mean of the prior stretched to them."""
        axis, last = self._constant("axis", np.array([1])), self._constant("last", np.array(2))
        sums = self._add("ReduceSum", ["mean", axis], "sums", keepdims=1)
        noise = self._add("RandomNormalLike", [sums], "rhythm_noise")
        noise = self._add("Mul", [noise, self._scale(2)], "rhythm_scaled")
        rough = self._add("Abs", [self._add("Add", [sums, noise], "rough")], "long")
        rough = self._add("Add", [rough, self._constant("one", np.float32(1.2))], "longer")
        length = self._add("Mul", [rough, self._scale(1)], "lengthened")
        durations = self._add(self.rounds, [length], "durations")
        ends = self._add("CumSum", [durations, last], "ends")
        starts = self._add("Sub", [ends, durations], "starts")
        whole = self._add("ReduceSum", [durations], "frames_float", keepdims=0)
        count = self._add("Cast", [whole], "frames", to=7)
        zero, step = (self._constant(n, np.array(v)) for n, v in (("zero", 0), ("step", 1)))
        places = self._add("Range", [zero, count, step], "places")
        places = self._add("Cast", [places], "places_float", to=1)
        self._stretch(places, starts, ends)

    def _stretch(self, places: str, starts: str, ends: str) -> None:
        begun, ended = (
            self._add("Transpose", [each], f"{each}_column", perm=[0, 2, 1])
            for each in (starts, ends)
        )
        after = self._add("GreaterOrEqual", [places, begun], "after")
        before = self._add("Less", [places, ended], "before")
        path = self._add("Cast", [self._add("And", [after, before], "path")], "path_float", to=1)
        self._add("MatMul", ["mean", path], "mean_frames")
        flat = self._add("GreaterOrEqual", [places, self._constant("none", np.float32(0))], "flat")
        shape = self._constant("mask_shape", np.array([1, 1, -1]))
        mask = self._add("Cast", [flat], "mask_float", to=1)
        self._add("Reshape", [mask, shape], "mask")

    def _flow(self) -> None:
        noise = self._add("RandomNormalLike", ["mean_frames"], "prior_noise")
        noise = self._add("Mul", [noise, self._constant("spread", np.float32(0.5))], "spread_noise")
        noise = self._add("Mul", [noise, self._scale(0)], "prior_scaled")
        prior = self._add("Add", ["mean_frames", noise], "prior")
        reach = self.flow_reach
        kernel = self._weight("flow.weight", CHANNELS, CHANNELS, 2 * reach + 1, scale=0.2)
        masked = self._add("Mul", [prior, "mask"], "prior_masked")
        made = self._add("Conv", [masked, kernel], "flow_out", pads=[reach, reach])
        self._add("Mul", [self._add("Add", [prior, made], "coupled"), "mask"], "latents")

    def _decoder(self) -> None:
        pre = self._weight("dec.conv_pre.weight", 6, CHANNELS, 3)
        made = self._add("Conv", ["latents", pre], "pre", pads=[1, 1])
        made = self._add("LeakyRelu", [made], "pre_relu", alpha=0.1)
        for number, channels in ((0, (6, 4)), (1, (4, 3))):
            kernel = self._weight(f"dec.ups.{number}.weight", *channels, 4)
            up = {"strides": [2], "pads": [1, 1], "kernel_shape": [4]}
            made = self._add("ConvTranspose", [made, kernel], f"up{number}", **up)
            made = self._add("LeakyRelu", [made], f"up{number}_relu", alpha=0.1)
        post = self._weight("dec.conv_post.weight", 1, 3, 3)
        made = self._add("Conv", [made, post], "post", pads=[1, 1])
        self._add("Tanh", [made], "output")


def renamed(model: Any, name: Callable[[str], str]) -> None:
    """Rename all inner tensors and nodes."""
    graph = model.graph
    kept = {each.name for each in (*graph.input, *graph.output)}
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [each if each in kept or not each else name(each) for each in names]
    for weight in graph.initializer:
        weight.name = name(weight.name)


def narrow(model: Any) -> None:
    """Convolutions over images one pixel high as those over time that they once were."""
    from onnx import numpy_helper

    graph = model.graph
    around = [node for node in graph.node if node.op_type in ("Unsqueeze", "Squeeze")]
    if not (around and all(node.name.startswith(("widen", "narrow")) for node in around)):
        return
    wide = {name: node.input[0] for node in around[:1] for name in node.output}
    wide |= {node.input[0]: node.output[0] for node in around[1:]}
    for node in around:
        graph.node.remove(node)
    for tensor in graph.initializer:
        if len(tensor.dims) == 4:
            flat = numpy_helper.to_array(tensor)[:, :, 0].copy()
            tensor.CopyFrom(numpy_helper.from_array(flat, tensor.name))
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [wide.get(each, each) for each in names]
        for each in node.attribute:
            if each.name in ("kernel_shape", "dilations", "strides", "pads", "output_padding"):
                # Those of time are every second, or the second of each end.
                each.ints[:] = list(each.ints)[1::2]


def write_joe(folder: Path, name: str = "joe", **changed: object) -> tuple[Path, Path]:
    """The embedded voice as it was before it was cut."""
    import onnx

    cut = require("piper-joe", default_cache_root(os.environ))[1]
    flow = sorted(cut.glob("flow-*.onnx"))
    halves = [cut / f"code2wav-{half}.onnx" for half in ("low", "high")]
    whole, *parts = (onnx.load(file) for file in (cut / "front.onnx", *flow, *halves))
    for part in parts:
        narrow(part)
        known = {each.name for each in whole.graph.initializer}
        whole.graph.node.extend(part.graph.node)
        new = [each for each in part.graph.initializer if each.name not in known]
        whole.graph.initializer.extend(new)
    del whole.graph.output[:]
    whole.graph.output.extend(parts[-1].graph.output)
    said = json.loads((cut / "voice.json").read_text())
    graph, described = folder / f"{name}.onnx", folder / f"{name}.onnx.json"
    graph.write_bytes(whole.SerializeToString())
    keys = ("noise_scale", "length_scale", "noise_w")
    made = description(
        audio={"sample_rate": said["sample_rate"], "quality": "medium"},
        inference={key: said[key] for key in keys},
        phoneme_id_map=said["phoneme_id_map"],
    )
    described.write_text(json.dumps(made | changed))
    return graph, described
