"""``GET /metrics``: what the server counts, in the Prometheus text format.

Everything is read when it is asked for; nothing here is kept, and no registry of the process
is touched. Names are ``antiphon_<thing>_<unit>``, in seconds and bytes. Labels have few values,
known ahead: no id and no text of anybody is among them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from prometheus_client import ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from ..engines.pipeline import Pipeline
from ..realtime.service import RealtimeService
from .measures import Histogram, Measures
from .watchdog import Watchdog

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

REPLICA = "0"
"""Each stage has one."""

COUNTERS = frozenset(
    {
        "admitted",
        "audio_seconds",
        "batched",
        "batches",
        "busy_seconds",
        "cached_tokens",
        "chunks",
        "clauses",
        "deadline_misses",
        "delayed",
        "delayed_ms",
        "dropped",
        "dropped_tokens",
        "frames",
        "input_tokens",
        "late_ms",
        "output_tokens",
        "partials",
        "recordings",
        "refused",
        "requests",
        "restarts",
        "samples",
        "second_tries",
        "slow_audio_seconds",
        "taken",
        "truncated",
        "underrun_ms",
        "underruns",
        "utterances",
        "waited_ms",
        "warmed",
    }
)
"""Numbers of stages that only grow; all others are gauges."""

ENDED = "streams_"
"""How the names of streams begin that have ended, which are counted as well."""

SIZED = re.compile(r"(?P<what>\w+)_of_(?P<frames>\d+)")
"""Counters of one thing by its size: the size becomes a label."""

Labels: TypeAlias = dict[str, str]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers of one kind, each with its labels."""

    name: str
    about: str
    counted: bool
    """Whether they only grow."""

    values: tuple[tuple[Labels, float], ...]

    def family(self) -> Metric:
        """As the library has it."""
        kind = CounterMetricFamily if self.counted else GaugeMetricFamily
        labels, _ = self.values[0]
        family = kind(self.name, self.about, labels=list(labels))
        for each, value in self.values:
            family.add_metric(list(each.values()), value)
        return family


class Metrics:
    """The metrics of one server."""

    def __init__(
        self,
        measures: Measures,
        service: RealtimeService,
        pipeline: Pipeline,
        watchdog: Watchdog,
        lags: Histogram,
    ) -> None:
        """``lags``: lateness of the event loop, seconds, never forgotten."""
        self._measures = measures
        self._service = service
        self._pipeline = pipeline
        self._watchdog = watchdog
        self._lags = lags
        self._process = ProcessCollector(namespace="antiphon", registry=None)

    def scrape(self) -> bytes:
        """Return everything as it is now; its type is :data:`CONTENT_TYPE`."""
        return generate_latest(_Collected(self._families()))

    def _families(self) -> Iterator[Metric]:
        yield from self._sessions()
        yield from self._responses()
        yield from self._listeners()
        yield from self._stages()
        yield from self._loop()
        yield from self._process.collect()

    def _sessions(self) -> Iterator[Metric]:
        service = self._service
        yield _one("antiphon_sessions_open", "Sessions now.", service.open_sessions)
        yield _one("antiphon_sessions_opened", "Sessions since the start.", service.opened, True)
        for name, value in service.totals().items():
            yield _one(
                f"antiphon_session_{name}",
                f"{name.replace('_', ' ').capitalize()} of sessions.",
                value,
                True,
            )

    def _responses(self) -> Iterator[Metric]:
        measures = self._measures
        yield Numbers(
            "antiphon_responses",
            "Responses that have ended, by how.",
            True,
            _by("outcome", measures.outcomes),
        ).family()
        yield _histogram(
            "antiphon_first_audio_seconds",
            "From the end of speech, or the creation of the response, to its first audio.",
            {"": measures.first_audio},
        )
        yield _histogram(
            "antiphon_turn_part_seconds",
            "Where the time of a spoken turn went.",
            measures.parts,
            "part",
        )
        yield _histogram(
            "antiphon_chunk_audio_seconds", "Audio of one chunk.", {"": measures.chunks}
        )

    def _listeners(self) -> Iterator[Metric]:
        measures = self._measures
        yield _histogram(
            "antiphon_lead_min_seconds",
            "The least that the listener of a response had left as a chunk was written.",
            {"": measures.lead_min},
        )
        yield _histogram(
            "antiphon_lead_max_seconds", "The most that it had left.", {"": measures.lead_max}
        )
        heard = measures.listening
        for name, about, values in (
            ("spoken_responses", "Responses heard.", {n: h.responses for n, h in heard.items()}),
            (
                "continuous_responses",
                "Responses with gaps of less than 100 ms in all.",
                {n: h.continuous for n, h in heard.items()},
            ),
            ("underruns", "Times a listener ran dry.", {n: h.underruns for n, h in heard.items()}),
            (
                "underrun_seconds",
                "Silence that listeners heard inside responses.",
                {n: h.gap_seconds for n, h in heard.items()},
            ),
        ):
            yield Numbers(f"antiphon_{name}", about, True, _by("source", values)).family()
        yield Numbers(
            "antiphon_audio_seconds", "Audio of responses.", True, _by("state", measures.seconds)
        ).family()
        yield Numbers(
            "antiphon_unheard_seconds",
            "Audio generated and never heard.",
            True,
            _by("response", measures.unheard),
        ).family()

    def _stages(self) -> Iterator[Metric]:
        states = self._pipeline.readiness.stages
        ready = tuple((_stage(name), float(state == "ready")) for name, state in states.items())
        if ready:
            about = "Whether a stage would serve a request at full speed."
            yield Numbers("antiphon_stage_ready", about, False, ready).family()
        yield from (each.family() for each in stage_numbers(self._pipeline.statistics(), states))

    def _loop(self) -> Iterator[Metric]:
        yield _histogram(
            "antiphon_event_loop_lag_seconds", "How late the event loop is.", {"": self._lags}
        )
        worst_s = self._watchdog.statistics().worst_ms / 1000
        about = "The latest it was since the statistics were last reset."
        yield _one("antiphon_event_loop_lag_max_seconds", about, worst_s)


def stage_numbers(
    statistics: Mapping[str, Mapping[str, float]], stages: Iterable[str]
) -> list[Numbers]:
    """Sort the numbers of stages by name; those of what is no stage have no labels.

    ``ms`` become seconds: ``waited_ms`` of a stage is ``antiphon_stage_waited_seconds``,
    ``delayed_ms`` of ``reply`` is ``antiphon_reply_delayed_seconds``. ``chunks_of_4`` is
    ``antiphon_stage_chunks_by_frames`` with the label ``frames="4"``.
    """
    known = frozenset(stages)
    found: dict[str, list[tuple[Labels, float]]] = {}
    kinds: dict[str, tuple[str, bool]] = {}
    for owner, numbers in statistics.items():
        prefix, labels = ("stage", _stage(owner)) if owner in known else (owner, {})
        for name, value in numbers.items():
            thing, size, scale = _thing(name)
            metric = re.sub(r"[^a-zA-Z0-9_]", "_", f"antiphon_{prefix}_{thing}")
            found.setdefault(metric, []).append((labels | size, value * scale))
            kinds[metric] = (_about(thing), _grows(name))
    return [Numbers(metric, *kinds[metric], tuple(values)) for metric, values in found.items()]


class _Collected(Collector):
    """What the library encodes."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _stage(name: str) -> Labels:
    return {"stage": name, "replica": REPLICA}


def _thing(name: str) -> tuple[str, Labels, float]:
    """What a number is of, its label where it is one of several, and its factor."""
    if sized := SIZED.fullmatch(name):
        return f"{sized['what']}_by_frames", {"frames": sized["frames"]}, 1.0
    if name.endswith("_ms"):
        return f"{name.removesuffix('_ms')}_seconds", {}, 1e-3
    return name, {}, 1.0


def _grows(name: str) -> bool:
    return name in COUNTERS or name.startswith(ENDED) or bool(SIZED.fullmatch(name))


def _about(name: str) -> str:
    return f"{name.replace('_', ' ').capitalize()}."


def _by(label: str, values: Mapping[str, float]) -> tuple[tuple[Labels, float], ...]:
    return tuple(({label: name}, float(value)) for name, value in values.items())


def _one(name: str, about: str, value: float, counted: bool = False) -> Metric:
    return Numbers(name, about, counted, (({}, float(value)),)).family()


def _bound(value: float) -> str:
    return "+Inf" if value == math.inf else str(value)


def _histogram(
    name: str, about: str, values: Mapping[str, Histogram], label: str | None = None
) -> Metric:
    """A histogram of the library; with a ``label``, one for each of its values."""
    family = HistogramMetricFamily(name, about, labels=[label] if label else [])
    for value, each in values.items():
        buckets = [(_bound(bound), float(count)) for bound, count in each.cumulative()]
        family.add_metric([value] if label else [], buckets, each.total)
    return family
