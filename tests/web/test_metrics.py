"""The metrics: what is counted, under which names, and who may read them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import WebSocketTestSession
from tests.support.fakes import FakePipeline

from antiphon.engines.deployment import parse_deployment
from antiphon.realtime.connection import Measured
from antiphon.realtime.service import RealtimeService
from antiphon.sessions.effects import (
    ResponseDone,
    ResponseMeasured,
    ResponseStatus,
    ResponseView,
    TurnMeasured,
)
from antiphon.sessions.settings import AudioFormat, Modality
from antiphon.web.app import Server
from antiphon.web.measures import DELAYS, LAGS, Histogram, Measures
from antiphon.web.metrics import Metrics, stage_numbers
from antiphon.web.watchdog import Watchdog

from .visitor import Visitor

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

TURN = TurnMeasured(
    response_id="resp_secret",
    endpointing_ms=300,
    recognition_ms=40,
    first_token_ms=0,
    first_clause_ms=60,
    talker_ms=30,
    code2wav_ms=20,
    total_ms=450,
    clause_to_audio_ms=None,
)
RESPONSE = ResponseMeasured(
    response_id="resp_secret",
    ttfa_ms=150,
    chunks_ms=(40.0, 90.0, 370.0),
    generated_ms=5000,
    sent_ms=4000,
    played_ms=3000,
    unheard_ms=2000,
    lead_min_ms=30,
    lead_max_ms=3900,
    underruns=2,
    gap_ms=250,
    continuous=False,
    reported=True,
    interrupted=True,
)


def done(status: ResponseStatus) -> ResponseDone:
    view = ResponseView(
        id="resp_secret",
        status=status,
        modality=Modality.AUDIO,
        voice="joe",
        output_format=AudioFormat.PCM,
    )
    return ResponseDone(view)


def parsed(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scrape(*measured: Measured, pipeline: FakePipeline | None = None) -> str:
    measures, lags = Measures(), Histogram(LAGS)
    for each in measured:
        measures.note(each)
    pipeline = pipeline or FakePipeline()
    service = RealtimeService(parse_deployment({}), pipeline)
    return Metrics(measures, service, pipeline, Watchdog(), lags).scrape().decode()


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


# What is counted.


def test_a_histogram_counts_up_to_each_bound() -> None:
    histogram = Histogram((1.0, 2.0))
    for each in (0.5, 1.0, 1.5, 7.0):
        histogram.observe(each)
    assert histogram.cumulative() == [(1.0, 2), (2.0, 3), (float("inf"), 4)]
    assert histogram.total == 10.0


def test_responses_are_counted_by_how_they_end() -> None:
    samples = parsed(
        scrape(
            done(ResponseStatus.COMPLETED),
            done(ResponseStatus.COMPLETED),
            done(ResponseStatus.CANCELLED),
        )
    )
    found = {
        outcome: value(samples, "antiphon_responses_total", outcome=outcome)
        for outcome in ("completed", "cancelled", "incomplete", "failed")
    }
    assert found == {"completed": 2, "cancelled": 1, "incomplete": 0, "failed": 0}


def test_the_parts_of_a_turn_are_counted_where_they_are_known() -> None:
    samples = parsed(scrape(TURN, TURN))
    assert value(samples, "antiphon_turn_part_seconds_count", part="total") == 2
    assert value(samples, "antiphon_turn_part_seconds_sum", part="total") == pytest.approx(0.9)
    assert value(samples, "antiphon_turn_part_seconds_bucket", part="total", le="0.4") == 0
    assert value(samples, "antiphon_turn_part_seconds_bucket", part="total", le="0.5") == 2
    assert value(samples, "antiphon_turn_part_seconds_count", part="clause_to_audio") == 0


def test_what_listeners_heard_is_told() -> None:
    even = ResponseMeasured(
        response_id="other",
        ttfa_ms=None,
        chunks_ms=(),
        generated_ms=1000,
        sent_ms=1000,
        played_ms=1000,
        unheard_ms=0,
        lead_min_ms=0,
        lead_max_ms=500,
        underruns=0,
        gap_ms=0,
        continuous=True,
        reported=False,
        interrupted=False,
    )
    samples = parsed(scrape(RESPONSE, even))
    assert value(samples, "antiphon_first_audio_seconds_count") == 1
    assert value(samples, "antiphon_first_audio_seconds_sum") == pytest.approx(0.15)
    assert value(samples, "antiphon_chunk_audio_seconds_count") == 3
    assert value(samples, "antiphon_chunk_audio_seconds_sum") == pytest.approx(0.5)
    assert value(samples, "antiphon_lead_min_seconds_bucket", le="0.05") == 2
    assert value(samples, "antiphon_lead_max_seconds_bucket", le="0.5") == 1
    for source, responses, continuous in (("report", 1, 0), ("estimate", 1, 1)):
        count = value(samples, "antiphon_spoken_responses_total", source=source)
        good = value(samples, "antiphon_continuous_responses_total", source=source)
        assert (count, good) == (responses, continuous)
    assert value(samples, "antiphon_underruns_total", source="report") == 2
    assert value(samples, "antiphon_underrun_seconds_total", source="report") == 0.25
    assert value(samples, "antiphon_underrun_seconds_total", source="estimate") == 0
    assert value(samples, "antiphon_audio_seconds_total", state="generated") == 6
    assert value(samples, "antiphon_audio_seconds_total", state="sent") == 5
    assert value(samples, "antiphon_audio_seconds_total", state="played") == 4
    assert value(samples, "antiphon_unheard_seconds_total", response="interrupted") == 2
    assert value(samples, "antiphon_unheard_seconds_total", response="ended") == 0


def test_nothing_of_anybody_is_in_a_label() -> None:
    text = scrape(TURN, RESPONSE, done(ResponseStatus.FAILED))
    assert "antiphon_responses_total" in text
    assert "secret" not in text


def test_names_say_their_unit_and_whose_they_are() -> None:
    for name, _ in parsed(scrape(TURN, RESPONSE)):
        assert name.startswith("antiphon_")
        assert not name.endswith("_ms")


def test_the_process_tells_its_memory_and_its_time() -> None:
    samples = parsed(scrape())
    assert value(samples, "antiphon_process_resident_memory_bytes") > 2**20
    assert value(samples, "antiphon_process_cpu_seconds_total") > 0


# Stages.


def test_numbers_of_stages_are_sorted_by_name_and_told_in_seconds() -> None:
    statistics = {
        "talker": {"busy_seconds": 2.0, "jobs": 1.0, "waited_ms": 250.0},
        "code2wav": {"busy_seconds": 3.0, "pace_ms": 20.0},
        "reply": {"waiting": 4.0, "delayed_ms": 1500.0},
    }
    numbers = {each.name: each for each in stage_numbers(statistics, ["talker", "code2wav"])}
    talker = {"stage": "talker", "replica": "0"}
    code2wav = {"stage": "code2wav", "replica": "0"}
    assert numbers["antiphon_stage_busy_seconds"].values == ((talker, 2.0), (code2wav, 3.0))
    assert numbers["antiphon_stage_busy_seconds"].counted
    assert numbers["antiphon_stage_jobs"].values == ((talker, 1.0),)
    assert not numbers["antiphon_stage_jobs"].counted
    assert numbers["antiphon_stage_waited_seconds"].values == ((talker, 0.25),)
    assert numbers["antiphon_stage_waited_seconds"].counted
    assert numbers["antiphon_stage_pace_seconds"].values == ((code2wav, 0.02),)
    assert not numbers["antiphon_stage_pace_seconds"].counted
    assert numbers["antiphon_reply_waiting"].values == (({}, 4.0),)
    assert numbers["antiphon_reply_delayed_seconds"].values == (({}, 1.5),)


def test_counters_by_size_are_one_metric() -> None:
    statistics = {"code2wav": {"chunks_of_4": 7.0, "chunks_of_8": 2.0}}
    (numbers,) = stage_numbers(statistics, ["code2wav"])
    assert numbers.name == "antiphon_stage_chunks_by_frames"
    assert numbers.counted
    by_size = {labels["frames"]: value for labels, value in numbers.values}
    assert by_size == {"4": 7.0, "8": 2.0}


def test_a_name_that_prometheus_would_not_take_is_mended() -> None:
    (numbers,) = stage_numbers({"a": {"of 24-khz": 1.0}}, ["a"])
    assert numbers.name == "antiphon_stage_of_24_khz"


def test_the_state_of_each_stage_is_told() -> None:
    for ready in (True, False):
        samples = parsed(scrape(pipeline=FakePipeline(ready=ready)))
        assert value(samples, "antiphon_stage_ready", stage="fake", replica="0") == ready


# The route.


def server(**access: object) -> Server:
    return Server(parse_deployment({"model": "fake", "access": access}), FakePipeline())


def until(socket: WebSocketTestSession, *kinds: str) -> None:
    while socket.receive_json()["type"] not in kinds:
        pass


def test_without_keys_only_this_machine_may_read() -> None:
    app = server().app
    with Visitor(app) as stranger:
        assert stranger.get("/metrics").status_code == 404
    with Visitor(app, host="127.0.0.1") as operator:
        answer = operator.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert value(parsed(answer.text), "antiphon_sessions_open") == 0


def test_with_keys_only_a_key_opens_them() -> None:
    with Visitor(server(keys=["sk-right"]).app) as client:
        assert client.get("/metrics").status_code == 401
        wrong = client.get("/metrics", headers={"Authorization": "Bearer sk-wrong"})
        assert wrong.status_code == 401
        right = client.get("/metrics", headers={"Authorization": "Bearer sk-right"})
        assert right.status_code == 200
        assert "antiphon_sessions_opened_total" in right.text
    with Visitor(server(keys=["sk-right"]).app, host="127.0.0.1") as local:
        assert local.get("/metrics").status_code == 401


@pytest.mark.parametrize("accept", ["", "*/*", "application/openmetrics-text; version=none;;"])
def test_it_is_plain_text_whatever_is_asked_for(accept: str) -> None:
    with Visitor(server().app, host="127.0.0.1") as client:
        answer = client.get("/metrics", headers={"Accept": accept})
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_a_session_that_has_gone_is_still_counted() -> None:
    served = server()
    with Visitor(served.app, host="127.0.0.1") as client:

        def read(*names: str) -> list[float]:
            samples = parsed(client.get("/metrics").text)
            return [value(samples, name) for name in names]

        counters = ("antiphon_sessions_open", "antiphon_sessions_opened_total")
        with client.session() as socket:
            socket.send_json({"type": "response.create"})
            until(socket, "response.done")
            assert read(*counters, "antiphon_session_responses_total") == [1, 1, 1]
        assert read(*counters, "antiphon_session_responses_total") == [0, 1, 1]
        samples = parsed(client.get("/metrics").text)
        assert value(samples, "antiphon_responses_total", outcome="completed") == 1
        heard = sum(
            value(samples, "antiphon_spoken_responses_total", source=source)
            for source in ("report", "estimate")
        )
        assert heard == 1
        assert value(samples, "antiphon_event_loop_lag_seconds_count") > 0


@pytest.mark.parametrize("bounds", [DELAYS, LAGS])
def test_bounds_ascend(bounds: Iterable[float]) -> None:
    assert list(bounds) == sorted(set(bounds))
