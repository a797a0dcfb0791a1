"""Comms, on which widgets live: the ``comm`` package's classes over the rank's worker.

Every rank has its own comms: a slider that four ranks made is four sliders, and moving one changes
that rank alone. Messages from the notebook are handled by the main thread, in order with cells.
"""

from __future__ import annotations

import json
import math
from typing import Any

import comm
from comm.base_comm import BaseComm, CommManager

from libsk import _core
from libsk.kernel import places
from libsk.kernel.display import flush

COMM = 20
"""``SK_REQUEST_COMM``."""
_KINDS = {"comm_open": 1, "comm_msg": 2, "comm_close": 3}
"""``enum sk_comm_kind``."""


class RankComm(BaseComm):
    """A comm of this rank."""

    worker: _core.Worker

    def publish_msg(
        self,
        msg_type: str,
        data: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        buffers: list[Any] | None = None,
        **keys: Any,
    ) -> None:
        """Sends one message to the notebook."""
        flush()
        parts = [memoryview(buffer).tobytes() for buffer in buffers or []]
        target = keys.get("target_name") or self.target_name
        with places.claimed():
            self.worker.comm(
                _KINDS[msg_type], self.comm_id, target, _dump(data), _dump(metadata), parts
            )


class RankCommManager(CommManager):
    """Knows the comms of this rank and who handles those that the notebook opens."""

    def comm_open(self, stream: Any, ident: Any, msg: dict[str, Any]) -> None:
        """Hands a new comm to its target, or closes it with a sentence."""
        content = msg["content"]
        opened = comm.create_comm(
            comm_id=content["comm_id"], primary=False, target_name=content["target_name"]
        )
        self.register_comm(opened)
        target = self.targets.get(content["target_name"])
        if target is None:
            name = content["target_name"]
            opened.close(data={"error": f"no comm target named {name!r} is registered"})
            return
        try:
            target(opened, msg)
        except BaseException as failure:
            text = f"{type(failure).__name__}: {failure}"
            opened.close(data={"error": f"the comm's target failed with {text}"})
            raise

    def handle(self, request: dict[str, Any]) -> None:
        """One message from the notebook."""
        content = {
            "comm_id": request["comm"],
            "target_name": request["target"],
            "data": json.loads(request["code"]),
        }
        message = {
            "content": content,
            "metadata": json.loads(request["metadata"] or "{}"),
            "buffers": [memoryview(part) for part in request["buffers"]],
            "header": {},
            "parent_header": {},
        }
        kind = request["comm_kind"]
        if kind == _KINDS["comm_open"]:
            self.comm_open(None, None, message)
            return
        known = self.comms.get(request["comm"])
        if known is None:
            return  # Closed by this rank while the message was on its way.
        if kind == _KINDS["comm_msg"]:
            known.handle_msg(message)
        else:
            self.unregister_comm(known)
            known._closed = True  # The notebook knows; nothing is to be sent.
            known.handle_close(message)


def install(worker: _core.Worker) -> RankCommManager:
    """From now on whoever makes a comm in this process gets one of this rank."""
    manager = RankCommManager()
    manager.targets.update(comm.get_comm_manager().targets)  # Of modules that ranks share.

    def create_comm(*args: Any, **keys: Any) -> RankComm:
        made = RankComm.__new__(RankComm)
        made.worker = worker
        made.__init__(*args, **keys)  # type: ignore[misc]  # It opens the comm, so it comes last.
        return made

    comm.create_comm = create_comm
    comm.get_comm_manager = lambda: manager
    return manager


def _dump(value: dict[str, Any] | None) -> str:
    """JSON, which has no NaN: there it becomes null, as in every Jupyter kernel."""
    try:
        return json.dumps(value or {}, allow_nan=False, default=_fallback)
    except ValueError:
        return json.dumps(_without_nan(value), allow_nan=False, default=_fallback)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return value


def _fallback(value: Any) -> Any:
    """NumPy's scalars and dates are no JSON by themselves."""
    for method in ("isoformat", "item"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"a comm's data holds a {type(value).__name__}, which is no JSON")
