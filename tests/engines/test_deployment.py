"""Deployment files: what is accepted, and what is said of what isn't."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from antiphon.engines.deployment import (
    Access,
    Deployment,
    DeploymentError,
    ScriptedArConfig,
    ScriptedRecognizerConfig,
    ScriptedTalkerConfig,
    TalkerConfig,
    VllmConfig,
    WhisperConfig,
    codec_lm_models,
    load_deployment,
    models_named,
    parse_deployment,
)
from antiphon.engines.speech.families.family import FAMILIES
from antiphon.engines.speech.tokens.settings import CodecTalkerConfig

FILES = sorted((Path(__file__).parents[2] / "deploy").glob("*.yaml"))


def test_nothing_said_is_the_default() -> None:
    assert parse_deployment({}) == Deployment()
    assert isinstance(Deployment().stages.ar, VllmConfig)
    assert isinstance(Deployment().stages.recognizer, WhisperConfig)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_our_own_files_load(file: Path) -> None:
    codec_lm = file.stem in ("joe-lm", "neutts", "orpheus")
    assert load_deployment(file).pipeline == ("codec-lm" if codec_lm else "cascade")


def test_the_default_file_states_the_defaults() -> None:
    said = load_deployment(FILES[0].with_name("embedded.yaml")).stages
    assert isinstance(said.talker, TalkerConfig)
    # But that it has more voices.
    talker = msgspec.structs.replace(said.talker, voices=())
    assert msgspec.structs.replace(said, talker=talker) == Deployment().stages


def test_scripted_stages() -> None:
    ar = {"use": "scripted", "lines": ["Hi."], "tokens_per_second": 5}
    recognizer = {"use": "scripted", "lines": ["Hello."], "delay_ms": 3}
    stages = parse_deployment({"stages": {"ar": ar, "recognizer": recognizer}}).stages
    assert stages.ar == ScriptedArConfig(lines=("Hi.",), tokens_per_second=5)
    assert stages.recognizer == ScriptedRecognizerConfig(lines=("Hello.",), delay_ms=3)


def test_a_talker_may_be_named_by_its_model_alone() -> None:
    for said in ({}, {"model": "piper-joe"}, {"use": "piper"}):
        assert parse_deployment({"stages": {"talker": said}}).stages.talker == TalkerConfig()
    scripted = parse_deployment({"stages": {"talker": {"use": "scripted", "pace": 2}}})
    assert scripted.stages.talker == ScriptedTalkerConfig(pace=2)


def test_which_models_are_loaded() -> None:
    assert models_named(Deployment()) == ("piper-joe", "whisper-tiny-en", "smollm2-135m")
    assert models_named(load_deployment(FILES[0].with_name("silent.yaml"))) == ()


def test_models_of_more_voices_are_fetched_too() -> None:
    talker = {"model": "piper-joe", "voices": ["kokoro-ja", "piper-joe", "kokoro-ja"]}
    deployment = parse_deployment(
        {"stages": {"talker": talker, "recognizer": {"use": "scripted"}, "ar": {"use": "scripted"}}}
    )
    assert models_named(deployment) == ("piper-joe", "kokoro-ja")


CODEC_LM = {"use": "codec-lm", "family": "orpheus", "model": "snac-lm", "codec": "snac"}


def test_models_of_a_codec_language_model_are_folders_or_of_the_catalogue(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    file = tmp_path / "deployment.yaml"
    talker = dict(CODEC_LM, model="here/../here", codec="snac")
    stages = {"recognizer": {"use": "none"}, "ar": {"use": "none"}, "talker": talker}
    file.write_text(json.dumps({"pipeline": "codec-lm", "stages": stages}))
    deployment = load_deployment(file)
    assert models_named(deployment) == ("snac",)
    named = deployment.stages.talker
    assert isinstance(named, CodecTalkerConfig)
    assert codec_lm_models(named)["stages.talker.model"] == str(tmp_path / "here/../here")
    assert deployment.capabilities == ("speech",)
    talker["model"] = "./elsewhere"
    file.write_text(json.dumps({"stages": stages}))
    named = load_deployment(file).stages.talker
    assert isinstance(named, CodecTalkerConfig)
    assert named.model == str(Path.cwd() / "elsewhere")


def test_what_is_served_follows_from_the_stages() -> None:
    assert Deployment().capabilities == ("speech", "transcription", "chat", "realtime")
    deaf = parse_deployment({"stages": {"recognizer": {"use": "none"}}})
    assert deaf.capabilities == ("speech", "chat", "realtime")


def test_files_of_the_access_lie_beside_the_deployment(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(
        "access: {keys_file: keys, tls_certificate: /etc/server.pem, tls_key: tls/key.pem}\n"
    )
    assert load_deployment(file).access == Access(
        keys_file=str(tmp_path / "keys"),
        tls_certificate="/etc/server.pem",
        tls_key=str(tmp_path / "tls" / "key.pem"),
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"pipline": "cascade"}, "unknown key `pipline`"),
        ({"stages": {"ar": {"use": "vllm", "modle": "x"}}}, "unknown key `stages.ar.modle`"),
        ({"pipeline": "none"}, "pipeline: invalid enum value 'none'"),
        ({"model": ""}, "model: expected `str` of length >= 1"),
        ({"limits": {"sessions": 0}}, "limits.sessions: expected `int` >= 1"),
        ({"limits": {"sessions": "many"}}, "limits.sessions: expected `int`, got `str`"),
        ({"stages": {"ar": {"use": "gpt"}}}, "stages.ar.use: invalid value 'gpt'"),
        (
            {"stages": {"ar": {"use": "vllm", "top_p": 0}}},
            "stages.ar.top_p: expected `float` > 0.0",
        ),
        ({"stages": {"vad": {"use": "ears"}}}, "stages.vad.use: invalid enum value 'ears'"),
        (
            {"stages": {"code2wav": {"ladder": [4, 0]}}},
            "stages.code2wav.ladder[1]: expected `int` >= 1",
        ),
        (
            {"stages": {"code2wav": {"ladder": [4, 8, 8]}}},
            "stages.code2wav.ladder: expected sizes that ascend, got 8 after 8",
        ),
        (
            {"stages": {"talker": {"use": "scripted", "decode_frame_ms": -1}}},
            "stages.talker.decode_frame_ms: expected `float` >= 0.0",
        ),
        (["cascade"], "the file: expected `object`, got `array`"),
        ({"stages": ["talker"]}, "stages: expected `object`, got `array`"),
        ({"stages": {"talker": 5}}, "stages.talker: expected `object`, got `int`"),
        ({"stages": {"talker": {"use": "x"}}}, "stages.talker.use: invalid value 'x'"),
        ({"stages": {"talker": {"pace": 1}}}, "unknown key `stages.talker.pace`"),
        (
            {"stages": {"talker": {"use": "scripted", "chunk_ms": 10}}},
            "stages.talker.chunk_ms: expected `int` >= 20",
        ),
        (
            {"pipeline": "codec-lm"},
            "stages.talker.use: expected codec-lm, as the pipeline is codec-lm",
        ),
        (
            {"stages": {"talker": CODEC_LM | {"family": "choir"}}},
            f"stages.talker.family: expected one of {', '.join(FAMILIES)}, got choir",
        ),
        (
            {"stages": {"talker": CODEC_LM | {"top_p": 0}}},
            "stages.talker.top_p: expected `float` > 0.0",
        ),
        (
            {"stages": {"recognizer": {"use": "none", "delay_ms": 1}}},
            "unknown key `stages.recognizer.delay_ms`",
        ),
        ({"access": {"key": "x"}}, "unknown key `access.key`"),
        ({"access": {"keys": "x"}}, "access.keys: expected `array`, got `str`"),
        ({"access": {"keys": ["ok", ""]}}, "access.keys[1]: expected `str` of length >= 1"),
        (
            {"access": {"keys": ["ok", "two words"]}},
            "access.keys[1]: an API key has letters, digits and any of !$%&'*+-.^_`|~ "
            "(make one with `openssl rand -hex 32`)",
        ),
        (
            {"access": {"keys": ["ek_mine"]}},
            "access.keys[0]: an API key does not begin with ek_, as secrets do",
        ),
        (
            {"access": {"origins": ["https://a.example/"]}},
            "access.origins[0]: expected an origin like https://app.example, without a path",
        ),
        (
            {"access": {"origins": ["*"]}},
            "access.origins[0]: expected an origin like https://app.example, without a path",
        ),
        (
            {"access": {"tls_key": "key.pem"}},
            "access.tls_certificate: missing; a certificate and its key are given together, "
            "or neither",
        ),
    ],
)
def test_a_mistake_is_named_with_its_key(data: object, message: str) -> None:
    with pytest.raises(DeploymentError) as raised:
        parse_deployment(data)
    assert str(raised.value) == message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DeploymentError, match=r"cannot read .*none\.yaml: No such file"):
        load_deployment(tmp_path / "none.yaml")


def test_a_file_that_is_not_yaml(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("stages: {ar: [}")
    with pytest.raises(DeploymentError, match=r"bad\.yaml is not YAML"):
        load_deployment(file)


def test_a_mistake_in_a_file_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("stages:\n  ar: {use: vllm, threads: none}\n")
    with pytest.raises(DeploymentError, match=r"bad\.yaml: stages\.ar\.threads: expected `int`"):
        load_deployment(file)


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    file = tmp_path / "empty.yaml"
    file.write_text("")
    assert load_deployment(file) == Deployment()
