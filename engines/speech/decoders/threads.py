"""How many threads torch uses for the work of one thread of ours."""

from __future__ import annotations

import sys
import threading

_used = threading.local()


def use_threads(count: int) -> None:
    """Let torch compute with ``count`` threads what this thread asks it for. Cheap if repeated.

    Does nothing as long as torch is not imported: no decoder made of it is loaded then.
    """
    if (torch := sys.modules.get("torch")) is None or getattr(_used, "count", None) == count:
        return
    torch.set_num_threads(count)
    _used.count = count
