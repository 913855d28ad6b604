"""An LSTM that goes on where it was; that it does is shown by EnCodec's tests."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from antiphon.engines.speech.streaming.layer import Rate
from antiphon.engines.speech.streaming.recurrent import StreamLSTM


@pytest.mark.parametrize(
    "wrong", [{"bidirectional": True}, {"batch_first": True}, {"proj_size": 1}]
)
def test_another_kind_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="forwards"):
        StreamLSTM(nn.LSTM(2, 2, **wrong))


def test_nothing_may_come_ahead_of_the_start() -> None:
    with pytest.raises(ValueError, match="ahead of"):
        StreamLSTM(nn.LSTM(2, 2)).join(Rate(delay=1))
