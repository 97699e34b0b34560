"""design, explain and emit."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.conftest import EXAMPLES, Keyplan, assert_fails
from tests.cli.test_bad_models import GOOD

SHOP = str(EXAMPLES / "shop.yaml")
THOROUGH = pytest.mark.thorough


def same(first: Result, second: Result) -> bool:
    """Whether two documents are equal but for the time they took."""
    documents = [json.loads(result.stdout) for result in (first, second)]
    for document in documents:
        document["objective"]["seconds"] = 0
    return documents[0] == documents[1]


def test_the_document_is_stable(keyplan: Keyplan) -> None:
    call = ("design", SHOP, "--engine", "sqlite", "--format", "json")
    first, second = keyplan(*call), keyplan(*call)
    assert same(first, second)
    assert {"model", "engine", "objective", "structures", "patterns", "writes", "findings"} <= set(
        json.loads(first.stdout)
    )


def test_garbage_is_collected_again_afterwards(keyplan: Keyplan) -> None:
    """Whoever calls the command from a program of their own goes on after it."""
    keyplan("design", SHOP, "--engine", "sqlite")
    assert gc.isenabled()


def test_the_text_has_every_structure_pattern_and_write(keyplan: Keyplan) -> None:
    document = json.loads(keyplan("design", SHOP, "--engine", "sqlite", "--format", "json").stdout)
    lines = keyplan("design", SHOP, "--engine", "sqlite").stdout.splitlines()
    assert lines[0].startswith("shop on sqlite   optimal: gap 0 %")
    assert max(map(len, lines)) <= 120
    first_words = {line.split()[0] for line in lines if line and not line.startswith(" ")}
    assert set(document["patterns"]) | set(document["writes"]) <= first_words
    for structure in document["structures"]:
        assert any(structure["name"][:30] in line for line in lines), structure["name"]


def test_a_pattern_that_cannot_be_served_is_exit_1(keyplan: Keyplan) -> None:
    # No key helps to add up a third of a hundred million rows within a millisecond.
    pattern = '  bytes_since: { sum: Note.size, where: "note_id >= :start", rate: 1/s, p99: 1ms }'
    model = GOOD.replace("count: 10k", "count: 100M").replace("text: text(200)", "size: int")
    Path("notes.yaml").write_text(model.replace("patterns:", f"patterns:\n{pattern}"))
    result = keyplan("design", "notes.yaml", "--engine", "sqlite")
    assert result.exit_code == 1, result.output
    assert "unserved: bytes_since: " in result.stdout
    document = json.loads(keyplan("design", "notes.yaml", "--engine", "sqlite", "--format", "json").stdout)
    assert document["patterns"]["bytes_since"]["served"] is False
    explained = keyplan("explain", "notes.yaml", "bytes_since", "--engine", "sqlite")
    assert "unserved: bytes_since: " in explained.stdout
    table = keyplan("emit", "notes.yaml", "--engine", "sqlite", "--to", "patterns")
    assert "unserved: " in table.stdout


def test_a_warning_is_exit_1_if_told_to(keyplan: Keyplan) -> None:
    text = "keyplan: 1\nname: m\nentities: {A: {count: 1k, fields: {a: 'int, key'}}}\n"
    Path("m.yaml").write_text(text)
    assert keyplan("design", "m.yaml", "--engine", "sqlite", "--strict").exit_code == 0
    Path("m.yaml").write_text(f"{text}patterns: {{p: {{find: A, where: 'a = :a', rate: 1/s}}}}\n")
    assert keyplan("design", "m.yaml", "--engine", "sqlite", "--strict").exit_code == 0
    Path("m.yaml").write_text(f"{text}writes: {{w: {{create: A, rate: 1/s}}}}\n")
    warned = keyplan("design", "m.yaml", "--engine", "sqlite", "--strict", "--format", "json")
    assert [finding["severity"] for finding in json.loads(warned.stdout)["findings"]] == ["warning"]
    assert warned.exit_code == 1
    assert keyplan("design", "m.yaml", "--engine", "sqlite").exit_code == 0


def test_saving_a_model_from_stdin_is_refused(keyplan: Keyplan) -> None:
    result = keyplan("design", "-", "--engine", "sqlite", "--save", stdin=GOOD)
    assert result.exit_code == 2
    assert result.stderr.startswith("stdin: a lock file stands beside its model")


def test_a_damaged_lock_file(keyplan: Keyplan) -> None:
    Path("notes.yaml").write_text(GOOD)
    assert keyplan("apply", "notes.yaml", "sqlite:notes.db", "--yes").exit_code == 0
    Path("notes.sqlite.lock.json").write_text("{")
    line = "notes.sqlite.lock.json: this is not a design of keyplan; make it again with 'keyplan design --save'"
    assert_fails(keyplan("emit", "notes.yaml", "--engine", "sqlite", "--to", "sql"), line)
    assert_fails(keyplan("run", "notes.yaml", "sqlite:notes.db", "notes_of", "owner=x"), line)
    assert_fails(keyplan("design", "notes.yaml", "--engine", "sqlite", "--save", "--keep"), line)
    Path("notes.sqlite.lock.json").write_bytes(b"\xff")
    assert_fails(keyplan("emit", "notes.yaml", "--engine", "sqlite", "--to", "sql"), line)
    assert_fails(keyplan("run", "notes.yaml", "sqlite:notes.db", "notes_of", "owner=x"), line)
    assert keyplan("design", "notes.yaml", "--engine", "sqlite", "--save").exit_code == 0  # as the line says
    assert keyplan("run", "notes.yaml", "sqlite:notes.db", "notes_of", "owner=x").exit_code == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("order_page", ["pattern order_page of Order", "SELECT", ", for items"]),
        ("newest_orders_of_user", ["ORDER BY", "\n     LIMIT 20\n"]),
        ("ship_order", ["write ship_order of Order", "atomic", "the old row", "p99 0."]),
        ("register", ["write register of User", "entries, p99 0."]),
        pytest.param("Order", ["table Order on sqlite", "the home of Order", "no design without it"], marks=THOROUGH),
        pytest.param("ix_Order_user…", ["needed by ", "the best design without it costs "], marks=THOROUGH),
    ],
)
def test_explain(keyplan: Keyplan, locked: str, name: str, words: list[str]) -> None:
    if name.endswith("…"):  # what else it covers may change
        document = json.loads(keyplan("design", locked, "--engine", "sqlite", "--format", "json").stdout)
        names = [structure["name"] for structure in document["structures"]]
        name = next(each for each in names if each.startswith(name[:-1]))
    text = keyplan("explain", locked, name, "--engine", "sqlite").stdout
    for word in words:
        assert word in text, text
    document = json.loads(keyplan("explain", locked, name, "--engine", "sqlite", "--format", "json").stdout)
    assert document["name"] == name


def test_one_unit_is_not_called_several(keyplan: Keyplan) -> None:
    Path("note.yaml").write_text(
        'keyplan: 1\nentities:\n  Note: { count: 1k, fields: { id: "uuid, key", text: text(500) } }\n'
        'patterns:\n  note: { find: Note, where: "id = :id", consistency: strong, rate: 100/day }\n'
    )
    text = keyplan("explain", "note.yaml", "note", "--engine", "dynamodb").stdout
    assert ", 1 read unit, " in text
    assert " at 100/day, " in text


def test_explain_what_keeps_values_unique(keyplan: Keyplan) -> None:
    Path("notes.yaml").write_text(GOOD.replace("text: text(200)", "slug: string(20), unique"))
    assert "keeps slug unique" in keyplan("explain", "notes.yaml", "--engine", "sqlite").stdout
    text = keyplan("explain", "notes.yaml", "ux_Note_slug", "--engine", "sqlite").stdout
    assert "  needed to keep slug unique\n  Note by slug, which keeps slug unique\n" in text
    script = keyplan("emit", "notes.yaml", "--engine", "sqlite", "--to", "sql").stdout
    assert '-- keeps slug unique\nCREATE UNIQUE INDEX "ux_Note_slug" ON "Note" ("slug");' in script


def test_explain_everything(keyplan: Keyplan, locked: str) -> None:
    text = keyplan("explain", locked, "--engine", "sqlite").stdout
    assert "home of User" in text
    assert "place_order" in text


def test_explain_what_is_not_there(keyplan: Keyplan, locked: str) -> None:
    result = keyplan("explain", locked, "order_pag", "--engine", "sqlite")
    assert_fails(result, "shop: nothing is called 'order_pag'; did you mean 'order_page'?")


@pytest.mark.parametrize("form", ["sql", "patterns", "python"])
def test_emit_prints_or_writes(keyplan: Keyplan, locked: str, form: str) -> None:
    printed = keyplan("emit", locked, "--engine", "sqlite", "--to", form)
    assert printed.exit_code == 0
    written = keyplan("emit", locked, "--engine", "sqlite", "--to", form, "--out", "made/here")
    assert written.stdout == ""
    (file,) = Path("made/here").iterdir()
    assert written.stderr == f"wrote {file}\n"
    assert file.read_text() == printed.stdout
    dashed = keyplan("emit", locked, "--engine", "sqlite", "--to", form, "--out", "-")
    assert (dashed.stdout, dashed.stderr) == (printed.stdout, "")
    assert not Path("-").exists()


def test_several_files_do_not_go_to_one_stream(keyplan: Keyplan, locked: str) -> None:
    files = keyplan("emit", locked, "--engine", "mongodb", "--to", "json-schema").stdout.count("==> ")
    assert files > 1
    result = keyplan("emit", locked, "--engine", "mongodb", "--to", "json-schema", "--out", "-")
    line = f"keyplan emit: '--out -' is for one file, and there are {files}; name a folder, or leave it out"
    assert_fails(result, line)


def test_emit_into_what_is_no_folder(keyplan: Keyplan, locked: str) -> None:
    Path("taken").write_text("")
    result = keyplan("emit", locked, "--engine", "sqlite", "--to", "sql", "--out", "taken")
    assert_fails(result, "taken: file exists; name a folder")


def test_emit_knows_its_formats(keyplan: Keyplan, locked: str) -> None:
    result = keyplan("emit", locked, "--engine", "sqlite", "--to", "pyton")
    assert_fails(result, "sqlite: no format 'pyton'; did you mean 'python'?")


def test_counts_that_creates_outgrow_are_one_line(keyplan: Keyplan) -> None:
    entities = ", ".join(f'{name}: {{count: 1k, fields: {{k: "int, key"}}}}' for name in "AB")
    patterns = ", ".join(f'{name.lower()}: {{find: {name}, where: "k = :k"}}' for name in "AB")
    writes = ", ".join(f"w{name}: {{create: {name}, rate: 1/s}}" for name in "AB")
    text = f"keyplan: 1\nname: m\nentities: {{{entities}}}\npatterns: {{{patterns}}}\nwrites: {{{writes}}}\n"
    Path("m.yaml").write_text(text)
    lines = keyplan("design", "m.yaml", "--engine", "sqlite").output.replace("\n  ", " ")
    assert lines.count("warning: ") == 1
    assert "creates outgrow counts within a year: A (count 1k, 31.5M made), B (count 1k, 31.5M made)" in lines


def test_children_beside_their_row_are_read_by_a_query(keyplan: Keyplan) -> None:
    """One Query brings an order and its items: it said 'get'."""
    lines = keyplan("design", SHOP, "--engine", "dynamodb").output.splitlines()
    (page,) = (line for line in lines if line.startswith("order_page"))
    assert page.split()[1] == "query"
