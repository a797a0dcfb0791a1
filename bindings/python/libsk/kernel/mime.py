"""Displays as MIME bundles of bytes, as ``sk/worker.h`` takes them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

DISPLAY_DATA, DISPLAY_RESULT, DISPLAY_UPDATE = 1, 2, 3
DISPLAY_CLEAR, DISPLAY_CLEAR_WAIT, DISPLAY_PAGE = 4, 5, 6
"""``enum sk_display_kind``."""


def bundle_of(data: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    """Text as UTF-8, pictures as their raw bytes, everything else as JSON."""
    return [(kind, _bytes_of(kind, value)) for kind, value in data.items()]


def metadata_of(metadata: Mapping[str, Any] | None) -> str | None:
    """What Jupyter carries beside the data (the width of a picture), as JSON."""
    return json.dumps(metadata) if metadata else None


def as_json(value: Any) -> Any:
    """What ``json.dumps`` cannot write by itself: bytes, as base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return repr(value)


def _is_binary(kind: str) -> bool:
    is_picture = kind.startswith("image/") and not kind.endswith("+xml")
    return is_picture or kind == "application/pdf" or kind.startswith(("audio/", "video/"))


def _bytes_of(kind: str, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        # Jupyter's convention: a binary type given as text is base64.
        if _is_binary(kind):
            return base64.b64decode(value)
        return value.encode("utf-8", "replace")
    return json.dumps(value).encode()
