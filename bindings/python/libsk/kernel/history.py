"""What a rank keeps of the cells it ran: ``In``, ``_i`` and the text for ``%history``.

IPython's own writes to a database, which ranks do not have, and declares the last inputs as checked
attributes; on a hundred ranks that share cores such things are most of a short cell.
"""

from __future__ import annotations

from typing import Any

from IPython.core.history import HistoryManager


class RankHistory(HistoryManager):
    """IPython's, in memory alone. What each cell reads is plain attributes."""

    _i = _ii = _iii = _i00 = ""
    input_hist_parsed: Any = None
    input_hist_raw: Any = None

    def __init__(self, *args: Any, **options: Any) -> None:
        self.input_hist_parsed, self.input_hist_raw = [""], [""]
        super().__init__(*args, **options)

    def store_inputs(self, line_num: int, source: str, source_raw: str | None = None) -> None:
        """One more cell: as it was typed, and as Python ran it."""
        raw = (source if source_raw is None else source_raw).rstrip("\n")
        if self._exit_re.match(raw.strip()):
            return
        self.input_hist_parsed.append(source.rstrip("\n"))
        self.input_hist_raw.append(raw)
        self._iii, self._ii, self._i, self._i00 = self._ii, self._i, self._i00, raw
        names = {"_i": self._i, "_ii": self._ii, "_iii": self._iii, f"_i{line_num}": raw}
        shell = self.shell
        shell.user_ns.update(names)
        shell.user_ns_hidden.update(names)
