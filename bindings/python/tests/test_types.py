"""What checkers of types are told: results are of the kind of the first array."""

from __future__ import annotations

import inspect
import sys
import typing

import libsk as sk
import pytest
from libsk import _ops
from libsk._collectives import METHODS, Collectives

WITHOUT_RESULT = {"adamw", "barrier", "send"}
WITHOUT_INPUT = {"recv"}
AT_ROOT = {"gather", "reduce"}  # Where others get None.


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python keeps no overloads before 3.11")
def test_results_are_of_the_kind_of_the_first_array() -> None:
    functions = {name: getattr(_ops, name) for name in sk.OPERATIONS}
    functions |= {name: getattr(Collectives, name) for name in METHODS}
    for name, function in functions.items():
        told = typing.get_overloads(function)
        gives = [inspect.signature(each).return_annotation for each in told]
        if name in WITHOUT_RESULT | WITHOUT_INPUT | AT_ROOT:
            assert not told
            continue
        assert "ArrayT" in gives[0] and gives[-1] == "Any", name
        names = [list(inspect.signature(each).parameters) for each in (*told, function)]
        assert all(each == names[-1] for each in names), name


def test_an_error_of_a_cell_has_its_result() -> None:
    assert typing.get_type_hints(sk.CellError)["result"] is sk.Result


def test_what_is_exported_is_there() -> None:
    assert {"OPERATIONS", *sk.OPERATIONS} <= set(sk.__all__)
    assert all(hasattr(sk, name) for name in sk.__all__)
