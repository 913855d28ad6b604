"""The studio's page: ``/studio``."""

from __future__ import annotations

import logging
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from .service import MediaService

logger = logging.getLogger(__name__)

PAGE = Path(__file__).parents[1] / "static" / "studio.html"


def studio_route(media: MediaService | None) -> Route:
    """The page, which says so where nothing is made here (``None``).

    Who opens it is about to ask for something, so the models are loaded meanwhile.
    """

    async def page(request: Request) -> Response:
        warming = BackgroundTask(_warm, media) if media and request.method == "GET" else None
        return FileResponse(PAGE, headers={"Cache-Control": "no-cache"}, background=warming)

    return Route("/studio", page)


async def _warm(media: MediaService) -> None:
    try:
        await media.warm()
    except Exception:
        # The page was sent; the first job tells what is the matter.
        logger.exception("the worker could not be started ahead of the first job")
