"""The command line: ``antiphon serve | say | transcribe | talk | worker | doctor | models | families | replay | demo``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ..engines.catalog import UnknownModel, card, cards, default_cache_root, is_present
from ..engines.deployment import Deployment, DeploymentError, load_deployment, models_named
from ..engines.fetch import FetchError, fetch
from ..engines.speech.families.table import table
from ..realtime.recording import RecordingError, replay
from .commands.arguments import add_commands
from .commands.errors import CommandError
from .doctor import diagnose, format_findings, is_healthy
from .paths import DEFAULT_CONFIG, config_file, data_folder
from .progress import Steps
from .reach import check_reach

OK, FAILED, MISUSED = 0, 1, 2
"""Exit statuses."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status."""
    args = _parser().parse_args(argv)
    try:
        status: int = args.run(args)
    except (DeploymentError, RecordingError, UnknownModel) as error:
        return _fail(str(error), MISUSED)
    except FetchError as error:
        return _fail(str(error), FAILED)
    except CommandError as error:
        return _fail(str(error), MISUSED if error.misused else FAILED)
    except KeyboardInterrupt:
        return 130
    return status


def _fail(message: str, status: int) -> int:
    print(f"antiphon: {message}", file=sys.stderr)  # noqa: T201
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="antiphon", description="A realtime streaming media server."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="serve a deployment")
    _add_config(serve)
    _add_address(serve)
    serve.add_argument("--data", type=Path, help="folder of what the server keeps")
    serve.add_argument(
        "--record", action="store_true", help="record sessions under the data folder"
    )
    serve.set_defaults(run=_serve)

    add_commands(commands)

    doctor = commands.add_parser("doctor", help="say what is missing, and what mends it")
    _add_config(doctor)
    _add_address(doctor)
    doctor.set_defaults(run=_doctor)

    models = commands.add_parser("models", help="list or fetch models")
    actions = models.add_subparsers(required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list the models known by name")
    listing.set_defaults(run=_models_list)
    fetching = actions.add_parser("fetch", help="fetch models, by default those of a deployment")
    fetching.add_argument("names", nargs="*", metavar="NAME")
    _add_config(fetching)
    fetching.set_defaults(run=_models_fetch)

    families = commands.add_parser("families", help="list the codec language models known")
    families.set_defaults(run=_families)

    again = commands.add_parser("replay", help="play a recorded session to the core again")
    again.add_argument("file", type=Path)
    again.set_defaults(run=_replay)

    demo = commands.add_parser("demo", help="hold a spoken conversation with a server")
    demo.add_argument("--url", help="a running server; by default one is started for the demo")
    demo.add_argument("--out", type=Path, default=Path("out/demo"), help="folder of the results")
    _add_config(demo)
    demo.set_defaults(run=_demo)
    return parser


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        default=DEFAULT_CONFIG,
        help="deployment file, or the name of one that ships (default: %(default)s)",
    )


def _add_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    parser.add_argument("--port", type=_port, default=8000, help="default: %(default)s")


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65_535:
        raise argparse.ArgumentTypeError("must be from 0 to 65535")
    return port


def _deployment(args: argparse.Namespace) -> Deployment:
    return load_deployment(config_file(args.config))


def _serve(args: argparse.Namespace) -> int:
    # Here, not at the top: it pulls in the web server, which `models` does without.
    from .serve import ServeError, serve

    deployment = _deployment(args)
    # Before anything is fetched: a mistake here would stop the start after that.
    check_reach(deployment.access, args.host)
    cache_root = default_cache_root(os.environ)
    fetch_missing(deployment, cache_root)
    try:
        data = data_folder(args.data, os.environ)
        recordings = data / "recordings" if args.record else None
        if recordings is not None:
            recordings.mkdir(parents=True, exist_ok=True, mode=0o700)
        config = config_file(args.config)
        serve(deployment, cache_root, args.host, args.port, recordings, data=data, config=config)
    except ServeError as error:
        return _fail(str(error), FAILED)
    except OSError as error:
        return _fail(f"cannot use the data folder: {error.strerror}; pass --data", FAILED)
    return OK


def fetch_missing(deployment: Deployment, cache_root: Path) -> None:
    """Fetch the models of a deployment that are not here yet.

    Raises:
        UnknownModel: the deployment names one that the catalogue lacks.
        FetchError: one can't be fetched.
    """
    for name in models_named(deployment):
        model = card(name)
        if not is_present(model, cache_root):
            fetch(model, cache_root, Steps())


def _doctor(args: argparse.Namespace) -> int:
    findings = diagnose(
        os.environ,
        default_cache_root(os.environ),
        _deployment(args),
        host=args.host,
        port=args.port,
    )
    print(format_findings(findings))  # noqa: T201
    return OK if is_healthy(findings) else FAILED


def _models_list(_args: argparse.Namespace) -> int:
    cache_root = default_cache_root(os.environ)
    for model in cards():
        here = "here" if is_present(model, cache_root) else "-"
        line = f"{model.name:18} {model.kind:11} {here:5} {model.licence:14} {model.summary}"
        print(line)  # noqa: T201
    return OK


def _models_fetch(args: argparse.Namespace) -> int:
    cache_root = default_cache_root(os.environ)
    for name in args.names or models_named(_deployment(args)):
        fetch(card(name), cache_root, Steps())
    return OK


def _families(_args: argparse.Namespace) -> int:
    print(table(), end="")  # noqa: T201
    return OK


def _replay(args: argparse.Namespace) -> int:
    start: float | None = None
    for step in replay(args.file):
        start = step.now if start is None else start
        at = f"{step.now - start:9.3f}"
        print(f"{at}  {_brief(step.event) if step.event else '(time passed)'}")  # noqa: T201
        for effect in step.effects:
            print(f"{'':9}    -> {_brief(effect)}")  # noqa: T201
    return OK


def _brief(thing: object) -> str:
    """Show an event or effect in one line, audio by its length."""
    fields = (
        (name, getattr(thing, name)) for name in getattr(type(thing), "__dataclass_fields__", {})
    )
    shown = ", ".join(
        f"{name}=<{len(value)} bytes>" if isinstance(value, bytes) else f"{name}={value!r}"
        for name, value in fields
        if value is not None
    )
    return f"{type(thing).__name__}({shown})"


def _demo(args: argparse.Namespace) -> int:
    from .demo import DemoError, run_demo

    deployment = _deployment(args)
    cache_root = default_cache_root(os.environ)
    fetch_missing(deployment, cache_root)
    try:
        run_demo(args.url, config_file(args.config), cache_root, args.out)
    except DemoError as error:
        return _fail(str(error), FAILED)
    return OK
