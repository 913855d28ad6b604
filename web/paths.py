"""Where configuration is read from and where what the server keeps lies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

DEPLOY = Path(__file__).parent.parent / "deploy"
"""The deployments that ship."""

DEFAULT_CONFIG = "embedded"


def config_file(named: str) -> Path:
    """Return the deployment file that ``named`` means: a path, or one that ships by name."""
    shipped = DEPLOY / f"{named}.yaml"
    return shipped if "/" not in named and shipped.is_file() else Path(named)


def data_folder(chosen: Path | None, environ: Mapping[str, str]) -> Path:
    """Return the folder of all that the server keeps: as chosen, told by environment, or usual."""
    if chosen is not None:
        return chosen
    if own := environ.get("ANTIPHON_DATA"):
        return Path(own)
    shared = environ.get("XDG_DATA_HOME")
    base = Path(shared) if shared else Path(environ.get("HOME") or Path.home()) / ".local/share"
    return base / "antiphon"
