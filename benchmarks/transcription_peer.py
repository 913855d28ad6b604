"""faster-whisper by itself, in a process of its own: it reads files as its own examples do.

    python -m benchmarks.transcription_peer FOLDER

A line in is a file and a number of beams, as JSON; a line out is what was read, and the time that
took, the decoding of the file included.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

LINE_BYTES = 1 << 20


@dataclass(frozen=True)
class Read:
    """A file that was read."""

    text: str
    seconds: float
    cpu_seconds: float
    """Of all threads."""


@dataclass
class Peer:
    """The process; reads one file after the other."""

    process: asyncio.subprocess.Process

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, folder: Path) -> AsyncGenerator[Peer]:
        """Start it with the model in ``folder``, wait until that is loaded, stop it when left."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.transcription_peer", str(folder)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
        )
        try:
            assert process.stdout is not None
            await process.stdout.readline()
            yield cls(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def read(self, file: Path, beams: int) -> Read:
        """Have a file read.

        Raises:
            ValueError: it could not be.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(file), beams]).encode() + b"\n")
        if not (line := await self.process.stdout.readline()):
            raise ValueError("expected an answer of faster-whisper, which has ended")
        return Read(**json.loads(line))


def main() -> None:
    """Serve standard input."""
    from faster_whisper import WhisperModel

    model: Any = WhisperModel(sys.argv[1], compute_type="int8", local_files_only=True)
    print("ready", flush=True)
    for line in sys.stdin:
        file, beams = json.loads(line)
        began, spent = time.perf_counter(), time.process_time()
        segments, _ = model.transcribe(file, beam_size=beams)
        text = "".join(segment.text for segment in segments)
        read = Read(text, time.perf_counter() - began, time.process_time() - spent)
        print(json.dumps(asdict(read)), flush=True)


if __name__ == "__main__":
    main()
