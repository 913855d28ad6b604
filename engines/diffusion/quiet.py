# pyright: reportUnknownMemberType=false
"""What transformers and diffusers write into the log."""

from __future__ import annotations


def hush() -> None:
    """Leave errors alone. They write prompts, where one is too long, and draw progress bars."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    from diffusers.utils import logging as diffusers_logging

    diffusers_logging.set_verbosity_error()
    diffusers_logging.disable_progress_bar()
