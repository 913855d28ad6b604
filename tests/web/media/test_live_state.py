"""What a film's connection decides: chunks, changes of the prompt, ends."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.sessions.errors import ErrorInfo
from antiphon.web.media import live_state as lv
from antiphon.web.media.live_state import LiveFilm

Json = dict[str, Any]


def film(chunks: int = 3) -> LiveFilm:
    """A film that has begun."""
    core = LiveFilm("film_1", lambda: "given")
    effects = core.handle(lv.Started("a cat", chunks, 20, {"format": "fmp4"}))
    assert told(effects)[0] == {"type": "video.start", "request_id": "film_1", "format": "fmp4"}
    assert effects[1:] == [lv.MakeChunk(0, "a cat")]
    return core


def told(effects: list[lv.Effect]) -> list[Json]:
    return [each.body for each in effects if isinstance(each, (lv.Tell, lv.SendChunk))]


def made(core: LiveFilm) -> list[lv.Effect]:
    return core.handle(lv.ChunkMade(frames=5, bytes=99))


def only(effects: list[lv.Effect]) -> Json:
    (body,) = told(effects)
    assert len(effects) == 1
    return body


def test_chunks_follow_each_other_to_the_end() -> None:
    core = film(chunks=2)
    first = made(core)
    assert told(first) == [
        {
            "type": "video.chunk_metadata",
            "request_id": "film_1",
            "kind": "media",
            "transport_chunk_index": 0,
            "generation_chunk_index": 0,
            "num_frames": 5,
            "byte_length": 99,
            "started_event_ids": [],
            "active_event_ids": [],
            "completed_event_ids": [],
        }
    ]
    assert first[1:] == [lv.MakeChunk(1, "a cat")]
    chunk, done, close = made(core)
    assert isinstance(chunk, lv.SendChunk)
    assert done == lv.Tell(
        {"type": "session.done", "request_id": "film_1", "chunks": 2, "stopped": False}
    )
    assert close == lv.Close(lv.DONE)
    assert core.over
    assert core.handle(lv.Pinged()) == []


def test_the_newest_change_counts_from_the_next_chunk_on() -> None:
    core = film()
    for event_id, prompt in (("one", "a dog"), ("two", "a bird")):
        queued = only(core.handle(lv.Changed(prompt, event_id)))
        assert (queued["type"], queued["event_id"]) == ("session.interaction.queued", event_id)
    first, second = made(core)
    assert isinstance(first, lv.SendChunk)
    assert first.body["started_event_ids"] == []
    assert second == lv.MakeChunk(1, "a bird")
    # While that chunk is made.
    core.handle(lv.Changed("a fish"))
    changed, third = made(core)
    assert isinstance(changed, lv.SendChunk)
    assert changed.body["started_event_ids"] == changed.body["completed_event_ids"] == ["two"]
    assert third == lv.MakeChunk(2, "a fish")
    last, *_ = made(core)
    assert isinstance(last, lv.SendChunk)
    assert last.body["started_event_ids"] == ["given"]


def test_a_change_that_is_sent_again_is_not_made_again() -> None:
    core = film()
    first = core.handle(lv.Changed("a dog", "one"))
    made(core)
    core.handle(lv.Changed("a bird", "two"))
    assert core.handle(lv.Changed("a dog", "one")) == first
    assert made(core)[-1] == lv.MakeChunk(2, "a bird")
    # The last chunk has begun, yet this one was made.
    assert core.handle(lv.Changed("a dog", "one")) == first
    conflict = only(core.handle(lv.Changed("a fish", "one")))
    assert (conflict["code"], conflict["event_id"]) == ("event_id_conflict", "one")


@pytest.mark.parametrize(
    ("change", "code", "param"),
    [
        (lv.Changed(" ", "e"), "invalid_value", "interaction.event.prompt"),
        (lv.Changed("x" * 21, "e"), "invalid_value", "interaction.event.prompt"),
        (lv.Changed("x", "e", 2), "unsupported_value", "interaction.transition_chunks"),
    ],
)
def test_what_can_not_change_changes_nothing(change: lv.Changed, code: str, param: str) -> None:
    core = film()
    error = only(core.handle(change))
    assert (error["type"], error["code"], error["event_id"]) == ("error", code, "e")
    assert error["param"] == param
    assert made(core)[-1] == lv.MakeChunk(1, "a cat")


def test_changes_come_before_the_last_chunk_and_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = film(chunks=1)
    assert only(late.handle(lv.Changed("a dog")))["code"] == "interaction_failed"
    monkeypatch.setattr(lv, "CHANGES", 2)
    core = film()
    for number in range(2):
        core.handle(lv.Changed("a dog", str(number)))
    assert only(core.handle(lv.Changed("a dog", "more")))["code"] == "interaction_failed"
    assert only(core.handle(lv.Changed("a dog", "0")))["event_id"] == "0"


def test_a_client_stops_a_film() -> None:
    core = film()
    made(core)
    stop, done, close = core.handle(lv.Stopped())
    assert stop == lv.StopMaking()
    assert isinstance(done, lv.Tell)
    assert (done.body["chunks"], done.body["stopped"]) == (1, True)
    assert close == lv.Close(lv.DONE)
    # It was made a moment before it was stopped.
    assert made(core) == []


def test_a_chunk_that_fails_ends_the_film() -> None:
    error, close = film().handle(lv.ChunkFailed("out_of_memory", "Too large."))
    assert isinstance(error, lv.Tell)
    assert (error.body["code"], error.body["message"]) == ("out_of_memory", "Too large.")
    assert close == lv.Close(lv.FAILED, "out_of_memory")
    core = film()
    core.handle(lv.Changed("a dog", "one"))
    made(core)
    error, _ = core.handle(lv.ChunkFailed("out_of_memory", "Too large."))
    assert isinstance(error, lv.Tell)
    assert (error.body["code"], error.body["event_id"]) == ("interaction_failed", "one")


def test_before_and_beside_a_film() -> None:
    core = LiveFilm("film_1")
    assert only(core.handle(lv.Pinged()))["type"] == "session.pong"
    assert only(core.handle(lv.Changed("a dog", "e")))["code"] == "session_not_started"
    assert (
        only(core.handle(lv.Misspoken(ErrorInfo("invalid_json", "No."))))["code"] == "invalid_json"
    )
    error, close = core.refuse(ErrorInfo("invalid_value", "No.", "size"))
    assert isinstance(error, lv.Tell)
    assert error.body["param"] == "size"
    assert close == lv.Close(lv.REFUSED, "invalid_value")
    again = only(film().handle(lv.Started("a cat", 1, 20, {})))
    assert again["code"] == "session_started"
