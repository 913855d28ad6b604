"""``antiphon worker``: makes the pictures and clips that a server has accepted."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...engines.catalog import default_cache_root
from ...engines.deployment import Deployment, load_deployment
from ...engines.media import MediaConfig, check_secret, job_settings, served_models
from ...engines.stage import StageFailure
from ..paths import DEFAULT_CONFIG, config_file, data_folder
from ..progress import Steps
from .errors import CommandError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from ...engines.diffusion.pipeline_diffuser import PipelineDiffuser

NICE = 5
"""How far a server's own worker stands back behind those who talk."""


def run_worker(args: argparse.Namespace) -> int:
    """Make what waits, until told to stop.

    Raises:
        CommandError: the deployment makes no pictures and clips, or they can't be made here.
    """
    _prepare_process(embedded=args.embedded)
    deployment = load_deployment(config_file(args.config or DEFAULT_CONFIG))
    try:
        _work(deployment, data_folder(args.data, os.environ), embedded=args.embedded)
    except StageFailure as failure:
        raise CommandError(failure.error.message) from None
    return 0


def _prepare_process(*, embedded: bool) -> None:
    # Set before any engine library is loaded: they read these once.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, _cores() - 1)))
    for quiet in ("DIFFUSERS_VERBOSITY", "TRANSFORMERS_VERBOSITY"):
        os.environ.setdefault(quiet, "error")
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    if embedded:
        os.nice(NICE)
        # A terminal sends it to all of its processes; the server ends this one in its own time.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _cores() -> int:
    # One is left to the server, unless the deployment says otherwise (`switches.threads`).
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _work(deployment: Deployment, data: Path, *, embedded: bool) -> None:
    media = deployment.media
    if media is None:
        raise CommandError("this deployment makes no pictures and clips (media: null)")
    # Here, not at the top: they load what other commands do without.
    from ...engines.jobs.fetching import Fetcher
    from ...engines.jobs.hooks import HookSender
    from ...engines.jobs.process import run, work
    from ...engines.jobs.results import encode_result

    settings = job_settings(media, data)
    secret = settings.webhook_secret
    check_secret(settings)
    steps = Steps()
    steps.step(f"worker: loading {', '.join(media.models)}")
    diffusers = _diffusers(media, default_cache_root(os.environ))

    def hooks(engine: Engine) -> HookSender:
        return HookSender(engine, Fetcher(media.fetch), secret or "")

    parent = sys.stdin.buffer if embedded else None

    def loaded(name: str) -> None:
        last = name == [*diffusers][-1]
        steps.step(f"worker: {name} is loaded{'; taking jobs' if last else ''}")

    sending = hooks if secret is not None else None
    run(work(settings, diffusers, encode_result, hooks=sending, parent=parent, on_loaded=loaded))


def _diffusers(media: MediaConfig, cache_root: Path) -> Mapping[str, PipelineDiffuser]:
    models = served_models(media)
    from ...engines.diffusion.named import folder_of
    from ...engines.diffusion.pipeline_diffuser import PipelineDiffuser

    found: dict[str, PipelineDiffuser] = {}
    for name, each in models.items():
        found[name] = PipelineDiffuser(folder_of(each.config, cache_root), each.config)
    return found
