"""What the ``antiphon`` command runs; ``python -m antiphon.web`` is the same."""

from __future__ import annotations

import os
import sys

from .cli import main

TUNABLES = "GLIBC_TUNABLES"
HUGE_PAGES = "glibc.malloc.hugetlb=1"
"""Lets the C library ask for huge pages: models are read in whole at every turn, and
after a pause the small pages of a virtual machine are slow to come back."""


def run() -> int:
    """Run the command line; return the exit status."""
    if sys.argv[1:2] == ["serve"]:
        _start_again_with_huge_pages()
    return main()


def _start_again_with_huge_pages() -> None:
    # The C library reads this once, before Python begins. Whoever has set it knows better.
    if sys.platform == "linux" and TUNABLES not in os.environ:
        os.environ[TUNABLES] = HUGE_PAGES
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


if __name__ == "__main__":
    sys.exit(run())
