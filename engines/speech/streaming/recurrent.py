"""A recurrent layer that goes on where it was."""

from __future__ import annotations

from torch import Tensor, nn

from .layer import Extent, Rate, State, StreamLayer


class StreamLSTM(StreamLayer):
    """An LSTM in the layout of convolutions (Hochreiter and Schmidhuber 1997).

    What it has heard it can't unhear, so nothing may come ahead of a stream's start: it has to
    stand where nothing is delayed. What comes after a stream's end does no harm.

    Raises:
        ValueError: it goes both ways, or projects.
    """

    def __init__(self, lstm: nn.LSTM) -> None:
        super().__init__()
        if lstm.bidirectional or lstm.proj_size or lstm.batch_first:
            raise ValueError("expected a plain LSTM that goes forwards, time first")
        self.lstm = lstm

    def _joined(self, before: Rate) -> Rate:
        if before.delay:
            raise ValueError("an LSTM can't take in what comes ahead of a stream's start")
        return before

    def new_state(self, batch: int, like: Tensor) -> State:
        """What is remembered and what was said last, ``(batch, layers, hidden)`` each."""
        shape = (batch, self.lstm.num_layers, self.lstm.hidden_size)
        return [like.new_zeros(shape), like.new_zeros(shape)]

    def feed(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """Go on by a stretch; see :class:`~.layer.StreamLayer`."""
        said, kept = (part.transpose(0, 1).contiguous() for part in state)
        out: Tensor
        out, (said, kept) = self.lstm(values.permute(2, 0, 1), (said, kept))
        state[0].copy_(said.transpose(0, 1))
        state[1].copy_(kept.transpose(0, 1))
        return out.permute(1, 2, 0)
