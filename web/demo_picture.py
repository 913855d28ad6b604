# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false
"""The conversation as a picture, like a score: the one file of the demo that draws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engines.pipeline import OUTPUT_RATE
from .demo_timeline import (
    STAGES,
    Reply,
    SoundingWord,
    Story,
    Turn,
    median_ms,
    played_words,
    said_words,
    spans,
)

PAPER, INK, FAINT, GHOST = "#fcfbf8", "#2b2d33", "#8d8a84", "#cfcac0"
PERSON, REPLY, CUT = "#22577a", "#c8553d", "#a4161a"
STAGE_COLOURS = ("#f2c14e", "#a7c957", "#52b69a", "#3a86a8", "#7a6fb0", "#c77dba")
COLOURS: dict[str, str] = dict(zip(STAGES, STAGE_COLOURS, strict=True))

LEAD_SECONDS = 0.35
"""Shown ahead of a turn's first sound, and after its last."""

LINE_SECONDS = (6.0, 13.0)
"""A line of the score is at least and at most so long; longer turns take several."""

BAR_SECONDS = 0.02
"""One bar of a waveform."""

HIGH, LOW = 1.0, -1.0
"""Where the person and the reply are, on the vertical axis of a line."""

LINE_INCHES, BARS_INCHES, HEAD_INCHES = 2.35, 0.5, 1.35
WIDTH_INCHES, LEFT_INCHES, RIGHT_INCHES = 17.0, 1.25, 0.45
WORD_POINTS = 9.5


@dataclass(frozen=True, slots=True)
class Stretch:
    """A line of the score: a turn, or a part of one."""

    number: int
    """Of the turn, from 1."""

    starts_at: float
    ends_at: float
    """Of what is shown; the line itself may be longer."""


def stretches(turns: Sequence[Turn], seconds: float) -> tuple[list[Stretch], float]:
    """Cut a conversation of so many seconds into lines; return them and their length."""
    begins = [max(0.0, turn.starts_at - LEAD_SECONDS) for turn in turns]
    ends = [_shown_until(turn, after) for turn, after in zip(turns, turns[1:], strict=False)]
    parts = list(zip(begins, [*ends, seconds], strict=True))
    lines = [line for number, part in enumerate(parts, 1) for line in _lines_of(number, *part)]
    longest = max((line.ends_at - line.starts_at for line in lines), default=0.0)
    return lines, max(longest, LINE_SECONDS[0])


def _lines_of(number: int, begin: float, end: float) -> list[Stretch]:
    count = max(1, math.ceil((end - begin) / LINE_SECONDS[1]))
    length = (end - begin) / count
    starts = [begin + length * index for index in range(count)]
    return [Stretch(number, start, start + length) for start in starts]


def _shown_until(turn: Turn, after: Turn) -> float:
    """A turn ends where the next begins, or, cut into, a little after it fell silent."""
    cut = after.interrupted
    if cut is not None and cut is turn.reply and cut.cut_at is not None:
        return cut.cut_at + 2 * LEAD_SECONDS
    return max(turn.starts_at, after.starts_at - LEAD_SECONDS)


def draw(story: Story, path: Path) -> None:
    """Write the picture as a PNG file.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines, length = stretches(story.turns, story.seconds)
    measured = [(n, turn) for n, turn in enumerate(story.turns, 1) if turn.latency_ms is not None]
    bars = BARS_INCHES * len(measured) + 1.3
    height = HEAD_INCHES + LINE_INCHES * len(lines) + bars
    figure: Any = Figure(figsize=(WIDTH_INCHES, height), dpi=130, facecolor=PAPER)
    FigureCanvasAgg(figure)
    _head(figure, story, height)
    for index, line in enumerate(lines):
        top = height - HEAD_INCHES - LINE_INCHES * index
        axes = _axes(figure, height, top, LINE_INCHES - 0.45)
        _Line(axes, story, line, length).draw()
    if measured:
        top = bars - 0.55
        _breakdown(_axes(figure, height, top, BARS_INCHES * len(measured)), measured)
    figure.savefig(path, facecolor=PAPER)


def _axes(figure: Any, height: float, top: float, inches: float) -> Any:
    left, right = LEFT_INCHES / WIDTH_INCHES, 1 - RIGHT_INCHES / WIDTH_INCHES
    axes = figure.add_axes((left, (top - inches) / height, right - left, inches / height))
    axes.set_facecolor("none")
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_yticks([])
    return axes


def _head(figure: Any, story: Story, height: float) -> None:
    def put(x: float, y: float, text: str, **style: Any) -> None:
        figure.text(x / WIDTH_INCHES, 1 - y / height, text, va="center", **style)

    put(0.45, 0.42, "A conversation by voice", fontsize=21, color=INK, fontweight="bold")
    facts = [story.model, f"{len(story.turns)} turns in {story.seconds:.0f} s"]
    middle = median_ms(turn.latency_ms for turn in story.turns)
    if middle is not None:
        facts.append(f"{middle:.0f} ms from the last word to the reply (p50)")
    put(0.45, 0.80, "   ·   ".join(facts), fontsize=11.5, color=FAINT)
    x = WIDTH_INCHES - 0.45 - 1.32 * len(STAGES)
    put(x, 0.42, "what the server is doing", fontsize=10, color=FAINT)
    for name in STAGES:
        put(x, 0.80, "■", fontsize=14, color=COLOURS[name])
        put(x + 0.2, 0.80, name, fontsize=10, color=INK)
        x += 1.32


class _Line:
    """Draws one line of the score."""

    def __init__(self, axes: Any, story: Story, line: Stretch, length: float) -> None:
        self._axes = axes
        self._story = story
        self._line = line
        self._length = length

    def draw(self) -> None:
        """Draw all of it."""
        axes, line = self._axes, self._line
        axes.set_xlim(line.starts_at, line.starts_at + self._length)
        axes.set_ylim(-2.15, 2.05)
        self._time_axis()
        for level, name, colour in ((HIGH, "person", PERSON), (LOW, "Antiphon", REPLY)):
            axes.plot(
                [line.starts_at, line.ends_at], [level, level], color=colour, lw=0.6, alpha=0.35
            )
            axes.annotate(
                name,
                (0, level),
                xycoords=("axes fraction", "data"),
                xytext=(-10, 0),
                textcoords="offset points",
                ha="right",
                va="center",
                color=colour,
                fontsize=11,
                fontweight="bold",
            )
        self._spans()
        self._waves()
        for turn in self._story.turns:
            self._turn(turn)

    def _time_axis(self) -> None:
        axes, line = self._axes, self._line
        ticks = range(math.ceil(line.starts_at), math.floor(line.ends_at) + 1)
        axes.set_xticks(list(ticks), [f"{tick} s" for tick in ticks])
        axes.tick_params(axis="x", length=0, labelsize=8.5, labelcolor=FAINT, pad=2)
        for tick in ticks:
            axes.axvline(tick, color=GHOST, lw=0.5, alpha=0.55, zorder=0)

    def _spans(self) -> None:
        for _, reply in self._story.replies():
            for span in spans(reply):
                begin, end = self._clip(span.starts_at, span.ends_at)
                if end > begin:
                    self._axes.axvspan(
                        begin, end, 0.06, 0.94, color=COLOURS[span.name], alpha=0.62, lw=0, zorder=1
                    )

    def _waves(self) -> None:
        story = self._story
        self._wave(story.person, 0.0, HIGH, PERSON)
        self._wave(story.reply_track, 0.0, LOW, REPLY)
        for turn in story.turns:
            cut = turn.interrupted
            if cut is not None and cut.cut_at is not None:
                unheard = np.frombuffer(cut.unheard_pcm, "<i2")
                after = turn.reply.first_audio_at if turn.reply else None
                if after is not None:
                    # The same place in the line is the next reply's from here on.
                    unheard = unheard[: round((after - cut.cut_at) * OUTPUT_RATE)]
                self._wave(unheard, cut.cut_at, LOW, GHOST)

    def _wave(self, samples: NDArray[np.int16], starts_at: float, level: float, col: str) -> None:
        begin, end = self._clip(starts_at, starts_at + len(samples) / OUTPUT_RATE)
        first = max(0, round((begin - starts_at) * OUTPUT_RATE))
        peaks = _peaks(samples[first : round((end - starts_at) * OUTPUT_RATE)])
        at = begin + BAR_SECONDS * (np.arange(len(peaks)) + 0.5)
        loud = peaks > 0.004
        half = 0.06 + 0.62 * np.sqrt(peaks[loud])
        self._axes.vlines(
            at[loud], level - half, level + half, color=col, lw=1.7, capstyle="round", zorder=3
        )

    def _turn(self, turn: Turn) -> None:
        self._words(said_words(turn), HIGH - 0.80, PERSON)
        for index, at in enumerate(turn.speech_started_at):
            if self._shows(at):
                self._mark(at, 1.72, "v", PERSON, "" if index else "speech_started")
        reply = turn.reply
        if reply is not None:
            self._words(played_words(reply, self._story.playback), LOW - 0.86, REPLY)
            self._first_audio(turn, reply)
        cut = turn.interrupted
        if cut is not None and cut.cut_at is not None and self._shows(cut.cut_at):
            self._cut(cut.cut_at, cut, turn)

    def _mark(self, at: float, level: float, marker: str, colour: str, label: str) -> None:
        self._axes.plot([at], [level], marker, color=colour, ms=6, zorder=5)
        self._axes.annotate(
            label,
            (at, level),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=colour,
        )

    def _first_audio(self, turn: Turn, reply: Reply) -> None:
        at = reply.first_audio_at
        if at is None or turn.latency_ms is None or not self._shows(at):
            return
        axes = self._axes
        axes.plot([at, at], [LOW - 0.7, 0.18], color=REPLY, lw=1.2, zorder=4)
        axes.plot([at], [-0.05], "o", color=REPLY, ms=5.5, zorder=5)
        self._last_word(turn, at)
        axes.annotate(
            f"first audio after {turn.latency_ms:.0f} ms",
            (at, -0.05),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=9.5,
            color=REPLY,
            fontweight="bold",
        )

    def _last_word(self, turn: Turn, reached: float) -> None:
        if self._shows(turn.last_word_at):
            self._axes.annotate(
                "",
                (reached, -0.05),
                xytext=(turn.last_word_at, -0.05),
                arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.1, "shrinkB": 3},
                zorder=5,
            )
            self._axes.plot([turn.last_word_at] * 2, [-0.2, 0.1], color=INK, lw=1.3, zorder=5)

    def _cut(self, at: float, reply: Reply, by: Turn) -> None:
        self._axes.plot([at, at], [LOW - 0.95, 1.6], color=CUT, lw=1.4, ls=(0, (4, 2)), zorder=5)
        label = f"✂ interrupted: {reply.heard_ms / 1000:.1f} s heard, the rest never"
        here = self._story.turns[self._line.number - 1]
        self._axes.annotate(
            "✂" if here is by else label,
            (at, LOW - 0.86),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9.5,
            color=CUT,
            fontweight="bold",
        )

    def _words(self, words: Iterable[SoundingWord], level: float, colour: str) -> None:
        free_at = 0.0
        for word in words:
            if self._shows(word.starts_at):
                # Short words are wider than long; those behind them give way.
                at = max(word.starts_at, free_at)
                free_at = at + self._width(f"{word.text} ")
                self._axes.text(
                    at,
                    level,
                    word.text,
                    ha="left",
                    va="center",
                    fontsize=WORD_POINTS,
                    color=colour,
                    zorder=6,
                )

    def _width(self, text: str) -> float:
        """How many seconds of the line a text takes."""
        from matplotlib.textpath import TextPath

        path: Any = TextPath((0, 0), text.replace(" ", "n"), size=WORD_POINTS)
        inches = float(path.get_extents().width) / 72
        return inches * self._length / (WIDTH_INCHES - LEFT_INCHES - RIGHT_INCHES)

    def _shows(self, at: float) -> bool:
        return self._line.starts_at <= at < self._line.ends_at

    def _clip(self, begin: float, end: float) -> tuple[float, float]:
        return max(begin, self._line.starts_at), min(end, self._line.ends_at)


def _peaks(samples: NDArray[np.int16]) -> NDArray[np.float64]:
    """The loudest sample of each bar, 0 to 1."""
    width = round(BAR_SECONDS * OUTPUT_RATE)
    whole = samples[: len(samples) // width * width].astype(np.float64)
    peaks: NDArray[np.float64] = np.abs(whole).reshape(-1, width).max(axis=1, initial=0)
    return peaks / 32768


def _breakdown(axes: Any, measured: Sequence[tuple[int, Turn]]) -> None:
    """One bar a turn: where the time went from the last word to the first audio."""
    for row, (number, turn) in enumerate(measured):
        reply = turn.reply
        assert reply is not None, "only answered turns are measured"
        total = turn.latency_ms or 0.0
        axes.barh(-row, total, height=0.6, color=GHOST, alpha=0.6, lw=0)
        for span in spans(reply):
            begin = 1000 * (span.starts_at - turn.last_word_at)
            axes.barh(-row, span.ms, left=begin, height=0.6, color=COLOURS[span.name], lw=0)
            if span.ms >= 22:
                middle = begin + span.ms / 2
                axes.text(middle, -row, f"{span.ms:.0f}", ha="center", va="center", fontsize=9)
        axes.text(total, -row, f"  {total:.0f} ms", va="center", fontsize=10, color=REPLY)
        axes.annotate(
            f"turn {number}",
            (0, -row),
            xycoords=("axes fraction", "data"),
            xytext=(-10, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=10,
            color=INK,
        )
    axes.set_ylim(-len(measured) + 0.4, 0.6)
    longest = max(turn.latency_ms or 0.0 for _, turn in measured)
    axes.set_xlim(min(0.0, -0.005 * longest), 1.12 * longest)
    axes.tick_params(axis="x", length=0, labelsize=8.5, labelcolor=FAINT)
    axes.set_title(
        "From the end of the last word to the first audio of the reply, ms",
        loc="left",
        fontsize=11,
        color=INK,
        fontweight="bold",
    )
