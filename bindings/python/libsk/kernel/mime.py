"""Displays as MIME bundles of bytes, as ``sk/worker.h`` takes them."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Mapping
from typing import Any

from libsk import _core

DISPLAY_DATA, DISPLAY_RESULT, DISPLAY_UPDATE = 1, 2, 3
DISPLAY_CLEAR, DISPLAY_CLEAR_WAIT, DISPLAY_PAGE = 4, 5, 6
"""``enum sk_display_kind``."""


def bundle_of(data: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    """Text as UTF-8, pictures as their raw bytes, everything else as JSON."""
    return [(str(kind), _bytes_of(str(kind), value)) for kind, value in data.items()]


def metadata_of(metadata: Mapping[str, Any] | None) -> str | None:
    """What Jupyter carries beside the data (the width of a picture), as JSON."""
    return as_text(metadata) if metadata else None


def as_text(value: Any) -> str:
    """JSON, with what it cannot hold as its ``repr()``, and without names that it cannot have."""
    return json.dumps(value, default=as_json, skipkeys=True)


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
            with contextlib.suppress(ValueError):  # No base64: a picture that cannot be shown.
                return base64.b64decode(value)
        return _core.to_wire(value)
    return _core.to_wire(as_text(value))
