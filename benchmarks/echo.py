"""The floor of the protocol benchmark: a server that sends each message back, and no more.

    python -m benchmarks.echo PORT

It is ``websockets`` alone on the loop of the server; a message ``stats`` is answered with how
late that loop is, and counted anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from dataclasses import asdict

import msgspec
import uvloop
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from antiphon.web.watchdog import Watchdog

STATS = "stats"


async def main(port: int) -> None:
    watchdog = Watchdog()
    watchdog.start()

    async def echo(socket: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for message in socket:
                if message == STATS:
                    await socket.send(msgspec.json.encode(asdict(watchdog.statistics())).decode())
                    watchdog.reset()
                else:
                    await socket.send(message)

    async with serve(echo, "127.0.0.1", port, compression=None, max_size=None) as server:
        # As the server does once it is ready.
        gc.collect()
        gc.freeze()
        print("ready", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    with (
        contextlib.suppress(KeyboardInterrupt),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(main(int(sys.argv[1])))
