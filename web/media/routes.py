"""All routes of pictures and clips."""

from __future__ import annotations

from starlette.routing import BaseRoute

from .images import ImageRoutes
from .jobs import JobRoutes
from .live import LiveVideoRoute
from .service import MediaService
from .videos import VideoRoutes


def media_routes(service: MediaService) -> list[BaseRoute]:
    """The routes over one deployment's jobs."""
    return [
        *ImageRoutes(service).routes(),
        *VideoRoutes(service).routes(),
        *JobRoutes(service).routes(),
        *LiveVideoRoute(service).routes(),
    ]
