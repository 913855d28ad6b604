"""The deployment: which pipeline, which models, their sizes and bounds, resolved once.

A YAML file (see ``deploy/``) becomes one validated, immutable object before anything
is loaded. Unknown keys, wrong types and impossible values raise
:class:`DeploymentError`, whose message names the key and says what is allowed.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec
import yaml
from msgspec import Meta

from .diffusion.named import NAMED
from .diffusion.switches import DiffuserConfig
from .media import MediaConfig
from .speech.families.family import FAMILIES
from .speech.tokens.settings import CodecTalkerConfig, beside, is_folder

Positive = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]

LADDER = (4, 8, 12, 16, 24, 32, 48)
"""Chunks of 46 to 560 ms of the embedded voice. A finer ladder takes more of what a listener
can pay for; past 48 frames a chunk saves little, and holds up the others for long."""

KEY = re.compile(r"[A-Za-z0-9!$%&'*+\-.^_`|~]+")
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s]+", re.IGNORECASE)


class DeploymentError(Exception):
    """The deployment can't be used; the message names the key and what is allowed."""


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class VadConfig(_Strict, frozen=True, kw_only=True):
    """Voice activity: who speaks when."""

    use: Literal["webrtc", "silero"] = "webrtc"


class WhisperConfig(_Strict, frozen=True, kw_only=True, tag_field="use", tag="whisper"):
    """Recognition by faster-whisper."""

    model: Name = "whisper-tiny-en"
    threads: Positive = 1
    """Threads of one recognition of live speech."""

    concurrency: Positive = 1
    """Recognitions of live speech that run at once; more wait, soonest first."""

    recordings: Positive = 2
    """Stretches of recordings that are read at once while nobody speaks, each by a thread of
    low priority: as many as there are cores reads the soonest."""


class ScriptedRecognizerConfig(_Strict, frozen=True, kw_only=True, tag_field="use", tag="scripted"):
    """Recognition that always "hears" given lines, in turn: for tests and load."""

    lines: tuple[str, ...] = ("Hello there.",)
    delay_ms: NotNegative = 0
    words_per_second: Annotated[float, Meta(gt=0)] = 3.0
    """How much of the line is heard of speech that goes on, by the length of the audio."""

    logprob: Annotated[float, Meta(le=0)] = -0.1
    """Log probability of every word, where it is asked for."""


class NoRecognizerConfig(_Strict, frozen=True, kw_only=True, tag_field="use", tag="none"):
    """No recognition: what needs it is refused."""


class ToolDialect(_Strict, frozen=True, kw_only=True):
    """How a model writes calls of functions into its text, as it was trained to.

    A call is a JSON object between two marks; several follow each other, or are a list
    between one pair of marks. The default is that of Hermes, Qwen and their kin.
    """

    start: Name = "<tool_call>"
    end: Name = "</tool_call>"
    name_key: Name = "name"
    arguments_key: Name = "arguments"

    def __post_init__(self) -> None:
        """Refuse marks and keys that could not be told from each other."""
        if self.start == self.end or self.name_key == self.arguments_key:
            raise ValueError("expected two marks that differ, and two keys that differ")


class VllmConfig(_Strict, frozen=True, kw_only=True, tag_field="use", tag="vllm"):
    """An autoregressive text model on vLLM, in a process of its own."""

    model: Name = "smollm2-135m"
    """A model of the catalogue, or a folder in the Hugging Face layout."""

    context_tokens: Positive = 2048
    """Prompt and answer together; older turns are left out of longer prompts."""

    max_output_tokens: Positive = 256
    """Bound of one answer where the client names none."""

    max_requests: Positive = 8
    """Answers generated at once; more wait inside vLLM."""

    kv_cache_mib: Positive = 256
    threads: Positive = 1
    """Threads of the CPU build; a GPU ignores it."""

    weights: Literal["auto", "int8", "unchanged"] = "auto"
    """``int8`` lets a CPU that multiplies small integers write twice as fast, from a copy of
    the model made at its first start; ``auto`` is that where it helps. A GPU ignores it."""

    temperature: Annotated[float, Meta(ge=0, le=2)] = 0.4
    top_k: NotNegative = 40
    """How many of the likeliest tokens are chosen from; 0 for all."""

    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Below 1 a CPU sorts its vocabulary for every token: 10 ms with 49,000 words."""

    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] = 1.1
    tool_dialect: ToolDialect = ToolDialect()
    enforce_eager: bool = True
    gpu_memory_utilization: Annotated[float, Meta(gt=0, le=1)] = 0.8
    tensor_parallel: Positive = 1


class ScriptedCall(_Strict, frozen=True, kw_only=True):
    """A function call that the scripted model makes."""

    name: Name
    arguments: dict[str, Any] = {}
    when: str = ""
    """Made where the last message is the user's and has this in it, whatever the case."""


class ScriptedArConfig(_Strict, frozen=True, kw_only=True, tag_field="use", tag="scripted"):
    """A model that always "writes" given lines, in turn: for tests and load."""

    lines: tuple[str, ...] = ("Certainly. The sky is blue because air scatters blue light most.",)
    first_token_ms: NotNegative = 0
    tokens_per_second: Annotated[float, Meta(gt=0)] = 30.0
    """One token is one word with the space before it."""

    calls: tuple[ScriptedCall, ...] = ()
    """The first that fits is made instead of a line, where its function is on offer."""

    context_tokens: Positive | None = None
    """Words that it can be told; older turns are left out of longer conversations."""


class NoArConfig(_Strict, frozen=True, kw_only=True, tag_field="use", tag="none"):
    """No language model: texts are spoken, and nobody is answered."""


class TalkerConfig(_Strict, frozen=True, kw_only=True, tag_field="use", tag="piper"):
    """Text to latents, by a voice of the Piper family; meant where ``use`` is not said."""

    model: Name = "piper-joe"
    threads: Positive = 1
    """Threads of one clause."""

    concurrency: Positive = 2
    """Clauses of different replies spoken at once; slow voices have one thread besides."""

    variation: Annotated[float, Meta(ge=0, le=2)] = 1.0
    """How much the voice varies from one time to the next, 1 as it was made; 0 says the
    same text the same way every time."""

    voices: tuple[Name, ...] = ()
    """Models of the catalogue whose voices are offered besides those of ``model``."""

    loaded: Positive = 4
    """Models kept in memory, that of the default voice among them; of others those that were
    used last."""


class ScriptedTalkerConfig(_Strict, frozen=True, kw_only=True, tag_field="use", tag="scripted"):
    """A tone as long as the text would take to say, without any model: for tests and load.

    Code2wav then passes it on in chunks.
    """

    ms_per_word: Positive = 300
    pace: Annotated[float, Meta(ge=0)] = 0.0
    """Seconds of audio made in a second; 0 for as fast as it is taken."""

    chunk_ms: Annotated[int, Meta(ge=20, le=1000)] | None = 100
    """Audio of one chunk; ``null`` for what the rule of ``stages.code2wav`` chooses, in frames
    of 20 ms."""

    hertz: NotNegative = 0
    """Of the tone; 0 is silence."""

    decode_fixed_ms: Annotated[float, Meta(ge=0)] = 0.0
    """What each chunk costs: its decoder serves one after the other, soonest due first."""

    decode_frame_ms: Annotated[float, Meta(ge=0)] = 0.0
    """What each 20 ms of it cost besides."""

    stall_ms: NotNegative = 0
    """How long each reply's talker stands still, once."""

    stall_after_ms: NotNegative = 0
    """After how much of its audio that is."""


class Code2wavConfig(_Strict, frozen=True, kw_only=True):
    """Latents to waveform, with the decoder of the talker's model."""

    threads: Positive = 1
    """Threads of one chunk."""

    concurrency: Positive = 2
    """Chunks of different streams decoded at once."""

    ladder: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=32)] | None = None
    """Frames that a chunk may have, ascending; ``null`` for those that suit the decoder."""

    rule: Literal["ramp", "fixed"] = "ramp"
    """``ramp`` chooses by what the listener has left and what a chunk costs; ``fixed`` takes
    one size after the other, and then the last."""

    margin_ms: NotNegative = 35
    """Audio that a listener shall still have when its next chunk is made."""

    continuity: Literal["smooth", "eager"] = "smooth"
    """Where audio is made slower than it is heard: wait at the start, or begin at once and
    stutter."""

    max_first_delay_ms: NotNegative = 2000
    """The most that ``smooth`` waits."""

    batch: Positive = 4
    """Chunks of one size decoded at once, where that is found to pay."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """:attr:`ladder`, or that of the embedded voice and its kin."""
        return self.ladder or LADDER


class Pacing(_Strict, frozen=True, kw_only=True):
    """How far and how fast audio is made for listeners."""

    lead_ms: Annotated[int, Meta(ge=200)] = 4000
    """How far ahead of the ear; what is further ahead is wasted at an interruption."""

    first_audio_ms: Positive = 300
    """In which the first audio of a reply should be there: its rank among those that wait."""

    load: Annotated[float, Meta(gt=0, le=1)] = 0.9
    """Share of a stage's time that replies being spoken may need together; one more waits
    until an earlier one is made."""

    waiting: NotNegative = 64
    """Replies that may wait so; one more fails: ``overloaded``."""

    wait_seconds: Positive = 20
    """How long one may wait before it fails."""


class Stages(_Strict, frozen=True, kw_only=True):
    """One entry a stage."""

    vad: VadConfig = VadConfig()
    recognizer: WhisperConfig | ScriptedRecognizerConfig | NoRecognizerConfig = WhisperConfig()
    ar: VllmConfig | ScriptedArConfig | NoArConfig = VllmConfig()
    talker: TalkerConfig | ScriptedTalkerConfig | CodecTalkerConfig = TalkerConfig()
    code2wav: Code2wavConfig = Code2wavConfig()


class Limits(_Strict, frozen=True, kw_only=True):
    """Bounds of every session; what happens at each is in ``realtime/README.md``."""

    sessions: Positive = 64
    session_minutes: Positive = 60
    append_bytes: Positive = 15 * 1024 * 1024
    """Decoded audio of one append."""

    input_buffer_seconds: Positive = 600
    """Uncommitted audio; more is refused."""

    retained_audio_seconds: Positive = 600
    """Committed audio kept for retrieval; the oldest is let go."""

    items: Positive = 2000
    text_chars: Positive = 200_000
    """Characters of one item, and of the instructions."""

    outgoing_bytes: Positive = 8 * 1024 * 1024
    """Queued for a client that does not read; then it is closed."""

    stalled_seconds: Positive = 20
    """A write that makes no progress for so long closes the connection."""

    stage_timeout_seconds: Positive = 60
    """A stage that says nothing of a request for so long has failed it."""

    paused_seconds: Positive = 300
    """A response fails that is held back for a listener who plays nothing for so long."""

    responses_per_minute: Positive = 600
    """Of one session; more are refused."""

    speech_chars: Positive = 100_000
    """Text of one request to be spoken; more is refused."""

    speech_idle_seconds: Positive = 300
    """A stream of speech without a message for so long, while nothing sounds, is closed."""

    upload_bytes: Positive = 512 * 1024 * 1024
    """Of a recording to be transcribed; more is refused."""

    tokens_per_minute: Positive = 1_000_000
    """Read and written by the responses of one session; beyond it none begins."""


class Access(_Strict, frozen=True, kw_only=True):
    """Who may use the server, and how it is reached."""

    keys: tuple[Name, ...] = ()
    """API keys; with none at all, here and in the file, only this machine is served."""

    keys_file: Name | None = None
    """A file of API keys, one a line; ``#`` begins a comment. Beside the deployment file
    unless absolute, as are the two of TLS."""

    open: bool = False
    """Whether other machines are served without any key."""

    origins: tuple[Name, ...] = ()
    """Origins (``https://app.example``) whose pages may connect, beside the server's own."""

    tls_certificate: Name | None = None
    """PEM file of the certificate chain; with :attr:`tls_key` the server speaks TLS."""

    tls_key: Name | None = None


class Deployment(_Strict, frozen=True, kw_only=True):
    """Everything a server is told at start."""

    pipeline: Literal["cascade", "codec-lm"] = "cascade"
    """``codec-lm`` is a cascade whose talker is a codec language model."""

    model: Name = "antiphon-embedded"
    """Name listed at ``/v1/models``."""

    instructions: str = ""
    """Default system prompt of a session that sets none."""

    speculate_ms: NotNegative = 200
    """Silence after which an answer is prepared in case the turn is over; 0 never.

    If the person goes on, the work is thrown away and nobody hears of it.
    """

    stages: Stages = Stages()
    pacing: Pacing = Pacing()
    limits: Limits = Limits()
    access: Access = Access()
    media: MediaConfig | None = msgspec.field(default_factory=MediaConfig)
    """Pictures and clips; ``null``: none."""

    @property
    def hears(self) -> bool:
        """Whether there is a recognizer."""
        return not isinstance(self.stages.recognizer, NoRecognizerConfig)

    @property
    def answers(self) -> bool:
        """Whether there is a language model."""
        return not isinstance(self.stages.ar, NoArConfig)

    @property
    def capabilities(self) -> tuple[str, ...]:
        """What is served: ``speech`` always, the others where their stages are there."""
        parts = {"transcription": self.hears, "chat": self.answers, "realtime": self.answers}
        return ("speech", *(name for name, there in parts.items() if there))


def load_deployment(path: Path) -> Deployment:
    """Read and validate a deployment file.

    Raises:
        DeploymentError: the file can't be read, isn't YAML, or doesn't validate.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DeploymentError(f"cannot read {path}: {error.strerror}") from None
    try:
        data: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DeploymentError(f"{path} is not YAML: {error}") from None
    try:
        deployment = parse_deployment({} if data is None else data)
    except DeploymentError as error:
        raise DeploymentError(f"{path}: {error}") from None
    return _with_paths(deployment, path.parent)


def parse_deployment(data: object) -> Deployment:
    """Validate a deployment given as plain data.

    Raises:
        DeploymentError: a key is unknown, or a value is not allowed.
    """
    try:
        deployment = msgspec.convert(_with_talker(data), Deployment)
    except msgspec.ValidationError as error:
        raise DeploymentError(_name_the_key(str(error))) from None
    _check_access(deployment.access)
    _check_ladder(deployment.stages.code2wav.sizes)
    _check_talker(deployment)
    _check_media(deployment)
    return deployment


def check_key(key: str, where: str) -> None:
    """Refuse an API key that clients could not send.

    Raises:
        DeploymentError: it has other characters than a WebSocket subprotocol may have, in
            which browsers send it, or looks like a client secret. ``where`` says which.
    """
    if not KEY.fullmatch(key):
        raise DeploymentError(
            f"{where}: an API key has letters, digits and any of !$%&'*+-.^_`|~ "
            "(make one with `openssl rand -hex 32`)"
        )
    if key.startswith("ek_"):
        raise DeploymentError(f"{where}: an API key does not begin with ek_, as secrets do")


def models_named(deployment: Deployment) -> tuple[str, ...]:
    """Return the names of catalogue models that the deployment loads."""
    stages = deployment.stages
    names: list[str] = []
    if isinstance(stages.talker, TalkerConfig):
        names += dict.fromkeys((stages.talker.model, *stages.talker.voices))
    if isinstance(stages.talker, CodecTalkerConfig):
        names += (each for each in codec_lm_models(stages.talker).values() if not is_folder(each))
    if isinstance(stages.recognizer, WhisperConfig):
        names.append(stages.recognizer.model)
    if isinstance(stages.ar, VllmConfig) and not Path(stages.ar.model).is_dir():
        names.append(stages.ar.model)
    return tuple(names)


def codec_lm_models(talker: CodecTalkerConfig) -> dict[str, str]:
    """What a codec language model is loaded from, by the keys of the deployment file."""
    return {"stages.talker.model": talker.model, "stages.talker.codec": talker.codec}


def _with_talker(data: object) -> object:
    """Add which talker is meant where it is not said: deployments may only name its model."""
    whole = _mapping(data)
    stages = _mapping(whole.get("stages"))
    talker = _mapping(stages.get("talker"))
    if "use" in talker or not isinstance(stages.get("talker"), dict):
        return data
    return {**whole, "stages": {**stages, "talker": {"use": "piper", **talker}}}


def _mapping(value: object) -> dict[object, object]:
    return cast("dict[object, object]", value) if isinstance(value, dict) else {}


def _check_access(access: Access) -> None:
    for index, key in enumerate(access.keys):
        check_key(key, f"access.keys[{index}]")
    for index, origin in enumerate(access.origins):
        if not ORIGIN.fullmatch(origin):
            raise DeploymentError(
                f"access.origins[{index}]: expected an origin like https://app.example, "
                "without a path"
            )
    if (access.tls_certificate is None) != (access.tls_key is None):
        missing = "tls_key" if access.tls_key is None else "tls_certificate"
        raise DeploymentError(
            f"access.{missing}: missing; a certificate and its key are given together, or neither"
        )


def _check_ladder(ladder: tuple[int, ...]) -> None:
    for size, larger in pairwise(ladder):
        if larger <= size:
            raise DeploymentError(
                f"stages.code2wav.ladder: expected sizes that ascend, got {larger} after {size}"
            )


def _check_talker(deployment: Deployment) -> None:
    talker = deployment.stages.talker
    if not isinstance(talker, CodecTalkerConfig):
        if deployment.pipeline == "codec-lm":
            raise DeploymentError(
                "stages.talker.use: expected codec-lm, as the pipeline is codec-lm"
            )
    elif talker.family not in FAMILIES:
        raise DeploymentError(
            f"stages.talker.family: expected one of {', '.join(FAMILIES)}, got {talker.family}"
        )


def _check_media(deployment: Deployment) -> None:
    if deployment.media is not None and deployment.model in deployment.media.models:
        raise DeploymentError(
            f"media.models.{deployment.model}: the name is taken; it is that of `model`"
        )


def _model_with_paths(model: DiffuserConfig, folder: Path) -> DiffuserConfig:
    def beside_it(path: str) -> str:
        return str(folder / Path(path).expanduser())

    loras = {name: beside_it(path) for name, path in model.switches.loras.items()}
    switches = msgspec.structs.replace(model.switches, loras=loras)
    path = model.path if model.path in NAMED else beside_it(model.path)
    return msgspec.structs.replace(model, path=path, switches=switches)


def _media_with_paths(media: MediaConfig, folder: Path) -> MediaConfig:
    models = {name: _model_with_paths(each, folder) for name, each in media.models.items()}
    secret = media.webhook_secret_file
    return msgspec.structs.replace(
        media,
        models=models,
        webhook_secret_file=None if secret is None else str(folder / secret),
    )


def _with_paths(deployment: Deployment, folder: Path) -> Deployment:
    """Take files that a deployment names from beside its own file."""
    names = ("keys_file", "tls_certificate", "tls_key")
    said = {name: getattr(deployment.access, name) for name in names}
    found = {name: str(folder / file) for name, file in said.items() if file is not None}
    access = msgspec.structs.replace(deployment.access, **found)
    stages, talker = deployment.stages, deployment.stages.talker
    if isinstance(talker, CodecTalkerConfig):
        talker = msgspec.structs.replace(
            talker, model=beside(talker.model, folder), codec=beside(talker.codec, folder)
        )
        stages = msgspec.structs.replace(stages, talker=talker)
    media = deployment.media and _media_with_paths(deployment.media, folder)
    return msgspec.structs.replace(deployment, access=access, stages=stages, media=media)


def _name_the_key(message: str) -> str:
    """Turn ``Expected `int` - at `$.a.b``` into ``a.b: expected `int```."""
    what, _, where = message.partition(" - at `$")
    key = where.rstrip("`").lstrip(".")
    if unknown := re.fullmatch(r"Object contains unknown field `(.+)`", what):
        return f"unknown key `{'.'.join(filter(None, [key, unknown[1]]))}`"
    return f"{key or 'the file'}: {what[0].lower()}{what[1:]}"
