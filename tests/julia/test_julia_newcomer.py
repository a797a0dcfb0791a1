"""What is typed out of habit, or goes wrong first: a sentence that says what to type, and a
backtrace of the user's own lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Cell, Kernel, Kernels, start


def traceback(cell: Cell) -> str:
    """All of the error, as the notebook shows it."""
    return "\n".join(cell.reply["traceback"])


HABITS = {
    "%time 1 + 1": "there is no magic %time in Julia, but @time expression",
    "# first\n\n%timeit sum([1])": "@elapsed gives the seconds",
    "%%time\nx = 1": "there is no magic %%time in Julia, but @time",
    "%matplotlib inline": "none is needed: what shows itself as image/svg+xml",
    "x = 1\n%cd /tmp": 'but cd("folder")',
    "%load_ext something": "there is no magic %load_ext in Julia, but macros, such as @time",
    "x = 1\n%sk status": "%sk stands in the first line of a cell",
    "1 + 1\n%%bash\nls": "but ;command, in a cell of its own",
    "%%writefile a.txt\nhere": 'but write("file", text)',
    "!pip install it": "with a semicolon before it: ;pip install it",
    "1\n?sum": "help is a cell of its own: ?sum",
    "println?": "the question mark in front: ?println",
    "Base.println??": "the question mark in front: ?Base.println",
}


@pytest.mark.parametrize("code", HABITS)
def test_a_habit_of_python_gets_a_sentence(kernels: Kernels, code: str) -> None:
    cell = kernels(4).run(code)
    assert cell.reply["ename"] == "UsageError", cell.reply
    assert HABITS[code] in cell.reply["evalue"]


@pytest.mark.parametrize("code", ["(7\n% 4)", "x = 7\ny = x %\n  4", 'text = """\n%time\n"""; 3'])
def test_what_is_julia_stays_julia(kernels: Kernels, code: str) -> None:
    (shown,) = kernels(4).run(code).of("execute_result")
    assert shown["data"]["text/plain"] == "3"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("x = = 1", 1),
        ("# what\n#= and\n% why =#\n\n x = = 1", 5),
        ("x = 1\n# then\nx ]\n", 3),
        ("ä = 1; ;\n (", 2),
        ("f(", 1),
    ],
)
def test_what_is_neither_is_a_syntax_error_in_its_line(
    kernels: Kernels, code: str, line: int
) -> None:
    cell = kernels(1).run(code)
    assert cell.reply["ename"] == "CellSyntaxError"
    assert cell.reply["evalue"].endswith(f"]:{line}"), cell.reply["evalue"]


@pytest.mark.parametrize(
    "code",
    [
        "@on 99 1",
        "f(x) = @on 99 x\nf(1)",
        '@on "0-99" 1',
        "@on 1.5 1",
        "@on rank == 0 1",
        "readline()",
        "read(stdin, Char)",
        'Base.getpass("Key")',
        'allreduce(comm, "no array")',
        "allreduce(comm, [1]; op = 7)",
    ],
)
def test_a_backtrace_is_of_the_users_lines(kernels: Kernels, code: str) -> None:
    kernel = kernels(4)
    kernel.run("using LibSK")
    cell = kernel.run(code, allow_stdin=False)
    assert cell.reply["status"] == "error"
    text = traceback(cell)
    assert "top-level scope at In[" in text
    assert "/src/" not in text and "rank.jl" not in text
    assert "input()" not in text  # Which is Python's.
    if code.startswith("f(x)"):
        assert "f(::Int64) at In[" in text and "]:1" in text


WITHOUT_FRAMES = {
    "a = 1\nb = 2\nno_such_name\nc = 3": 3,
    "1; 2\nno_such_name": 2,
    "using NoSuch": 1,
    "a = 1\n\nusing Base: no_such_name": 3,
    "for i in 1:2\n    inner = i\nend\ninner": 4,
    "1\nbreak": 2,
    'struct Unseen end; Base.show(::IO, ::Unseen) = error("no")\nUnseen()': 2,
}


@pytest.mark.parametrize("code", WITHOUT_FRAMES)
def test_an_error_without_frames_has_its_statements_line(kernel: Kernel, code: str) -> None:
    lines = traceback(kernel.run(code)).splitlines()
    places = [line for line in lines if "top-level scope" in line]
    assert len(places) == 1 and "]:" in places[0], lines
    assert places[0].endswith(f"]:{WITHOUT_FRAMES[code]}")
    assert not any("invokelatest" in line for line in lines)


def test_an_error_of_no_statement_has_no_line(kernels: Kernels) -> None:
    kernel = kernels(1)
    kernel.run("no_such_name")
    assert "In[" not in traceback(kernel.run(";cd /no/such/folder"))


HINTS = {
    "barrier(comm)": "UndefVarError: barrier not defined\n`using LibSK` brings it in",
    "comm.allreduce([1])": "no field allreduce\nit is a function: `using LibSK`, and allr",
    "comm.no_such": "type Comm has no field no_such",
    "rank([1 0; 0 1])": "the rank of a matrix is LinearAlgebra.rank",
    "no_such_name": "UndefVarError: no_such_name not defined",
    'using REPL.TerminalMenus; request(RadioMenu(["a", "b"]))': "a menu needs a terminal",
    'using REPL.TerminalMenus; request("which?", RadioMenu(["a", "b"]))': "needs a terminal",
    'ENV["EDITOR"] = "vim.basic"; Main.InteractiveUtils.@edit sum(1)': "vim needs",
    "struct Kept; x; end; struct Kept; y; end": "until the kernel is restarted",
    "using NoSuchPackage": "add it in a cell that begins with %%on 0",
}


def test_an_error_says_what_is_meant(kernel: Kernel, ranks: int) -> None:
    said = {}
    for code in HINTS:
        # Without what other cells have brought in.
        kernel.run("module Fresh; const comm, rank = Main.comm, Main.rank; end; comm")
        cell = kernel.run(f"Core.eval(Fresh, quote; {code}; end)")
        said[code] = traceback(cell)
    for code, words in HINTS.items():
        assert words in said[code].replace("\x1b[31m", "")
    for code in ("no_such_name", "comm.no_such"):
        assert "using LibSK" not in said[code]


def test_ranks_meet_whatever_a_cell_has_made_of_the_environment(spec: Path) -> None:
    kernel = start(spec, 2)
    try:
        kernel.run("rank == 0 && foreach(name -> delete!(ENV, name), collect(keys(ENV)))")
        kernel.run('rank == 1 && (ENV["RANK"] = "0")')
        (shown,) = kernel.run("using LibSK; allreduce(comm, rank + 1)").of("execute_result")
        assert shown["data"]["text/plain"] == "3"
        assert kernel.run('print(get(ENV, "RANK", "none"))').text() == "[0] none\n[1] 0\n"
    finally:
        kernel.stop()


def test_help_beside_a_name_that_is_no_text(kernels: Kernels) -> None:
    kernel = kernels(1)
    kernel.run('Core.eval(Main, :($(Symbol("\\xff")) = 1)); nothing')
    for name in ("sum", "Base.sum", "@time"):
        page = kernel.run(f"?{name}").reply["payload"]
        assert name.split(".")[-1] in page[0]["data"]["text/plain"]


def test_a_condition_is_no_set_of_ranks(kernels: Kernels) -> None:
    assert "not a condition" in kernels(4).run("@on rank == 0 1").reply["evalue"]


def test_a_script_finds_no_arguments_of_the_rank(kernels: Kernels) -> None:
    (shown,) = kernels(1).run("ARGS").of("execute_result")
    assert shown["data"]["text/plain"] == "String[]"


@pytest.mark.parametrize("code", ["1\n!ls", "1\n  ;ls -l", "!ls - l", "2; 3\n! ls"])
def test_a_command_of_the_shell_that_is_julia_gets_a_hint(kernels: Kernels, code: str) -> None:
    text = traceback(kernels(4).run(code))
    assert "with a semicolon before it: ;ls" in text and "UndefVarError: ls" in text


@pytest.mark.parametrize("code", ["!ls()", "ls", "1; !ls", "x = !ls", "!ls.x"])
def test_what_is_no_command_of_the_shell_gets_none(kernels: Kernels, code: str) -> None:
    text = traceback(kernels(1).run(code))
    assert "semicolon" not in text and "UndefVarError: ls" in text


def test_names_of_libsk_are_known_before_it_is(spec: Path) -> None:
    kernel = start(spec, 1)
    try:
        (page,) = kernel.run("?allreduce_gemm!").reply["payload"]
        assert "`using LibSK` brings it in" in page["data"]["text/plain"]
        for name in ("barrier", "recv!", "allgather_gemm!", "Packed", "adamw!"):
            assert "`using LibSK` brings it in" in traceback(kernel.run(name))
        assert "LibSK" not in traceback(kernel.run("no_such_name"))
        (page,) = kernel.run("using LibSK\n1;") and kernel.run("?allreduce").reply["payload"]
        assert "of all ranks joined" in page["data"]["text/plain"]
    finally:
        kernel.stop()


def test_an_error_that_differs_by_an_address_is_one(kernels: Kernels) -> None:
    kernel = kernels(4)
    kernel.run("using LibSK; A = zeros(4, 4 + rank)")
    cell = kernel.run("allreduce!(comm, view(A, 1:2, 1), view(A, 2:3, 1))")
    assert len(cell.of("error")) == 1 and "[ranks 0-3]" in traceback(cell)
    assert "16 bytes) overlap" in traceback(cell)


def test_an_exit_of_a_task_says_that_it_ends_no_rank(kernels: Kernels) -> None:
    kernel = kernels(1)
    said = kernel.run("@async exit(); sleep(0.1)").text("stderr")
    assert "exit(0): a cell does not end its rank" in said
    assert kernel.run("exit()").text("stderr") == ""


def test_a_form_that_fails_is_told_where_there_is_no_other(kernels: Kernels) -> None:
    kernel = kernels(1)
    cell = kernel.run('using Markdown; md"# hi $rank"')
    (shown,) = cell.of("execute_result")
    assert "text/markdown" in shown["data"] and cell.text("stderr") == ""
    kernel.run('struct OnlyRich end; Base.show(::IO, ::MIME"text/latex", ::OnlyRich) = error("no")')
    assert "not shown as text/latex" in kernel.run("OnlyRich()").text("stderr")
