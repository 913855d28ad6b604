# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
"""An ONNX graph on the CPU: the one file that imports onnxruntime for speech."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..chunks import StageError
from ..stage import StageFailure


class Graph:
    """A loaded graph; may be run from one thread at a time."""

    def __init__(self, path: Path, threads: int) -> None:
        """Load the graph; takes up to a second.

        Raises:
            StageFailure: onnxruntime is not installed, or can't read the file.
        """
        self._session = _load(path, threads)

    def run(
        self, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str]
    ) -> list[NDArray[np.float32]]:
        """The named outputs for these inputs, in the order asked for."""
        return list(self._session.run(list(outputs), dict(inputs)))


def _load(path: Path, threads: int) -> Any:
    try:
        import onnxruntime
    except ImportError:
        hint = "onnxruntime is not installed: run `pip install 'antiphon[speech]'`"
        raise StageFailure(StageError("package_missing", hint)) from None
    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # What it warns of is how a graph was written, which nobody here can change.
    options.log_severity_level = 3
    # A spinning pool would take the core that the next stage needs.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception:
        # onnxruntime's own exceptions share no base class.
        hint = f"{path.name} cannot be loaded: fetch the model again"
        raise StageFailure(StageError("model_unusable", hint)) from None
