"""What becomes of the files that Piper exports, with tiny voices wired as all are."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.piper import ID_MAP, TinyVoice, description, write_joe

from antiphon.engines.speech.voices import cutting, intake
from antiphon.engines.speech.voices import description as description_module
from antiphon.engines.speech.voices.cutting import find_cut, read_graph
from antiphon.engines.speech.voices.family import read_model
from antiphon.engines.speech.voices.intake import prepare_piper, prepared, try_out
from antiphon.engines.speech.voices.piper import (
    CODE2WAV_FILE,
    FRONT_FILE,
    PiperDecoder,
    PiperModel,
    PiperTalker,
)
from antiphon.engines.stage import StageFailure

TEXT = "Hello there, this is a test."


def made(files: tuple[Path, Path], out: Path, name: str = "tiny") -> PiperModel:
    out.mkdir()
    prepare_piper(*files, out, name=name)
    model: PiperModel = read_model(out, PiperModel)
    return model


def sound(folder: Path, voice: str, text: str = TEXT, size: int = 10_000) -> Any:
    """What a voice says without variation, in windows of so many frames."""
    talker, decoder = PiperTalker(folder, 1, variation=0), PiperDecoder(folder, 1)
    draft = talker.draft(text, 1.0, voice)
    assert draft is not None
    parts = [draft.next(size).frames for _ in range(-(-draft.left // size))]
    return decoder.run(np.concatenate(parts, axis=1)[np.newaxis])[0]


def nowhere(model: object) -> None:
    """Where to cut a graph that is wired in another way."""


def backwards(name: str) -> str:
    return f"t{name[::-1]}"


@pytest.mark.parametrize("name", [str, backwards])
def test_a_graph_is_cut_whatever_its_tensors_are_called(
    name: Callable[[str], str], tmp_path: Path
) -> None:
    voice = TinyVoice()
    files = voice.write(tmp_path, model=voice.model(name))
    model = made(files, tmp_path / "out")
    assert not model.whole
    assert model.voices == ("tiny",)
    assert (model.hop, model.channels) == (4, 4)
    assert [step.context_frames for step in model.flow] == [4]
    assert model.context_frames == 4
    assert (model.prior, model.latents) == (name("prior"), name("latents"))
    assert (model.mask, model.durations) == (name("mask"), name("durations"))
    assert (model.language, model.espeak) == ("en", "en-us")
    try_out(tmp_path / "out")


def test_a_cut_voice_says_what_the_whole_graph_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = TinyVoice().write(tmp_path)
    assert not made(files, tmp_path / "cut").whole
    monkeypatch.setattr(intake, "find_cut", nowhere)
    assert made(files, tmp_path / "whole").whole
    cut, whole = (sound(tmp_path / name, "tiny") for name in ("cut", "whole"))
    assert len(cut) == len(whole)
    # At the ends frames are cut off or repeated, of latents here and of sound there; and most
    # of what so short a voice says is the pause behind it.
    inner = slice(40, len(cut) // 8)
    assert cut[inner].std() > 0.01
    np.testing.assert_allclose(cut[inner], whole[inner], atol=1e-5)
    in_windows = sound(tmp_path / "cut", "tiny", size=7)
    np.testing.assert_allclose(in_windows, cut, atol=1e-5)


def test_a_flow_that_reaches_too_far_is_left_whole_with_its_durations(tmp_path: Path) -> None:
    model = made(TinyVoice(flow_reach=90).write(tmp_path), tmp_path / "out")
    assert model.whole
    assert (model.hop, model.channels, model.context_frames) == (4, 4, 0)
    assert model.durations == "durations"
    assert not (tmp_path / "out" / CODE2WAV_FILE).exists()
    try_out(tmp_path / "out")
    talker = PiperTalker(tmp_path / "out", 1)
    draft = talker.draft(TEXT, 1.0, "tiny")
    assert draft is not None
    words = draft.next(draft.left).words
    assert [word.text for word in words] == TEXT.split()
    assert all(word.start_ms < word.end_ms for word in words)


def test_without_durations_the_times_of_words_are_guessed(tmp_path: Path) -> None:
    model = made(TinyVoice(rounds="Round").write(tmp_path), tmp_path / "out")
    assert model.whole
    assert (model.durations, model.hop) == ("", intake.HOP)
    draft = PiperTalker(tmp_path / "out", 1).draft(TEXT, 1.0, "tiny")
    assert draft is not None
    frames = draft.left
    words = draft.next(frames).words
    assert [word.text for word in words] == TEXT.split()
    assert words[0].start_ms < words[-1].end_ms <= frames * model.frame_ms


def test_each_speaker_is_a_voice(tmp_path: Path) -> None:
    called = {"ann": 0, "bob": 1, "not a name": 2}
    files = TinyVoice(speakers=3).write(tmp_path, speaker_id_map=called)
    model = made(files, tmp_path / "out")
    assert model.voices == ("tiny:ann", "tiny:bob", "tiny:2")
    assert model.speakers == {"tiny:ann": 0, "tiny:bob": 1, "tiny:2": 2}
    try_out(tmp_path / "out")
    ann, bob = (sound(tmp_path / "out", voice) for voice in model.voices[:2])
    assert len(ann) != len(bob) or not np.allclose(ann, bob)


def test_only_the_first_of_many_speakers_are_voices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(description_module, "SPEAKERS", 2)
    model = made(TinyVoice(speakers=3).write(tmp_path), tmp_path / "out")
    assert model.voices == ("tiny:0", "tiny:1")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"phoneme_type": "text"}, "expected a voice with phoneme_type espeak, got text"),
        ({"phoneme_id_map": {"_": [0], "^": [1]}}, r"expected phoneme_id_map with \$"),
        ({"phoneme_id_map": {"_": [0], "^": [1], "$": [2]}}, "phoneme_id_map with phonemes"),
        ({"phoneme_id_map": ID_MAP | {"x": [10_000]}}, "can't be run on phoneme ids"),
        ({"phoneme_id_map": "abc"}, r"not one of Piper: .*phoneme_id_map"),
        ({"audio": {"sample_rate": 1}}, r"not one of Piper: .*sample_rate"),
        ({"inference": {"length_scale": 0}}, r"not one of Piper: .*length_scale"),
        ({"espeak": {}}, r"not one of Piper: .*voice"),
        ({"num_speakers": 3}, "expected a graph with the inputs input, .*sid, got input"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(
    changed: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(StageFailure, match=f"voice_unusable: .*{said}"):
        made(TinyVoice().write(tmp_path, **changed), tmp_path / "out")


def nothing(graph: bytes) -> bytes:
    return b""


def something_else(graph: bytes) -> bytes:
    return b"\x00\x01garbage" * 50


def truncated(graph: bytes) -> bytes:
    return graph[: len(graph) // 2]


def other_operators(graph: bytes) -> bytes:
    return changed_model(graph, lambda model: setattr(model.graph.node[3], "domain", "com.x"))


def other_domain(graph: bytes) -> bytes:
    def change(model: Any) -> None:
        model.opset_import.add(domain="com.x", version=1)

    return changed_model(graph, change)


def outside_data(graph: bytes) -> bytes:
    def change(model: Any) -> None:
        weight = model.graph.initializer[0]
        weight.ClearField("raw_data")
        weight.data_location = 1
        weight.external_data.add(key="location", value="/etc/passwd")

    return changed_model(graph, change)


def outside_data_within(graph: bytes) -> bytes:
    """In a branch of a node, where nobody looks."""

    def change(model: Any) -> None:
        attribute = model.graph.node[0].attribute.add(name="branch", type=5)
        weight = attribute.g.initializer.add(name="w", data_type=1, data_location=1)
        weight.external_data.add(key="location", value="../secret")

    return changed_model(graph, change)


def other_types(graph: bytes) -> bytes:
    def change(model: Any) -> None:
        model.graph.node[5].op_type = "Shape"

    return changed_model(graph, change)


def changed_model(graph: bytes, change: Callable[[Any], None]) -> bytes:
    import onnx

    model = onnx.load_model_from_string(graph)
    change(model)
    content: bytes = model.SerializeToString()
    return content


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (nothing, "expected an ONNX graph"),
        (something_else, "expected an ONNX graph"),
        (truncated, "expected an ONNX graph"),
        (other_operators, "ONNX's own operators alone"),
        (other_domain, "ONNX's own operators alone"),
        (outside_data, "without external data"),
        (outside_data_within, "without external data"),
        (other_types, "the graph can't be"),
    ],
)
def test_a_graph_that_nobody_should_load_is_refused(
    change: Callable[[bytes], bytes], said: str, tmp_path: Path
) -> None:
    graph, described = TinyVoice().write(tmp_path)
    graph.write_bytes(change(graph.read_bytes()))
    with pytest.raises(StageFailure, match=f"voice_unusable: .*{said}"):
        made((graph, described), tmp_path / "out")


def test_too_large_a_graph_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "GRAPH_BYTES", 1 << 20)
    graph, _ = TinyVoice().write(tmp_path)
    graph.write_bytes(bytes(2 << 20))
    with pytest.raises(StageFailure, match="at most 1 MiB, got 2 MiB"):
        read_graph(graph)


def test_a_voice_that_makes_no_numbers_fails_its_trial(tmp_path: Path) -> None:
    voice = TinyVoice(rounds="Round")
    graph = voice.model()
    node = next(node for node in graph.graph.node if node.op_type == "Tanh")
    # The logarithm of what is mostly negative.
    node.op_type = "Log"
    made(voice.write(tmp_path, model=graph), tmp_path / "out")
    with pytest.raises(StageFailure, match="voice_unusable: the voice makes no sound"):
        try_out(tmp_path / "out")


def test_a_language_that_espeak_lacks_fails_the_trial(tmp_path: Path) -> None:
    made(TinyVoice().write(tmp_path, espeak={"voice": "xx-nowhere"}), tmp_path / "out")
    with pytest.raises(StageFailure, match="voice_unusable: the voice can't say '1 2 3'"):
        try_out(tmp_path / "out")


@pytest.mark.parametrize(
    ("said", "language"),
    [
        ({"language": {"family": "de", "code": "de_DE"}}, "de"),
        ({"language": {"code": "pt_BR"}}, "pt"),
        ({"language": {}, "espeak": {"voice": "en-gb-x-rp"}}, "en"),
        ({"language": {}, "espeak": {"voice": "cmn"}}, "zh"),
        ({"language": {"family": "?"}}, "und"),
    ],
)
def test_the_language_of_a_voice(said: dict[str, Any], language: str, tmp_path: Path) -> None:
    assert made(TinyVoice().write(tmp_path, **said), tmp_path / "out").language == language


def test_a_process_prepares_and_tries_a_voice(tmp_path: Path) -> None:
    graph, described = TinyVoice().write(tmp_path)
    (tmp_path / "out").mkdir()
    asyncio.run(prepared(graph, described, tmp_path / "out", "zoe"))
    assert read_model(tmp_path / "out").voices == ("zoe",)
    described.write_text(json.dumps(description(phoneme_type="text")))
    with pytest.raises(StageFailure, match="voice_unusable: expected a voice with phoneme_type"):
        asyncio.run(prepared(graph, described, tmp_path / "out", "zoe"))


def test_a_process_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "SECONDS", 0.0)
    with pytest.raises(StageFailure, match="voice_unusable: the voice took more than 0 s"):
        asyncio.run(prepared(*TinyVoice().write(tmp_path), tmp_path, "zoe"))


def test_a_process_that_dies_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "__name__", "antiphon.engines.speech.voices.family")
    with pytest.raises(StageFailure, match="voice_unusable: preparing the voice failed"):
        asyncio.run(prepared(*TinyVoice().write(tmp_path), tmp_path, "zoe"))


@pytest.mark.models
def test_the_embedded_voice_is_found_in_its_whole_graph(tmp_path: Path) -> None:
    graph, described = write_joe(tmp_path)
    cut = find_cut(read_graph(graph))
    assert cut is not None
    assert (cut.prior, cut.latents) == ("/Add_output_0", "/Mul_7_output_0")
    assert (cut.mask, cut.durations) == ("/Cast_2_output_0", "/Ceil_output_0")
    assert (cut.channels, cut.hop) == (192, 256)
    model = made((graph, described), tmp_path / "out", "jim")
    assert [step.context_frames for step in model.flow] == [8, 8, 8, 8]
    assert model.context_frames == 10
    assert model.joint is not None
    assert (model.joint.rate, model.joint.context) == (8, 8)
    assert not model.whole
    assert (tmp_path / "out" / FRONT_FILE).exists()
