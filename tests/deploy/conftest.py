"""Models that learn in tests do so on one thread: threads that wait for each other on a busy
machine take many times as long."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
