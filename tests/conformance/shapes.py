"""Every effect that a client is told of, in every shape that it can have."""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.sessions import effects as fx
from antiphon.sessions.errors import ErrorInfo
from antiphon.sessions.events import TokenLogprob
from antiphon.sessions.items import Item, ItemKind, ItemStatus, Part, PartKind, Role
from antiphon.sessions.settings import (
    AudioFormat,
    Eagerness,
    Modality,
    NoiseReduction,
    SessionKind,
    Settings,
    Transcription,
    Truncation,
    TruncationMode,
    TurnDetection,
    TurnKind,
)
from antiphon.sessions.tools import Tool, ToolChoice, ToolMode

AT = fx.PartAt("resp_1", "item_1", 1, 0)
IMAGE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="
TOOL = Tool(name="add", description="Add.", parameters='{"type":"object","properties":{}}')
LOGPROBS = (TokenLogprob("Grüße", -0.25), TokenLogprob(" 🙂", -1.5))

_PARTS = {
    Role.SYSTEM: (Part(PartKind.INPUT_TEXT, "Be brief."),),
    Role.USER: (
        Part(PartKind.INPUT_TEXT, "hi"),
        Part(PartKind.INPUT_AUDIO, None),
        Part(PartKind.INPUT_AUDIO, "hello"),
        Part(PartKind.INPUT_IMAGE, image_url=IMAGE, detail="low"),
        Part(PartKind.INPUT_IMAGE, image_url=None, detail=None),
    ),
    Role.ASSISTANT: (Part(PartKind.OUTPUT_TEXT, "yes"), Part(PartKind.OUTPUT_AUDIO, "yes")),
}


def items() -> Iterator[Item]:
    """Yield items of every kind and status."""
    for status in ItemStatus:
        for role, parts in _PARTS.items():
            yield Item(id="item_1", role=role, status=status)
            for part in parts:
                yield Item(id="item_1", role=role, status=status, parts=(part,))
        yield Item(
            id="item_2",
            kind=ItemKind.FUNCTION_CALL,
            status=status,
            call_id="call_1",
            name="add",
            arguments='{"a":1}',
        )
    yield Item(id="item_3", kind=ItemKind.FUNCTION_OUTPUT, call_id="call_1", output="1")


def sessions() -> Iterator[Settings]:
    """Yield settings that are told differently."""
    for kind in SessionKind:
        yield Settings(kind=kind)
        yield Settings(kind=kind, turn_detection=None, noise_reduction=NoiseReduction.FAR_FIELD)
        yield Settings(kind=kind, turn_detection=TurnDetection(idle_timeout_ms=6000))
        for eagerness in Eagerness:
            turns = TurnDetection(kind=TurnKind.SEMANTIC_VAD, eagerness=eagerness)
            yield Settings(kind=kind, turn_detection=turns, logprobs=True)
        for wanted in (
            Transcription(model="whisper-1"),
            Transcription(model="whisper-1", language="en", prompt="p", keywords=("k",)),
        ):
            yield Settings(kind=kind, transcription=wanted)
        for form in AudioFormat:
            yield Settings(kind=kind, input_format=form, output_format=form)
    for mode in ToolMode:
        name = "add" if mode is ToolMode.FUNCTION else None
        yield Settings(tools=(TOOL,), tool_choice=ToolChoice(mode=mode, name=name))
    for truncation in (
        Truncation(mode=TruncationMode.DISABLED),
        Truncation(mode=TruncationMode.RETENTION_RATIO, retention_ratio=0.8),
        Truncation(mode=TruncationMode.RETENTION_RATIO, post_instructions=900),
    ):
        yield Settings(truncation=truncation)
    yield Settings(modality=Modality.TEXT, max_output_tokens=99, temperature=0.5)
    yield Settings(extensions=True)


def responses(status: fx.ResponseStatus) -> Iterator[fx.ResponseView]:
    """Yield responses of a status."""
    reasons: dict[fx.ResponseStatus, tuple[str | None, ...]] = {
        fx.ResponseStatus.CANCELLED: ("turn_detected", "client_cancelled"),
        fx.ResponseStatus.INCOMPLETE: ("max_output_tokens",),
    }
    failure = ErrorInfo("busy", "It is busy.", type="server_error", retry_after_ms=500)
    for reason in reasons.get(status, (None,)):
        for modality in Modality:
            for form in AudioFormat:
                done = status is not fx.ResponseStatus.IN_PROGRESS
                yield fx.ResponseView(
                    id="resp_1",
                    status=status,
                    modality=modality,
                    voice="ada",
                    output_format=form,
                    reason=reason,
                    error=failure if status is fx.ResponseStatus.FAILED else None,
                    output=tuple(items()) if done else (),
                    out_of_band=form is AudioFormat.PCMU,
                    temperature=0.7 if form is AudioFormat.PCMA else None,
                    max_output_tokens=12 if form is AudioFormat.PCM else None,
                    metadata=(("k", "v"),) if form is AudioFormat.PCM else None,
                    usage=_USAGE if done else None,
                )


_USAGE = fx.TokenUsage(
    input_tokens=10, cached_tokens=4, output_tokens=3, input_audio_tokens=7, output_audio_tokens=9
)


def effects() -> Iterator[fx.ClientEffect]:
    """Yield every effect, each in every shape, in an order in which they can be told."""
    for settings in sessions():
        yield fx.SessionCreated("sess_1", settings, 1234)
        yield fx.SessionUpdated("sess_1", settings, 1234)
    everything = Settings(transcription=Transcription(model="w"), extensions=True)
    yield fx.SessionUpdated("sess_1", everything, 0)
    yield fx.ErrorRaised(ErrorInfo("code", "words", "session.audio.output.voice", "e1"))
    yield fx.ErrorRaised(ErrorInfo(None, "words", type="server_error", retry_after_ms=1))
    yield fx.RateLimitsUpdated(
        (fx.RateLimit("requests", 9, 8, 0.5), fx.RateLimit("tokens", 9, 0, 1))
    )
    yield fx.SpeechStarted(120, "item_1")
    yield fx.SpeechStopped(900, "item_1")
    yield fx.IdleTimedOut(1000, 7000, "item_1")
    yield fx.BufferCommitted("item_1", None)
    yield fx.BufferCommitted("item_1", "item_0")
    yield fx.BufferCleared()
    yield from _of_items()
    yield from _of_transcriptions()
    yield from _of_responses()


def _of_items() -> Iterator[fx.ClientEffect]:
    for item in items():
        yield fx.ItemAdded(item, None)
        yield fx.ItemDone(item, "item_0")
        yield fx.ItemRetrieved(item, b"\1\0" * 100)
        yield fx.OutputItemAdded("resp_1", 0, item)
        yield fx.OutputItemDone("resp_1", 0, item)
    yield fx.ItemTruncated("item_1", 0, 1500)
    yield fx.ItemDeleted("item_1")


def _of_transcriptions() -> Iterator[fx.ClientEffect]:
    for logprobs in (None, (), LOGPROBS):
        yield fx.TranscriptionDelta("item_1", "Grüße", logprobs)
        yield fx.TranscriptionDone("item_1", "Grüße 🙂", 1540, logprobs)
    yield fx.TranscriptionFailed("item_1", ErrorInfo("code", "words", type="server_error"))


def _of_responses() -> Iterator[fx.ClientEffect]:
    for view in responses(fx.ResponseStatus.IN_PROGRESS):
        yield fx.ResponseCreated(view)
        yield fx.AudioDelta(AT, 0, b"\1\0" * 20_000)
        yield fx.AudioDone(AT)
    for modality in Modality:
        yield fx.ContentPartAdded(AT, modality)
        yield fx.ContentPartDone(AT, modality, "hello")
    for text in ("he", "\0" * 20_000, "🙂" * 20_000):
        yield fx.TextDelta(AT, text)
        yield fx.TranscriptDelta(AT, text)
        yield fx.CallDelta(AT, "call_1", text)
    yield fx.TextDone(AT, "hello")
    yield fx.TranscriptDone(AT, "hello")
    yield fx.CallDone(AT, "call_1", "add", '{"a":1}')
    yield fx.WordSpoken(AT, "hello", 0, 420)
    yield fx.TurnMeasured(
        response_id="resp_1",
        endpointing_ms=1.0,
        recognition_ms=1.0,
        first_token_ms=1.0,
        first_clause_ms=1.0,
        talker_ms=1.0,
        code2wav_ms=1.0,
        total_ms=6.0,
        clause_to_audio_ms=None,
    )
    yield fx.ResponseMeasured(
        response_id="resp_1",
        ttfa_ms=None,
        chunks_ms=(50.0, 100.0),
        generated_ms=150.0,
        sent_ms=0.0,
        played_ms=0.0,
        unheard_ms=150.0,
        lead_min_ms=0.0,
        lead_max_ms=0.0,
        underruns=0,
        gap_ms=0.0,
        continuous=True,
        reported=False,
        interrupted=True,
    )
    for status in fx.ResponseStatus:
        if status is not fx.ResponseStatus.IN_PROGRESS:
            for view in responses(status):
                yield fx.ResponseDone(view)
