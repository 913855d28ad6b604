import sys
from pathlib import Path

import pytest

from antiphon.engines.speech.graph import Graph
from antiphon.engines.stage import StageFailure


@pytest.mark.models
def test_a_file_that_is_no_graph_is_named_without_its_folder(tmp_path: Path) -> None:
    (tmp_path / "talker.onnx").write_bytes(b"not a graph")
    with pytest.raises(StageFailure, match="talker.onnx cannot be loaded") as caught:
        Graph(tmp_path / "talker.onnx", 1)
    assert caught.value.error.code == "model_unusable"
    assert str(tmp_path) not in caught.value.error.message


def test_without_onnxruntime_the_failure_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(StageFailure, match=r"pip install 'antiphon\[speech\]'"):
        Graph(tmp_path / "talker.onnx", 1)
