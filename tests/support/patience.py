"""Waiting for what other processes do: looks now and then, and leaves the CPU to them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable


async def patiently(is_so: Callable[[], bool], seconds: float = 30) -> None:
    """Return once a condition holds; fails when it takes longer."""
    async with asyncio.timeout(seconds):
        for _ in itertools.count():
            if is_so():
                return
            await asyncio.sleep(0.01)
