"""All routes of pictures and clips."""

from __future__ import annotations

from starlette.routing import BaseRoute

from .service import MediaService


def media_routes(service: MediaService) -> list[BaseRoute]:
    """The routes over one deployment's jobs."""
    return []
