"""What the demo prints: aligned, line by line, as the conversation goes on."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

from ..engines.chunks import Word
from .demo_timeline import (
    STAGES,
    Interruption,
    Reply,
    Story,
    Turn,
    interruption,
    median_ms,
    metric,
)
from .demo_words import WordErrors

LABEL_COLUMNS = 17
WIDEST = 100
"""Columns of text; a wider terminal makes it no easier to read."""

_STYLES = {"bold": "1", "dim": "2", "person": "36", "reply": "33", "cut": "31", "good": "32"}


class Report:
    """Prints one conversation. Colours only where a terminal reads it."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._colours = self._out.isatty()
        self._columns = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
        self._started = time.monotonic()
        self._speaking: str | None = None
        """Id of the reply whose words are being printed."""

        self._column = 0
        self._turns = 0

    def step(self, text: str) -> None:
        """Say what is being prepared."""
        seconds = time.monotonic() - self._started
        self._line(self._styled(f"[{seconds:5.1f} s] {text}", "dim"))

    def server_said(self, line: str) -> None:
        """Pass on what the server's process printed."""
        self._line(self._styled(f"{'server':>9} {line}", "dim"))

    # As the conversation goes on.

    def began(self, turn: Turn) -> None:
        """The person speaks."""
        self._turns += 1
        self._line()
        self._row(str(self._turns), turn.text, "bold")

    def heard(self, turn: Turn, text: str) -> None:
        """The server has understood something."""
        self._row("heard", text or "(nothing)", "person")

    def sounded(self, reply: Reply, word: Word) -> None:
        """A word of the reply sounds."""
        if self._speaking != reply.response_id:
            self._end_words()
            self._speaking = reply.response_id
            self._write(self._label("answer"))
            self._column = LABEL_COLUMNS
        if self._column + len(word.text) + 1 > self._columns:
            self._write("\n" + " " * LABEL_COLUMNS)
            self._column = LABEL_COLUMNS
        self._column += len(word.text) + 1
        self._write(self._styled(word.text, "reply") + " ")

    def cut(self, turn: Turn) -> None:
        """The reply to a turn falls silent."""
        reply = turn.reply
        if reply is None:
            return
        if self._speaking == reply.response_id:
            self._write(self._styled("✂", "cut"))
        self._end_words()
        if reply.unheard_text:
            self._row("not heard", reply.unheard_text, "dim")
        self._row("", f"heard {_s(reply.heard_ms)} of the {_s(reply.received_ms)} received", "dim")
        self.answered(turn)

    def answered(self, turn: Turn) -> None:
        """All is known of how fast a turn was answered."""
        self._end_words()
        found = interruption(turn)
        if found is not None:
            self._interrupted(found)
        if turn.reply is None or turn.latency_ms is None:
            self._row("answer", "(no speech)", "cut")
            return
        latency = self._styled(f"{turn.latency_ms:.0f} ms", "good")
        self._row("latency", f"{latency} from the end of the last word to the first sound")
        split = " + ".join(f"{name} {metric(turn.reply, name):.0f}" for name in STAGES)
        total = turn.reply.metrics.get("total_ms") or 0.0
        self._row("server", f"{total:.0f} ms = {split}", "dim")

    def listened(self, number: int, said: str, heard: str, errors: WordErrors) -> None:
        """What was understood of the audio of a reply."""
        self._row(str(number), said, "reply")
        right = "good" if errors.errors == 0 else "cut"
        self._row("whisper", heard or "(nothing)")
        share = f"{errors.errors} of {errors.words} words wrong ({100 * errors.rate:.1f}%)"
        self._row("", self._styled(share, right))

    def heading(self, text: str) -> None:
        """Begin a part."""
        self._line()
        self._line(self._styled(text, "bold"))

    # At the end.

    def summary(self, story: Story, errors: WordErrors) -> None:
        """Sum up."""
        self.heading(f"In short ({story.model}, {len(story.turns)} turns, {_s(_length(story))})")
        replies = [reply for _, reply in story.replies()]
        middle = median_ms(turn.latency_ms for turn in story.turns)
        served = median_ms(reply.metrics.get("total_ms") for reply in replies)
        self._figure("last word → first sound, p50", middle)
        self._figure("the server's own count, p50", served)
        for name in STAGES:
            self._figure(f"  {name}", median_ms(metric(reply, name) for reply in replies))
        self._figure("clause → first audio, p50", median_ms(map(_clause_to_audio, replies)))
        cuts = [found for turn in story.turns if (found := interruption(turn))]
        self._figure("person speaks → noticed", median_ms(cut.noticed_ms for cut in cuts))
        self._figure("noticed → silence", median_ms(cut.silent_ms for cut in cuts), decimals=1)
        gaps = [gap for reply in replies for gap in story.playback.gaps(reply.response_id)]
        self._fact("gaps in the replies", f"{len(gaps):6}  ({1000 * sum(gaps):.0f} ms)")
        share = f"{100 * errors.rate:8.1f}%  ({errors.errors} of {errors.words})"
        self._fact("words of the replies heard wrong", share)

    def files(self, paths: list[str]) -> None:
        """Say where the results are."""
        self._line()
        for path in paths:
            self._line(f"  {path}")

    def _interrupted(self, found: Interruption) -> None:
        self._row(
            "interruption",
            f"{self._styled(f'{found.noticed_ms:.0f} ms', 'good')} from the first sound to "
            f"speech_started, {found.silent_ms:.1f} ms more to silence",
        )
        came = "after" if found.last_audio_ms >= 0 else "before"
        self._row(
            "",
            f"last audio of the old reply came {abs(found.last_audio_ms):.0f} ms {came} the "
            f"first sound; {found.late_bytes} bytes of it after speech_started",
            "dim",
        )

    def _figure(self, name: str, ms: float | None, decimals: int = 0) -> None:
        self._fact(name, "-" if ms is None else f"{ms:.{decimals}f} ms".rjust(9))

    def _fact(self, name: str, value: str) -> None:
        self._line(f"  {name:34}{value}")

    def _row(self, label: str, text: str, style: str | None = None) -> None:
        self._end_words()
        lines = _wrapped(text, self._columns - LABEL_COLUMNS)
        self._line(self._label(label) + self._styled(lines[0], style))
        for line in lines[1:]:
            self._line(" " * LABEL_COLUMNS + self._styled(line, style))

    def _label(self, label: str) -> str:
        if label.isdigit():
            return self._styled(f" {label:<{LABEL_COLUMNS - 1}}", "bold")
        return self._styled(f"   {label:<{LABEL_COLUMNS - 3}}", "dim")

    def _end_words(self) -> None:
        if self._speaking is not None:
            self._speaking = None
            self._write("\n")

    def _line(self, text: str = "") -> None:
        self._write(text + "\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def _styled(self, text: str, style: str | None) -> str:
        if style is None or not self._colours:
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def _wrapped(text: str, columns: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > columns:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _s(ms: float) -> str:
    return f"{ms / 1000:.1f} s"


def _length(story: Story) -> float:
    return 1000 * story.seconds


def _clause_to_audio(reply: Reply) -> float | None:
    return reply.metrics.get("clause_to_audio_ms")
