"""The same page with Julia on its ranks, where there is one; each leaves a picture in build/lab."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from lab import Notebook

if os.environ.get("SK_JULIA", "None") == "None":
    pytest.skip("no Julia here; ./dev test --suite julia gets it", allow_module_level=True)

Open = Callable[..., Notebook]

WALKS = """using LibSK, Random

steps = cumsum(randn(MersenneTwister(rank), 200))  # Each rank walks alone.
walks = allgather(comm, steps)                     # A column for each rank.
println("rank $rank has come to ", round(Int, steps[end]))
size(walks)"""

PLOT = '''struct Plot
    lines::Matrix{Float64}
end

function Base.show(io::IO, ::MIME"image/svg+xml", plot::Plot)
    low, high = extrema(plot.lines)
    print(io, """<svg xmlns="http://www.w3.org/2000/svg" width="620" height="170">""")
    for (line, colour) in zip(eachcol(plot.lines), ("#1f77b4", "#d9822b", "#3a9a5b", "#8a5bb4"))
        down(y) = 160 - 150(y - low) / (high - low)
        path = join(("$(3x),$(down(y))" for (x, y) in enumerate(line)), " ")
        print(io, """<polyline points="$path" fill="none" stroke="$colour" stroke-width="2"/>""")
    end
    print(io, "</svg>")
end

Plot(walks)'''


def test_a_plot_of_julia(open_notebook: Open) -> None:
    notebook = open_notebook(WALKS, PLOT, language="julia")
    notebook.run(0)
    assert "[3] rank 3 has come to" in notebook.text(0)
    assert notebook.text(0).count("(200, 4)") == 1
    notebook.run(1)
    assert notebook.outputs(1).count() == 1  # Alike on all ranks.
    notebook.picture()


def test_an_error_of_julia(open_notebook: Open) -> None:
    notebook = open_notebook(
        "function share(amounts)\n"
        '    rank == 2 && throw(DomainError(rank, "this rank has no share"))\n'
        '    amounts[rank + 1]\nend\n\nprintln("before")\nshare([0.4, 0.3, 0.2, 0.1])',
        'println("rank ", rank, " is still here")',
        language="julia",
    )
    notebook.run(0)
    text = notebook.text(0)
    assert text.count("Stacktrace:") == 1 and "DomainError with 2" in text
    assert "share(::Array{Float64,1}) at In[" in text and "/src/" not in text
    assert "rank 2" in text
    notebook.run(1)
    assert "[2] rank 2 is still here" in notebook.text(1)
    notebook.picture()


def test_an_interrupt_of_julia(open_notebook: Open) -> None:
    notebook = open_notebook(
        'using LibSK\nkept = 7rank\nprintln("waiting")\n'
        "rank == 2 && sleep(600)  # The others wait for this one.\nbarrier(comm)",
        "println(kept)\nallreduce(comm, [1])",
        language="julia",
    )
    notebook.start(0)
    notebook.wait_for(0, "waiting")
    notebook.toolbar("notebook:interrupt-kernel")
    notebook.finish(0)
    assert "InterruptException" in notebook.text(0)
    notebook.run(1)
    assert "[3] 21" in notebook.text(1) and notebook.text(1).rstrip().endswith("4")
    notebook.picture()
