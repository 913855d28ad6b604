"""The facts about this machine that decide whether it can serve, gathered cheaply."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Mapping
from ctypes.util import find_library
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The facts that are judged."""

    python: tuple[int, int]
    system: str
    """As :func:`platform.system` names it."""

    architecture: str
    """As :func:`platform.machine` names it."""

    cpus: int
    """Those that this process may use."""

    cpu_flags: frozenset[str]
    """Of x86; empty elsewhere."""

    memory_free: int | None
    """Bytes; None where unknown."""

    disk_free: int
    """Bytes where the models lie."""

    cache_writable: bool
    port_free: bool
    libnuma: bool
    browser: str | None
    """Path of a Chromium."""

    versions: Mapping[str, str]
    """Installed distributions by normalised name."""

    torch_needs: tuple[str, ...] = ()
    """The requirements of the installed torch, which tell its build."""


def look(cache_root: Path, host: str, port: int) -> Machine:
    """The facts about this machine, now."""
    home = _nearest_existing(cache_root)
    installed = {
        normalised(each.name): each.version for each in metadata.distributions() if each.name
    }
    return Machine(
        python=sys.version_info[:2],
        system=platform.system(),
        architecture=platform.machine(),
        cpus=_usable_cpus(),
        cpu_flags=cpu_flags(_text_of("/proc/cpuinfo")),
        memory_free=memory_available(_text_of("/proc/meminfo")),
        disk_free=shutil.disk_usage(home).free,
        cache_writable=os.access(home, os.W_OK),
        port_free=_port_is_free(host, port),
        libnuma=find_library("numa") is not None,
        browser=next(filter(None, map(shutil.which, BROWSERS)), None),
        versions=installed,
        torch_needs=tuple(metadata.requires("torch") or ()) if "torch" in installed else (),
    )


def normalised(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def cpu_flags(cpuinfo: str) -> frozenset[str]:
    """The instruction-set flags in the text of ``/proc/cpuinfo``."""
    found = re.search(r"^flags\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    return frozenset(found[1].split()) if found else frozenset()


def memory_available(meminfo: str) -> int | None:
    """Bytes that can be used without swapping, from the text of ``/proc/meminfo``."""
    found = re.search(r"^MemAvailable:\s*(\d+) kB$", meminfo, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _nearest_existing(path: Path) -> Path:
    return next(each for each in (path, *path.absolute().parents) if each.is_dir())


def _usable_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _port_is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As the server does: a port whose last connections linger counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
