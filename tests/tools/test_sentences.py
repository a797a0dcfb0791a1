"""tools/sentences.py: a sentence that no code says any more is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from sentences import HEADING, PAGE, QUOTED, check_sentences, texts_of
from tidy import tracked

ROOT = Path(__file__).resolve().parents[2]

CODE = """
return error(SK_ERR_TIMEOUT, "rank {} waited {:.1f} s for "
                             "rank {} in {}", a, b, c, d);
say("say \\"dtype\\" first");  // It says "aloud" what it does.
/* "A remark" */ const char quote = '"', *other = "behind a quote";
"""


def found(tmp_path: Path, heading: str) -> list[str]:
    """What is said of a page with this heading, where CODE is all the code."""
    (tmp_path / "lib").mkdir(exist_ok=True)
    (tmp_path / "docs").mkdir(exist_ok=True)
    (tmp_path / "lib" / "a.cpp").write_text(CODE)
    (tmp_path / PAGE).write_text(f"# Page\n\n## Part\n\n### {heading}\n\nIt means\n")
    return list(check_sentences(tmp_path, ["lib/a.cpp", PAGE]))


@pytest.mark.parametrize(
    "heading",
    [
        "`rank … waited … s for rank … in …`",
        "`waited … s for rank`",
        '`say "dtype" first`',
        "`behind a quote`",
        "`rank … waited`, `first`",
    ],
)
def test_what_is_said_is_not_found(tmp_path: Path, heading: str) -> None:
    assert found(tmp_path, heading) == []


@pytest.mark.parametrize(
    ("heading", "finding"),
    [
        ("`rank … waits`", 'no code says "rank … waits"'),
        ("`for rank … waited`", 'no code says "for rank … waited"'),
        ("`in … say`", 'no code says "in … say"'),  # Two texts.
        ("`waited`, `slept`", 'no code says "slept"'),
        ("`aloud`", 'no code says "aloud"'),  # Comments say nothing.
        ("`A remark`", 'no code says "A remark"'),
        ("In words", 'the heading "In words" quotes no sentence'),
    ],
)
def test_what_is_not_said_is_found(tmp_path: Path, heading: str, finding: str) -> None:
    assert found(tmp_path, heading) == [f"{PAGE}: {finding}"]


def test_pythons_texts_are_joined_and_docstrings_are_none() -> None:
    code = '''def f():
    """A docstring, "quoted"."""
    raise invalid(f'{x} says "no"' f"; give {y}, "
                  "or nothing")  # As "said"
'''
    assert texts_of(code, "a.py").split("\n") == ["", '{x} says "no"; give {y}, or nothing']


def test_tests_do_not_count_as_code(tmp_path: Path) -> None:
    (tmp_path / "bindings/python/tests").mkdir(parents=True)
    (tmp_path / "bindings/python/tests/test_a.py").write_text('"a sentence"')
    (tmp_path / "docs").mkdir()
    (tmp_path / PAGE).write_text("### `a sentence`\n")
    assert list(check_sentences(tmp_path, ["bindings/python/tests/test_a.py"])) != []


def test_the_page_is_true() -> None:
    quoted = [
        q for heading in HEADING.findall((ROOT / PAGE).read_text()) for q in QUOTED.findall(heading)
    ]
    assert len(quoted) > 30
    assert all(len(each.replace("…", "").split()) >= 2 for each in quoted), "too little to go by"
    assert list(check_sentences(ROOT, tracked(ROOT))) == []
