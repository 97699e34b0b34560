"""Every problem a model can have, with its line and its words.

The files in `problems/` hold broken models in which each broken line ends with the problems expected there, after
`#!`. A file has to give exactly these: nothing may be missed, and one mistake may not be told twice.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from keyplan.errors import ModelError
from keyplan.model.load import load_model

FILES = sorted((Path(__file__).parent / "problems").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_problems_are_those_marked_in_the_file(path: Path) -> None:
    expected = [
        (number, message)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for message in line.split("  #! ")[1:]
    ]
    with pytest.raises(ModelError) as caught:
        load_model(path)
    assert [(problem.line, problem.message) for problem in caught.value.problems] == expected
    assert all(problem.file == str(path) for problem in caught.value.problems)


def test_messages_follow_the_house_rules() -> None:
    for path in FILES:
        for line in path.read_text().splitlines():
            for message in line.split("  #! ")[1:]:
                assert not message.endswith("."), message
                assert not message[0].isupper(), message


def test_nearly_every_message_says_what_to_do() -> None:
    """Those that do not are about shapes, and show the right one."""
    told = [
        message
        for path in FILES
        for line in path.read_text().splitlines()
        for message in line.split("  #! ")[1:]
        if "; " not in message
    ]
    shapes = ("has to be ", "is not a ", "is written as ", "takes one ", "needs ", "names exactly ", "is a list of ")
    assert [message for message in told if not any(shape in message for shape in shapes)] == []


def test_a_problem_reads_as_file_line_and_message(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text("keyplan: 1\nentities:\n  User:\n    fields:\n      id: itn, key\n")
    with pytest.raises(ModelError) as caught:
        load_model(file)
    assert str(caught.value) == f"{file}:5: unknown type or entity 'itn'; did you mean 'int'?"
