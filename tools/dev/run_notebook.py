"""Executes a notebook as `jupyter execute` would, printing each cell's outputs at its end.

usage: run_notebook.py NOTEBOOK RESULT   (in the environment of build/venv)
Exit status 1 when a cell fails that is not tagged raises-exception. RESULT is written either way,
and its pictures beside it, as RESULT-1.png, RESULT-2.png and so on.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

CELL_TIMEOUT_S = 120


def show(kind: str, content: dict[str, Any]) -> None:
    """Prints one output; pictures by their size, for a terminal shows none."""
    if kind == "stream":
        print(content["text"], end="", flush=True)
    elif kind == "error":
        print(f"{content['ename']}: {content['evalue']}", flush=True)
    elif kind in ("display_data", "execute_result"):
        data = content["data"]
        picture = next((mime for mime in data if mime.startswith("image/")), None)
        if picture:
            print(f"[{picture}, {len(data[picture]) * 3 // 4} bytes]", flush=True)
        else:
            print(data.get("text/plain", f"[{', '.join(data)}]"), flush=True)


def start_of_cell(cell: Any, cell_index: int) -> None:
    """The cell's source, marked, before its outputs."""
    if cell.cell_type == "code":
        lines = "\n".join(f"  | {line}" for line in cell.source.splitlines())
        print(f"\nIn [{cell_index}]\n{lines}", flush=True)


def end_of_cell(cell: Any, cell_index: int, execute_reply: Any) -> None:
    """Its outputs as the notebook keeps them: what was replaced while it ran is not among them."""
    for output in cell.get("outputs", []):
        show(output["output_type"], output)


def write_pictures(notebook: Any, result: Path) -> None:
    """The PNG outputs in the order of the cells."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pictures = [
        output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})
    ]
    for number, text in enumerate(pictures, start=1):
        path = result.with_name(f"{result.stem}-{number}.png")
        path.write_bytes(base64.b64decode(text))


def main() -> int:
    """Runs the notebook named on the command line."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    source, result = Path(sys.argv[1]), Path(sys.argv[2])
    notebook = nbformat.read(source, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_S,
        resources={"metadata": {"path": str(result.parent)}},
        on_cell_execute=start_of_cell,
        on_cell_executed=end_of_cell,
    )
    failed = False
    try:
        client.execute()
    except CellExecutionError as error:
        print(f"run_notebook: {error}", file=sys.stderr, flush=True)
        failed = True
    nbformat.write(notebook, result)
    write_pictures(notebook, result)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
