"""Whether a fused kernel is used: on a GPU where Triton works, and found out once a process.

Each kernel stands beside a reference in plain torch that gives the same values. The reference is
what runs on a CPU, where Triton is missing, in other dtypes, and where the kernel fails its trial:
a machine without a C compiler can't launch one, and a new Triton might get one wrong.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec

import torch
from torch import Tensor

log = logging.getLogger(__name__)

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
"""Of values that kernels take; they reckon in float32."""

_off = threading.local()


class Kernel:
    """One fused kernel and the verdict on it."""

    def __init__(self, name: str, trial: Callable[[torch.device], None]) -> None:
        """``trial`` runs the kernel on a device and compares it with the reference; it raises
        whatever it likes where the two differ or the kernel can't be run."""
        self.name = name
        self.trial = trial
        self._usable: bool | None = None
        self._lock = threading.Lock()

    def serves(self, values: Tensor) -> bool:
        """Whether it is to be used on ``values``. The first time that there could be use for it
        it is tried, which takes a second; never for the first time in the capture of a graph."""
        if not values.is_cuda or values.dtype not in DTYPES or getattr(_off, "all", False):
            return False
        if self._usable is None:
            with self._lock:
                if self._usable is None:
                    self._usable = self._tried(values.device)
        return self._usable

    def _tried(self, device: torch.device) -> bool:
        if find_spec("triton") is None:
            return False
        try:
            self.trial(device)
        except Exception as failure:  # Whatever a compiler or a driver raises.
            log.warning("kernel %s is not used: %s", self.name, str(failure).splitlines()[:1])
            return False
        return True


def device_of(values: Tensor) -> AbstractContextManager[object]:
    """Where Triton launches kernels is the current device, not that of what they are given."""
    return torch.cuda.device_of(values)  # type: ignore[no-untyped-call]


@contextmanager
def references_only() -> Generator[None]:
    """Use no kernel in this thread, to compare."""
    _off.all = True
    try:
        yield
    finally:
        _off.all = False


def agree(ours: Tensor, reference: Tensor, within: float = 1e-5) -> None:
    """See that a kernel gives what its reference gives.

    Raises:
        ArithmeticError: the largest difference is more than ``within`` of the largest value.
    """
    apart = (ours.float() - reference.float()).abs().max().item()
    if not apart <= within * max(1.0, reference.float().abs().max().item()):
        raise ArithmeticError(f"differs from the reference by {apart:.2g}")
