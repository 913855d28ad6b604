"""Models that tests need and no deployment that ships names."""

from __future__ import annotations

import os
from pathlib import Path

from antiphon.engines.catalog import card, default_cache_root
from antiphon.engines.fetch import Silent, fetch


def fetched(name: str) -> Path:
    """Return the folder of a model; it is fetched first where it is missing."""
    return fetch(card(name), default_cache_root(os.environ), Silent())
