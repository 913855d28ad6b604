"""What the whole server takes of the machine's memory."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.server import Server

from .line import line

pytestmark = [pytest.mark.models, pytest.mark.server, pytest.mark.timeout(180)]

LIMIT_GIB = 3.5
"""A laptop with 8 GiB has this much to spare beside a browser."""


def test_the_default_deployment_fits_a_small_machine(embedded_server: Server) -> None:
    async def main() -> None:
        async with line(embedded_server) as each:
            for question in ("Who are you?", "What can you do?"):
                await each.ask(question, aloud=True, max_output_tokens=60)
                done = await each.until("response.done")
                assert done["response"]["status"] in ("completed", "incomplete")

    asyncio.run(main())
    # Shared pages count once: each process has its share of them.
    used = sum(each.memory_full_info().pss for each in embedded_server.processes())
    assert 0.5 * 2**30 < used <= LIMIT_GIB * 2**30, f"{used / 2**30:.2f} GiB"
