"""``python -m antiphon.web`` is the same as ``antiphon``."""

from __future__ import annotations

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
