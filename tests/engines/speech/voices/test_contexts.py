from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.engines.speech.voices.contexts import TOLERANCE, context_error, require_context
from antiphon.engines.stage import StageFailure

CHANNELS = 3


def reaching(reach: int, hop: int) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """A graph whose frames reach so far, with ``hop`` samples each."""

    def run(frames: NDArray[np.float32]) -> NDArray[np.float32]:
        kernel = np.ones(2 * reach + 1) / (2 * reach + 1)
        made = [np.convolve(np.pad(each, reach), kernel, "valid") for each in frames]
        return np.repeat(np.array(made), hop, axis=1).astype(np.float32)

    return run


@pytest.mark.parametrize("hop", [1, 4])
@pytest.mark.parametrize(("context", "fits"), [(0, False), (4, False), (5, True), (9, True)])
def test_a_context_is_measured(hop: int, context: int, fits: bool) -> None:
    run = reaching(5, hop)
    assert (context_error(run, CHANNELS, context) <= TOLERANCE) == fits
    if fits:
        require_context("context_frames", run, CHANNELS, context)
        return
    with pytest.raises(StageFailure, match=rf"at most 0\.001 with context_frames {context}, got"):
        require_context("context_frames", run, CHANNELS, context)


def test_a_graph_that_makes_no_numbers_is_refused() -> None:
    with pytest.raises(StageFailure, match="got nan"):
        require_context("context_frames", lambda frames: frames * np.nan, CHANNELS, 3)
