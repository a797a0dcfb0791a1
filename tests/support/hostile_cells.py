"""Cells that a kernel has to survive, each with the error it ends with: what ipykernel shows.

The name of a case says what is odd; ``None`` is a cell without an error. Where one leaves something
behind that no later cell could work with (its own print, say), the second cell takes it back.
"""

from __future__ import annotations

from typing import NamedTuple

_BOOM = "def boom(*_, **__): raise RuntimeError('boom')\n"


class Case(NamedTuple):
    """A hostile cell, its error's name, and the cell that takes back what cannot stay."""

    code: str
    ename: str | None = None
    undo: str = ""


NAMES = {
    "a proxy of what is gone": Case(
        "import weakref\nclass M: pass\nm = M(); p = weakref.proxy(m); del m"
    ),
    "a class that raises": Case(
        _BOOM + "class C:\n    __class__ = property(boom)\nhostile_class = C()"
    ),
    "attributes that raise": Case(
        _BOOM + "class G:\n    __getattribute__ = __getattr__ = __dir__ = boom\nno_attributes = G()"
    ),
    "a dictionary that raises": Case(
        _BOOM + "class D:\n    __dict__ = property(boom)\nno_dictionary = D()"
    ),
    "a dictionary of its own kind": Case(
        _BOOM + "class Own(dict):\n    keys = items = values = __iter__ = __len__ = boom\n"
        "class O: pass\nown_kind = O(); own_kind.__dict__ = Own(a=1)"
    ),
    "comparisons that raise": Case(
        _BOOM + "class E:\n    __eq__ = __hash__ = __bool__ = __len__ = __repr__ = __str__ = boom\n"
        "incomparable = E()"
    ),
    "a type that hides all": Case(
        _BOOM + "class Meta(type):\n    __getattribute__ = __eq__ = __instancecheck__ = boom\n"
        "    __hash__ = __subclasscheck__ = mro_ = boom\n"
        "class Hidden(metaclass=Meta): pass\nhidden = Hidden()"
    ),
    "a type without a name": Case(
        _BOOM + "class Meta(type):\n    __name__ = __doc__ = __module__ = property(boom)\n"
        "class Nameless(metaclass=Meta): pass\nnameless = Nameless()"
    ),
    "a module that raises": Case(
        _BOOM + "import types\nclass Mod(types.ModuleType):\n    __dict__ = property(boom)\n"
        "    __getattribute__ = boom\nhostile_module = Mod('hostile')"
    ),
    "a module without a dictionary": Case(
        "import types\nempty_module = types.ModuleType.__new__(types.ModuleType)"
    ),
    "a name that is a number": Case("globals()[5] = 1"),
    "a name that is no UTF-8": Case("globals()['\\udcff'] = 1"),
    "a name that is a tuple of names": Case("globals()[('a', 'b')] = 1"),
    "a name that compares badly": Case(
        _BOOM + "class K(str):\n    __hash__ = str.__hash__\n    __eq__ = boom\n"
        "globals()[K('own_hash')] = 1"
    ),
    "a function without a name": Case("def f(): pass\nf.__name__ = '\\udcff'"),
    "a function with odd words": Case(
        "def g(): pass\ng.__doc__ = '\\udcff'; g.__qualname__ = '\\0'"
    ),
    "defaults that raise": Case(
        _BOOM + "class R:\n    __repr__ = boom\ndef with_defaults(a=R(), *, b=R()) -> R(): pass"
    ),
    "a signature that is none": Case(
        "def signed(): pass\nsigned.__signature__ = 5\n"
        "def wrapped(): pass\nwrapped.__wrapped__ = wrapped"
    ),
    "a method of anything": Case(
        _BOOM + "import types\nclass Callee:\n    __call__ = __getattr__ = boom\n"
        "    __doc__ = property(boom)\nmethod = types.MethodType(Callee(), 3)"
    ),
    "a number that is long": Case("long_number = 10 ** 20000"),
}

ERRORS = {
    "a text that is no UTF-8": Case(
        "import os\nraise ValueError(os.fsdecode(b'data\\xff.csv'))", "ValueError"
    ),
    "half of a character": Case(
        "import json\nraise KeyError(json.loads('\"\\\\ud83d\"'))", "KeyError"
    ),
    "a file that is no UTF-8": Case(
        "import os\nopen(os.fsdecode(b'/nowhere/data\\xff.csv'))", "FileNotFoundError"
    ),
    "code in a file that is no UTF-8": Case(
        "import os\nexec(compile('1/0', os.fsdecode(b'data\\xff.py'), 'exec'))", "ZeroDivisionError"
    ),
    "a text with zeros": Case("raise ValueError('a\\0b')", "ValueError"),
    "a long text": Case("raise ValueError('x' * 3_000_000)", "ValueError"),
    "words that exit": Case(
        "class Exits(Exception):\n    def __str__(self): raise SystemExit\nraise Exits", "Exits"
    ),
    "words that interrupt": Case(
        "class Stops(Exception):\n    def __str__(self): raise KeyboardInterrupt\nraise Stops",
        "Stops",
    ),
    "words that are a number": Case(
        "class Counts(Exception):\n    def __str__(self): return 5\nraise Counts", "Counts"
    ),
    "no truth": Case(
        _BOOM + "class Untrue(Exception):\n    __bool__ = __len__ = boom\nraise Untrue", "Untrue"
    ),
    "no equal": Case(
        _BOOM + "class Unequal(Exception):\n    __eq__ = __hash__ = boom\nraise Unequal", "Unequal"
    ),
    "no cause": Case(
        _BOOM + "class Causeless(Exception):\n"
        "    __cause__ = __context__ = __traceback__ = __suppress_context__ = property(boom)\n"
        "raise Causeless",
        "Causeless",
    ),
    "no attributes": Case(
        _BOOM + "class Closed(Exception):\n    __getattribute__ = boom\nraise Closed", "Closed"
    ),
    "no class": Case(
        _BOOM + "class Classless(Exception):\n    __class__ = property(boom)\nraise Classless",
        "Classless",
    ),
    "no name": Case(
        _BOOM + "class Meta(type):\n    __name__ = __module__ = property(boom)\n"
        "class Unnamed(Exception, metaclass=Meta): pass\nraise Unnamed",
        "Unnamed",
    ),
    "notes that are none": Case("e = ValueError('n'); e.__notes__ = 5; raise e", "ValueError"),
    "a syntax error of odd fields": Case(
        "raise SyntaxError('odd', (object(), 'x', -5, 7))", "SyntaxError"
    ),
    "a syntax error without fields": Case(
        "e = SyntaxError('odd'); e.lineno = 'x'; e.filename = 7; e.text = b'y'; raise e",
        "SyntaxError",
    ),
    "causes in a ring": Case(
        "a, b = ValueError('a'), ValueError('b'); a.__cause__ = b; b.__cause__ = a; raise a",
        "ValueError",
    ),
    "an exit": Case("import sys\nsys.exit(3)", "SystemExit"),
    "an interrupt": Case("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "a generator's end": Case("raise GeneratorExit", "GeneratorExit"),
    "an iterator's end": Case("raise StopIteration(5)", "StopIteration"),
    "a task's end": Case("import asyncio\nraise asyncio.CancelledError", "CancelledError"),
    "nothing but the base": Case("class Base(BaseException): pass\nraise Base", "Base"),
    "endless calls": Case("def endless(): return endless()\nendless()", "RecursionError"),
    "a handler that exits": Case(
        "def handler(*_, **__): raise SystemExit\n"
        "get_ipython().set_custom_exc((ValueError,), handler)\nraise ValueError('custom')",
        "ValueError",
        "get_ipython().set_custom_exc((), None)",
    ),
    "no one to show it": Case(
        "get_ipython().showtraceback = None\n1/0", "TypeError", "del get_ipython().showtraceback"
    ),
}

DISPLAYS = {
    "a result that exits": Case(
        "class Exit:\n    def __repr__(self): raise SystemExit\nExit()", "SystemExit"
    ),
    "a result that interrupts": Case(
        "class Stop:\n    def __repr__(self): raise KeyboardInterrupt\nStop()", "KeyboardInterrupt"
    ),
    "a result that ends": Case(
        "class End:\n    def __repr__(self): raise GeneratorExit\nEnd()", "GeneratorExit"
    ),
    "a result that raises": Case(_BOOM + "class R:\n    __repr__ = boom\nR()"),
    "a result without end": Case("class R:\n    def __repr__(self): return repr(self)\nR()"),
    "a result that is no UTF-8": Case("class R:\n    def __repr__(self): return 'a\\udcff'\nR()"),
    "a page that is no UTF-8": Case(
        "from IPython.display import display, HTML\ndisplay(HTML('<b>\\udcff</b>'))"
    ),
    "a picture that is none": Case("class P:\n    def _repr_png_(self): return 'é'\nP()"),
    "a bundle of anything": Case(
        "class B:\n    def _repr_mimebundle_(self, **_):\n"
        "        return {'text/plain': 'b', 'application/json': {'a': {1, 2}}}\nB()"
    ),
    "metadata of anything": Case(
        "from IPython.display import publish_display_data\n"
        "publish_display_data({'text/plain': 'm'}, {'m': {(1, 2): object()}})"
    ),
    "an id that is a number": Case(
        "from IPython.display import display\ndisplay('d', display_id=5)"
    ),
    "the next cell's text": Case("get_ipython().set_next_input('\\udcff')"),
    "a widget's target": Case(
        "import comm\nc = comm.create_comm(target_name='\\udcff')\nc.close()"
    ),
}

STREAMS = {
    "a print that is no UTF-8": Case("import os\nprint(os.fsdecode(b'data\\xff.csv'))"),
    "an error that is no UTF-8": Case("import sys\nprint('\\udcff', file=sys.stderr)"),
    "descriptor 1 closed": Case("import os\nos.close(1)"),
    "descriptor 2 closed": Case("import os\nos.close(2)"),
    "both closed, then a print": Case("import os\nos.close(1); os.close(2); print('on')"),
    "stdout closed": Case("import sys\nsys.stdout.close()"),
    "stderr closed": Case("import sys\nsys.stderr.close()"),
    "stdout deleted": Case("import sys\ndel sys.stdout"),
    "stdout a number": Case("import sys\nsys.stdout = 5", None, "sys.stdout = sys.__stdout__"),
    "stdout that raises": Case(
        _BOOM + "import sys\nclass S:\n    flush = write = boom\n    closed = property(boom)\n"
        "sys.stdout = S()",
        None,
        "sys.stdout = sys.__stdout__",
    ),
}

STATE = {
    "no history": Case("In.clear(); Out.clear()\ndel In, Out", None, "In = []; Out = {}"),
    "no inputs": Case("get_ipython().history_manager.input_hist_raw.clear()"),
    "no name of its own": Case("__name__ = 5; __doc__ = b'x'; __file__ = object()"),
    "a child that goes on": Case("import os\nif os.fork() == 0:\n    mine = 1"),
    "a child that raises": Case(
        "import os\nchild = os.fork()\nif child == 0:\n    raise SystemExit(3)\n"
        "assert os.waitpid(child, 0)[0] == child"
    ),
    "a trace that raises": Case("import sys\nsys.settrace(lambda *_: 1 / 0)", "ZeroDivisionError"),
    "a profile that raises": Case(
        "import sys\nsys.setprofile(lambda *_: 1 / 0)", "ZeroDivisionError"
    ),
    "a thread that exits": Case(
        "import threading, sys\nt = threading.Thread(target=sys.exit); t.start(); t.join()"
    ),
    "a task that exits": Case(
        "import asyncio\nasync def leave():\n    await asyncio.sleep(0.02); raise SystemExit\n"
        "async def later(): asyncio.get_running_loop().create_task(leave())\nawait later()"
    ),
    "a callback that exits": Case(
        "def leave(*_): raise SystemExit\nget_ipython().events.register('post_execute', leave)",
        "SystemExit",
        "get_ipython().events.unregister('post_execute', leave)",
    ),
    "warnings that are errors": Case(
        "import warnings\nwarnings.simplefilter('error')", None, "warnings.resetwarnings()"
    ),
    "a folder that is gone": Case(
        "import os, tempfile\nfolder = tempfile.mkdtemp(); os.chdir(folder); os.rmdir(folder)",
        None,
        "os.chdir('/')",
    ),
    "no environment": Case(
        "import os\nkept = dict(os.environ); os.environ.clear()", None, "os.environ.update(kept)"
    ),
    "interrupts as the system has them": Case(
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)"
    ),
}

CELLS: dict[str, Case] = {**NAMES, **ERRORS, **DISPLAYS, **STREAMS, **STATE}
