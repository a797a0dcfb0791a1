"""`sk kernel` with Julia ranks: what a user of a notebook does first."""

from __future__ import annotations

from time import sleep
from typing import Any

import pytest
from conftest import Cell, Kernel, Kernels, wait_until


def tagged(ranks: int, *lines: str) -> str:
    """Lines of each rank, as a cell shows what differs; `{}` is the rank."""
    tag = "[{0}] " if ranks > 1 else ""
    return "".join(f"{tag}{line}\n".format(rank) for rank in range(ranks) for line in lines)


def of_all(ranks: int) -> str:
    """What stands behind an error of all ranks."""
    return "" if ranks == 1 else f" [ranks 0-{ranks - 1}]"


def result(cell: Cell) -> str:
    """The text of the cell's value."""
    (shown,) = cell.of("execute_result")
    return str(shown["data"]["text/plain"])


def ename(cell: Cell) -> str | None:
    """The error's name, or None."""
    return cell.reply["ename"] if cell.reply["status"] == "error" else None


def test_print_reads_as_one(kernel: Kernel) -> None:
    assert kernel.run("print(1)").text() == "1"
    assert kernel.run('println("hello")').text() == "hello\n"


def test_every_rank_knows_itself(kernel: Kernel, ranks: int) -> None:
    text = kernel.run('println(rank, " ", local_rank, " of ", world_size)').text()
    assert text == tagged(ranks, f"{{0}} {{0}} of {ranks}")


def test_a_value_is_a_result_and_is_ans(kernel: Kernel, ranks: int) -> None:
    assert result(kernel.run("1 + 1")) == "2"
    assert result(kernel.run("ans * 10")) == "20"
    assert kernel.run("3;").messages == []
    assert kernel.run("nothing").messages == []
    assert result(kernel.run("[1 2; 3 4]")) == "2×2 Array{Int64,2}:\n 1  2\n 3  4"
    expected = "0" if ranks == 1 else "\n".join(f"[{rank}] {rank * 10}" for rank in range(ranks))
    assert result(kernel.run("rank * 10")) == expected


def test_what_a_cell_includes_lies_where_it_runs(kernel: Kernel) -> None:
    kernel.run('cd(mktempdir()); write("part.jl", "included = 7 * 6")')
    assert result(kernel.run('include("part.jl"); included')) == "42"


def test_a_seed_is_the_ranks_own(kernel: Kernel, ranks: int) -> None:
    draw = "import Random\n(Random.seed!(7 + rank); rand()) == drawn"
    assert kernel.run("%sk seed 7").reply["status"] == "ok"
    kernel.run("drawn = rand()")
    assert result(kernel.run(draw)) == "true"
    cell = kernel.run("%sk preload")
    assert ename(cell) == "UsageError" and "only ranks of Python" in cell.reply["evalue"]


def test_globals_in_loops_are_the_repls(kernel: Kernel) -> None:
    assert result(kernel.run("s = 0\nfor i in 1:10\n    s += i\nend\ns")) == "55"


def test_one_error_with_the_cells_line(kernel: Kernel, ranks: int) -> None:
    cell = kernel.run('function g(x)\n    error("boom")\nend\ng(1)')
    assert len(cell.of("error")) == 1
    assert ename(cell) == "ErrorException"
    assert cell.reply["evalue"] == "boom" + of_all(ranks)
    traceback = "\n".join(cell.reply["traceback"])
    assert "g(::Int64) at In[" in traceback and "]:2" in traceback
    assert "top-level scope at In[" in traceback and "]:4" in traceback
    assert "SuperKernelRank" not in traceback and "boot.jl" not in traceback


def test_an_error_through_compiled_code(kernel: Kernel, ranks: int) -> None:
    cell = kernel.run("h(x) = sqrt(x)\nh(-1.0)")
    assert ename(cell) == "DomainError"
    assert "h(::Float64)" in "\n".join(cell.reply["traceback"])
    assert kernel.run("print(rank < world_size)").text() == "true"


def test_what_led_to_an_error_is_told(kernel: Kernel) -> None:
    cell = kernel.run('try\n    error("first")\ncatch\n    error("second")\nend')
    assert cell.reply["evalue"].startswith("second")
    traceback = "\n".join(cell.reply["traceback"])
    assert traceback.index("second") < traceback.index("caused by") < traceback.index("first")


def test_a_cell_that_is_no_julia_runs_nothing(kernel: Kernel) -> None:
    cell = kernel.run('println("not run")\n\n\nf(x = ]')
    assert ename(cell) == "CellSyntaxError"
    assert cell.text() == ""
    assert "]:4" in cell.reply["evalue"]


def test_every_way_to_print_is_seen_in_order(kernel: Kernel) -> None:
    code = (
        'println("julia")\n'
        'ccall(:puts, Cint, (Cstring,), "C")\n'
        "run(`echo child`)\n"
        "run(pipeline(`echo piped`, stdout = stdout))\n"
        'ccall(:write, Cssize_t, (Cint, Cstring, Csize_t), 1, "descriptor\\n", 11)\n'
        'println("again")\n'
        'println(stderr, "error")'
    )
    cell = kernel.run(code + ";")
    assert cell.text() == "julia\nC\nchild\npiped\ndescriptor\nagain\n"
    assert cell.text("stderr") == "error\n"


def test_logging_goes_to_stderr(kernel: Kernel) -> None:
    cell = kernel.run('@warn "careful"')
    assert "careful" in cell.text("stderr") and "In[" in cell.text("stderr")


def test_displays_by_their_richest_form(kernel: Kernel) -> None:
    code = (
        "struct Picture end\n"
        'Base.show(io::IO, ::MIME"image/png", ::Picture) =\n'
        "    write(io, UInt8[0x89, 0x50, 0x4e, 0x47])\n"
        'Base.show(io::IO, ::MIME"text/html", ::Picture) = print(io, "<b>picture</b>")\n'
        "display(Picture())\nPicture()"
    )
    cell = kernel.run(code)
    (shown,) = cell.of("display_data")
    assert shown["data"]["image/png"].strip() == "iVBORw=="
    assert shown["data"]["text/html"] == "<b>picture</b>"
    (value,) = cell.of("execute_result")
    assert value["data"] == shown["data"]
    svg = kernel.run('display("image/svg+xml", "<svg/>")').of("display_data")
    assert svg[0]["data"]["image/svg+xml"] == "<svg/>"


def test_a_display_that_is_updated(kernel: Kernel) -> None:
    kernel.run('sk.display_as("here", 1)')
    cell = kernel.run('sk.update_display("here", 2)')
    (update,) = cell.of("update_display_data")
    assert update["data"]["text/plain"] == "2"


def test_help_the_shell_and_packages(kernel: Kernel, ranks: int) -> None:
    page = kernel.run("?println").reply["payload"]
    assert page[0]["source"] == "page" and "println" in page[0]["data"]["text/plain"]
    assert kernel.run(";echo hi; exit 3").text() == "hi\nexit status 3\n"
    cell = kernel.run("]add Example")
    assert ename(cell) == "UsageError" and "%%on 0" in cell.reply["evalue"]


def test_on_some_ranks(kernel: Kernel, ranks: int) -> None:
    assert kernel.run('@on 0 println("one")').text() == ("one\n" if ranks == 1 else "[0] one\n")
    everybody = f'@on "0-{ranks - 1}" println("all")' if ranks > 1 else '@on "0" println("all")'
    assert kernel.run(everybody).text() == "all\n"
    assert kernel.run("%%on 0\nprintln(rank)").text() == "0\n"
    cell = kernel.run("@on 99 1")
    assert ename(cell) == "ArgumentError" and "rank 99 asked for" in cell.reply["evalue"]


def test_exit_ends_no_rank(kernel: Kernel) -> None:
    for code in ("exit()", "exit(3)", "f_exit() = exit(1); f_exit()"):
        cell = kernel.run(code)
        assert ename(cell) == "ExitError" and "does not end its rank" in cell.reply["evalue"]
    assert kernel.run("print(1)").text() == "1"


def test_answers_beside_cells(kernel: Kernel) -> None:
    client = kernel.client
    client.complete("printl", 6)
    found = client.get_shell_msg(timeout=60)["content"]
    assert "println" in found["matches"] and (found["cursor_start"], found["cursor_end"]) == (0, 6)
    code = "x = \\alph"
    client.complete(code, len(code))
    found = client.get_shell_msg(timeout=60)["content"]
    assert "\\alpha" in found["matches"] and found["cursor_start"] == 4
    code = "ä + \\alpha"
    client.complete(code, len(code))
    found = client.get_shell_msg(timeout=60)["content"]
    assert found["matches"] == ["α"] and (found["cursor_start"], found["cursor_end"]) == (4, 10)

    def help_of(code: str, cursor: int) -> dict[str, Any]:
        client.inspect(code, cursor)
        told: dict[str, Any] = client.get_shell_msg(timeout=60)["content"]
        return told

    # While Julia still compiles what shows documentation, the names alone answer.
    assert wait_until(lambda: help_of("sum([1])", 2)["found"])
    assert "sum" in help_of("sum([1])", 2)["data"]["text/plain"]
    client.inspect("no_such_name", 3)
    assert not client.get_shell_msg(timeout=60)["content"]["found"]
    for code, status in (("1 + 1", "complete"), ("function f()", "incomplete"), ("1 )", "invalid")):
        client.is_complete(code)
        assert client.get_shell_msg(timeout=60)["content"]["status"] == status
    while kernel.client.iopub_channel.msg_ready():
        kernel.client.get_iopub_msg(timeout=1)


def test_names_are_completed_while_a_cell_runs(kernel: Kernel) -> None:
    kernel.run("a_name_of_mine = [1, 2]")
    sent = kernel.start('rank == 0 && println("on")\nsleep(60)')  # Rank 0 will be asked.
    kernel.wait_for_stream(sent)
    kernel.client.complete("a_name_of", 9)
    found = kernel.client.get_shell_msg(timeout=60)["content"]
    assert found["matches"] == ["a_name_of_mine"]
    kernel.manager.interrupt_kernel()
    assert ename(kernel.finish(sent)) == "InterruptException"


def test_user_expressions(kernel: Kernel) -> None:
    cell = kernel.run("y = 3;", user_expressions={"twice": "2y", "bad": 'error("no \\"é\\"")'})
    answers = cell.reply["user_expressions"]
    assert answers["twice"]["data"]["text/plain"] == "6"
    assert answers["bad"]["status"] == "error" and answers["bad"]["evalue"] == 'no "é"'


def test_input_is_asked_once(kernel: Kernel, ranks: int) -> None:
    sent = kernel.start('println("got ", readline())', allow_stdin=True)
    assert kernel.prompt(sent)["prompt"] == "stdin> "
    kernel.client.input("a line")
    assert kernel.finish(sent).text() == "got a line\n"
    sent = kernel.start('print(read(Base.getpass("Key"), String))', allow_stdin=True)
    asked = kernel.prompt(sent)
    assert asked == {"prompt": "Key: ", "password": True}
    kernel.client.input("secret")
    assert kernel.finish(sent).text() == "secret"
    cell = kernel.run("readline()", allow_stdin=False)
    assert ename(cell) == "StdinNotImplementedError"


def test_magics_that_languages_share(kernel: Kernel, ranks: int) -> None:
    assert kernel.run("%hostname").text().strip()
    facts = kernel.run("%info").of("display_data")[0]["data"]["text/plain"]
    assert "julia" in facts and "processor" in facts
    kernel.run("mine = 5; also = [1]")
    kernel.run("%reset")
    assert kernel.run('println(mine === nothing, " ", rank < world_size)').text() == "true true\n"
    cell = kernel.run("%%onn 0\n1")
    assert ename(cell) == "UsageError" and "did you mean %%on" in cell.reply["evalue"]


def test_a_task_goes_on_between_cells(kernel: Kernel) -> None:
    kernel.run("c = Channel(1); t = @async (sleep(0.05); put!(c, 7));")
    # These cells let no task run.
    assert wait_until(lambda: kernel.run("print(isready(c))").text() == "true")
    assert result(kernel.run("take!(c)")) == "7"


def test_redirection_is_undone(kernel: Kernel) -> None:
    code = (
        'old = stdout; rd, wr = redirect_stdout(); println("captured"); redirect_stdout(old)\n'
        'close(wr); println("got ", readline(rd))'
    )
    assert kernel.run(code).text() == "got captured\n"
    cell = kernel.run("ccall(:close, Cint, (Cint,), 1);")
    assert "holds for the cell alone" in cell.text("stderr")
    assert kernel.run("run(`echo seen`);").text() == "seen\n"
    kernel.run("ccall(:close, Cint, (Cint,), 0);")
    assert kernel.run('print(readlink("/proc/self/fd/0")); run(`cat`);').text() == "/dev/null"


def test_each_stream_is_put_back_where_it_was(kernel: Kernel) -> None:
    code = (
        'for (redirect, name) in ((redirect_stdout, "out"), (redirect_stderr, "err"))\n'
        '    open("/dev/null", "w") do file; redirect(() -> println("away"), file); end\n'
        "end\n"
        'open(file -> redirect_stdin(readline, file), "/dev/null")\n'
        'println("out"); println(stderr, "err"); println(readline())'
    )
    sent = kernel.start(code, allow_stdin=True)
    kernel.prompt(sent)
    kernel.client.input("in")
    cell = kernel.finish(sent)
    assert (cell.text(), cell.text("stderr")) == ("away\nout\nin\n", "err\n"), cell.reply


@pytest.mark.parametrize(
    "code",
    [
        "sleep(60)",
        "while true end",
        "while true; sin(1.0); end",
        "@time for i in 1:10^12; sin(i); end",
        "x = @elapsed while true; sin(1.0); end",
        "Threads.@threads for i in 1:10^12; sin(i); end",
        "loops() = (while true; rand(3); end); loops()",
        "take!(Channel(0))",
        "run(`sleep 60`)",
        ";sleep 60",
        "ccall(:usleep, Cint, (Cuint,), 600000); sleep(60)",
        "@sync for i in 1:3; @async sleep(60); end",
        "lock(ReentrantLock()); wait(Condition())",
        "readline()",
        'while true; print("x"); end',
    ],
)
def test_interrupts(kernel: Kernel, code: str) -> None:
    shown = f";echo on; {code[1:]}" if code[0] == ";" else f'println("on")\n{code}'
    sent = kernel.start(shown, allow_stdin=True)
    kernel.wait_for_stream(sent)
    kernel.manager.interrupt_kernel()
    cell = kernel.finish(sent)
    # As in Julia: what ended tasks of a cell is told within the error of whoever waited.
    kinds = ("InterruptException", "CompositeException", "TaskFailedException")
    assert ename(cell) in kinds and "Interrupt" in str(cell.reply), cell.reply
    assert kernel.run("print(rank < world_size)").text() == "true"


def test_an_interrupt_of_a_sleep_twenty_times(kernel: Kernel, ranks: int) -> None:
    kernel.run("kept = rank")
    processes = kernel.ranks()
    for _ in range(20):
        sent = kernel.start('println("asleep")\nsleep(60)')
        kernel.wait_for_stream(sent)
        kernel.manager.interrupt_kernel()
        assert ename(kernel.finish(sent)) == "InterruptException"
        assert kernel.run("println(kept)").text() == tagged(ranks, "{0}")
    assert kernel.ranks() == processes


def test_an_interrupt_while_ranks_begin_to_ask_is_one_error(kernel: Kernel) -> None:
    for _ in range(10):
        sent = kernel.start('println("on")\nsleep(rank / 500)\nreadline()', allow_stdin=True)
        kernel.wait_for_stream(sent)
        kernel.manager.interrupt_kernel()
        cell = kernel.finish(sent)
        assert ename(cell) == "InterruptException", cell.reply
        assert kernel.run("print(rank < world_size)").text() == "true"


def test_an_interrupt_is_told_once(kernels: Kernels) -> None:
    """What a cell does about it is not interrupted by the same one. On one rank: several that
    compute may get no processor for so long that the signal comes, too."""
    kernel = kernels(1)
    code = (
        'println("on"); rank_program = Base.loaded_modules[Base.PkgId("SuperKernelRank")]\n'
        "while !rank_program.is_cancelled() end\n"  # No task runs there.
        "try readline() catch error; sleep(0.2); print(typeof(error)) end"
    )
    sent = kernel.start(code, allow_stdin=True)
    kernel.wait_for_stream(sent)
    kernel.manager.interrupt_kernel()
    cell = kernel.finish(sent)
    assert cell.reply["status"] == "ok", cell.reply
    assert cell.text() == "on\nInterruptException"


@pytest.mark.parametrize(
    "waits",
    [
        "while true; allreduce(comm, ones(10)); end",
        "rank == 0 ? sleep(60) : barrier(comm)",
        "rank == 0 ? stay() : barrier(comm)",
    ],
)
def test_an_interrupted_collective_is_one_interrupt(kernels: Kernels, waits: str) -> None:
    kernel = kernels(3)
    kernel.run("using LibSK; barrier(comm)\nstay() = while true; rand(3); end")
    code = f"""try
    barrier(comm); println("on")
    {waits}
catch error
    error isa InterruptException || rethrow()
    sleep(0.7)
    run(`sleep 0.3`)
    print("saved")
end"""
    for _ in range(3):
        sent = kernel.start(code)
        kernel.wait_for_stream(sent)
        sleep(0.05)
        kernel.manager.interrupt_kernel()
        cell = kernel.finish(sent)
        assert cell.text() == "on\nsaved", cell.reply


@pytest.mark.parametrize("waits", ["sleep(60)", "for i in 1:10^12; sin(i); end"])
@pytest.mark.parametrize("saves", ["run(`sleep 0.9`)", "sleep(0.02rank); barrier(comm)"])
def test_the_first_thing_a_cell_does_about_an_interrupt_goes_on(
    kernels: Kernels, waits: str, saves: str
) -> None:
    kernel = kernels(2)
    kernel.run("using LibSK; barrier(comm)")
    on = 'barrier(comm); println("on")'  # So that all have come into their `try`.
    code = f'try\n    {on}\n    {waits}\ncatch\n    {saves}\n    print("saved")\nend'
    for _ in range(3):
        sent = kernel.start(code)
        kernel.wait_for_stream(sent)
        kernel.manager.interrupt_kernel()
        cell = kernel.finish(sent)
        assert cell.text() == "on\nsaved", cell.reply


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize(
    "waits",
    [
        "sleep(60)",
        "while true; rand(3); end",
        "readline()",
        "rank == 0 ? sleep(60) : barrier(comm)",
    ],
)
def test_what_a_cell_does_about_an_interrupt_may_ask(
    kernels: Kernels, ranks: int, waits: str
) -> None:
    """And takes the time that whoever is asked needs: nobody is stuck meanwhile."""
    if ranks == 1 and "barrier" in waits:
        return
    kernel = kernels(ranks)
    kernel.run("using LibSK; barrier(comm)")
    code = f"""try
    barrier(comm); println("on")
    {waits}
catch error
    error isa InterruptException || rethrow()
    line = readline()
    sleep(0.9)
    print("got ", line, " ", readline())
end"""
    for _ in range(2):
        sent = kernel.start(code, allow_stdin=True)
        kernel.wait_for_stream(sent)
        if waits == "readline()":
            kernel.prompt(sent)
        kernel.manager.interrupt_kernel()
        kernel.prompt(sent)
        sleep(2)
        kernel.client.input("yes")
        kernel.prompt(sent)
        kernel.client.input("the end")
        cell = kernel.finish(sent)
        assert cell.text() == "on\ngot yes the end", cell.reply


@pytest.mark.parametrize("ranks", [1, 4])
def test_a_press_interrupts_the_question_about_the_one_before(kernels: Kernels, ranks: int) -> None:
    kernel = kernels(ranks)
    kernel.run("using LibSK; barrier(comm)")
    code = """try
    barrier(comm); println("on")
    sleep(60)
catch
    try
        readline()
    catch error
        print(typeof(error), " ", readline())
    end
end"""
    sent = kernel.start(code, allow_stdin=True)
    kernel.wait_for_stream(sent)
    for _ in range(2):
        kernel.manager.interrupt_kernel()
        kernel.prompt(sent)
    kernel.client.input("yes")
    assert kernel.finish(sent).text() == "on\nInterruptException yes"
    sent = kernel.start(code, allow_stdin=True)
    kernel.wait_for_stream(sent)
    for _ in range(2):
        kernel.manager.interrupt_kernel()
        kernel.prompt(sent)
    kernel.manager.interrupt_kernel()  # The third ends the cell at once.
    kernel.finish(sent)
    assert wait_until(lambda: kernel.run("nothing").reply["status"] == "ok")


def test_a_press_on_a_rank_that_saves_for_long_is_one_exception(kernels: Kernels) -> None:
    """It is stuck, as far as one can say, and yet it looks."""
    kernel = kernels(1)
    kernel.run("work(s) = (t = time(); while time() - t < s; rand(3); end); told = []")
    code = """try
    println("on")
    work(60)
catch
    try
        work(60)
    catch error
        push!(told, error)
        try; work(0.8); catch error; push!(told, error); end
    end
end"""
    sent = kernel.start(code)
    kernel.wait_for_stream(sent)
    kernel.manager.interrupt_kernel()
    assert "did not stop when interrupted" in kernel.finish(sent).reply["evalue"]
    kernel.manager.interrupt_kernel()
    assert wait_until(lambda: kernel.run("nothing").reply["status"] == "ok")
    assert kernel.run("print(length(told))").text() == "1"


@pytest.mark.parametrize("stays", ["while true end", "while true ccall(:getppid, Cint, ()) end"])
def test_a_rank_that_never_looks_keeps_its_state_through_the_next_press(
    kernels: Kernels, stays: str
) -> None:
    """Julia 1.5 looks at signals nowhere in such a loop; at the fourth in a row it throws."""
    kernel = kernels(2)
    kernel.run(f"stays() = {stays}\nstate = 42")
    sent = kernel.start('println("on")\nrank == 1 && stays()')
    kernel.wait_for_stream(sent)
    kernel.manager.interrupt_kernel()
    assert "did not stop when interrupted" in kernel.finish(sent).reply["evalue"]
    refused = kernel.run("state").reply
    assert (
        "rank 1 did not answer" in refused["evalue"] and "another one may end" in refused["evalue"]
    )
    kernel.manager.interrupt_kernel()
    assert wait_until(lambda: kernel.run("nothing").reply["status"] == "ok")
    for _ in range(3):  # Nothing of the row is left for later cells.
        assert kernel.run("sleep(0.1); print(state)").text() == "42"


@pytest.mark.parametrize("waits", ["sleep(60)", "while true end"])
@pytest.mark.parametrize("saves", ["sleep(takes)", "while time() < start + takes; sin(1.0); end"])
def test_what_a_cell_does_about_an_interrupt_goes_on(
    kernels: Kernels, waits: str, saves: str
) -> None:
    """One press is one exception, also where that is told by the signal, and the controller's own
    second one after half a second is for those who have not heard the first."""
    kernel = kernels(1)
    code = (
        f'try\n    println("on")\n    {waits}\ncatch error\n'
        f"    start = time()\n    {saves}\n    print(typeof(error))\nend"
    )
    kernel.run("takes = 0.9")
    sent = kernel.start(code)
    kernel.wait_for_stream(sent)
    kernel.manager.interrupt_kernel()
    cell = kernel.finish(sent)
    assert cell.reply["status"] == "ok", cell.reply
    assert cell.text() == "on\nInterruptException"
    kernel.run("takes = 60")
    sent = kernel.start(code)
    kernel.wait_for_stream(sent)
    for _ in range(2):  # The second is another.
        kernel.manager.interrupt_kernel()
        sleep(0.7)
    assert ename(kernel.finish(sent)) == "InterruptException"


def test_a_rank_can_be_asked_where_it_is_while_it_compiles(kernel: Kernel) -> None:
    """The answer comes from the midst of the compiler, which goes on with its work."""
    code = (
        'println("on")\n'
        "for i in 1:100\n"
        '    eval(Meta.parse("compiled$i(x) = (y = x .+ $i; sum(abs2, y) / length(y))"))\n'
        '    eval(Meta.parse("compiled$i([1.0, $i])"))\n'
        "end\n"
        "print(compiled100([0.0]))"
    )
    sent = kernel.start(code)
    kernel.wait_for_stream(sent)
    for _ in range(40):
        assert "rank" in kernel.aside("%sk stack")
    cell = kernel.finish(sent)
    assert cell.text().endswith("10000.0"), cell.reply


def test_interrupts_between_cells_do_nothing(kernel: Kernel) -> None:
    processes = kernel.ranks()
    for _ in range(5):
        kernel.manager.interrupt_kernel()  # On another channel: it may meet the next cell.
        assert wait_until(lambda: kernel.run("print(1)").text() == "1")
    assert kernel.ranks() == processes


def test_what_the_repl_brings_is_there(kernel: Kernel) -> None:
    assert "Julia Version" in kernel.run("versioninfo()").text()
    assert "sin" in result(kernel.run("@which sin(1.0)"))
    kernel.run("%reset")
    assert kernel.run("varinfo()").reply["status"] == "ok"


def test_other_modes_below_a_magic_or_a_comment(kernel: Kernel) -> None:
    assert kernel.run("%%on 0\n;echo here").text() == "here\n"
    assert kernel.run("# why\n\n;echo here").text() == "here\n"
    assert "println" in kernel.run("%%on 0\n?println").reply["payload"][0]["data"]["text/plain"]
    assert result(kernel.run("#= no\n;echo =# 7")) == "7"


def test_what_is_left_of_an_answer_answers_no_later_cell(kernel: Kernel) -> None:
    for line in ("5 and more", "other"):
        sent = kernel.start("read(stdin, Char)", allow_stdin=True)
        assert kernel.prompt(sent)["prompt"] == "stdin> "
        kernel.client.input(line)
        assert result(kernel.finish(sent)).startswith(f"'{line[0]}'")


def test_an_interrupt_in_a_call_of_c_is_told_of_the_cell(kernel: Kernel) -> None:
    sent = kernel.start('println("on"); ccall(:sleep, Cuint, (Cuint,), 100)')
    kernel.wait_for_stream(sent)
    kernel.manager.interrupt_kernel()
    cell = kernel.finish(sent)
    assert ename(cell) == "InterruptException", cell.reply
    assert "REPL.jl" not in "\n".join(cell.reply["traceback"])
