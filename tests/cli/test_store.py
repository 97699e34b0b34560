"""apply, load, run and verify, from the command line to a database file and back."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

import keyplan as api
from tests.cli.conftest import SHOP_URL as URL
from tests.cli.conftest import Keyplan, assert_fails, run_keyplan

ROW = '["Product", {"sku": "A1", "name": "L", "description": "", "category": "home", "price": 19.90, "stock": 3}]'
USER = '["User", {"user_id": "11111111-1111-4111-8111-111111111111", "email": "a", "name": "A"}]'
PRODUCTS = """\
["Product", {"sku": "A1", "name": "Lamp", "description": "It shines.", "category": "home", "price": 19.90, "stock": 3}]

["Product", {"sku": "B2", "name": "Chair", "description": "It stands.", "category": "home", "price": "49.00"}]
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, made_shop: Path) -> tuple[Path, str]:
    """The shop with two products and a user, and that user's id."""
    home = shutil.copytree(made_shop, tmp_path_factory.mktemp("shop"), dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        assert run_keyplan("load", "shop.yaml", URL, "-", stdin=PRODUCTS).stdout == "loaded 2 rows\n"
        call = ("run", "shop.yaml", URL, "register", "email=ann@example.com", "name=Ann", "--format", "json")
        registered = run_keyplan(*call)
    assert registered.exit_code == 0, registered.output
    user: str = json.loads(registered.stdout)["user_id"]
    return home, user


@pytest.fixture
def shop(keyplan: Keyplan, built: tuple[Path, str]) -> str:
    """The shop with two products and a user, in the directory of the test; its user's id."""
    home, user = built
    shutil.copytree(home, ".", dirs_exist_ok=True)
    return user


def test_an_order_from_the_command_line(keyplan: Keyplan, shop: str) -> None:
    items = [{"line": 1, "product": "A1", "quantity": 2}, {"line": 2, "product": "B2", "quantity": 1}]
    Path("items.json").write_text(json.dumps(items))
    arguments = ("place_order", f"user={shop}", "total=88.80", "items=@items.json", "--format", "json")
    placed = json.loads(keyplan("run", "shop.yaml", URL, *arguments).stdout)
    assert [item["price"] for item in placed["items"]] == ["19.90", "49.00"]
    page = keyplan("run", "shop.yaml", URL, "order_page", f"order_id={placed['order_id']}", "--format", "json")
    order = json.loads(page.stdout)
    assert order["user"] == {"name": "Ann"}
    assert [item["product"]["name"] for item in order["items"]] == ["Lamp", "Chair"]
    summary = keyplan("run", "shop.yaml", URL, "order_summary", f"user_id={shop}").stdout.split()
    assert summary[:4] == ["order_count", "1", "total_spent", "88.80"]


def test_pages(keyplan: Keyplan, shop: str) -> None:
    address = {"user": shop, "street": "s", "city": "c", "country": "de", "postal_code": "1"}
    rows = [json.dumps(["Address", {**address, "label": f"{number:02}"}]) for number in range(20)]
    Path("rows.jsonl").write_text("\n".join(rows))
    assert keyplan("load", "shop.yaml", URL, "rows.jsonl").exit_code == 0
    call = ("run", "shop.yaml", URL, "addresses_of_user", f"user_id={shop}", "--format", "json")
    first = json.loads(keyplan(*call).stdout)
    assert len(first["rows"]) == 20
    second = json.loads(keyplan(*call, "--cursor", first["cursor"]).stdout)
    assert second == {"rows": [], "cursor": None}
    assert json.loads(keyplan(*call, "--all").stdout) == first["rows"]
    text = keyplan(*call[:-2])
    assert text.stderr == f"there is more: --cursor {first['cursor']}\n"


def test_generated_rows_verify(keyplan: Keyplan) -> None:
    keyplan("init", "shop.yaml")
    keyplan("apply", "shop.yaml", URL, "--yes")
    rows = list(api.generate(api.load_model("shop.yaml"), scale=0.00001, seed=7))
    loaded = keyplan("load", "shop.yaml", URL, "--generate", "--scale", "0.00001", "--seed", "7")
    assert (loaded.exit_code, loaded.stdout) == (0, f"loaded {len(rows)} rows\n"), loaded.output
    verified = json.loads(keyplan("verify", "shop.yaml", URL, "--format", "json").stdout)
    assert (verified["ok"], verified["rows"]) == (True, len(rows))


def test_verify_finds_and_repairs(keyplan: Keyplan, shop: str) -> None:
    keyplan("run", "shop.yaml", URL, "place_order", f"user={shop}", "total=1")
    with sqlite3.connect("shop.db") as database:
        (table,) = next(iter(database.execute("SELECT name FROM sqlite_master WHERE name LIKE 'Order_sums_by_%'")))
        database.execute(f'DELETE FROM "{table}"')
    database.close()
    found = keyplan("verify", "shop.yaml", URL)
    assert found.exit_code == 1
    assert "missing entry" in found.stdout
    dry = keyplan("verify", "shop.yaml", URL, "--repair")
    assert (dry.exit_code, dry.stderr) == (1, "nothing was repaired; add --yes to do it\n")
    assert keyplan("verify", "shop.yaml", URL, "--repair", "--yes").exit_code == 1
    assert keyplan("verify", "shop.yaml", URL).exit_code == 0


@pytest.mark.parametrize("more", [(), ("--repair", "--yes")])
def test_verify_names_what_cannot_be_read(keyplan: Keyplan, shop: str, more: tuple[str, ...]) -> None:
    sqlite('UPDATE "User" SET created_at = 1000000000000000000')
    found = keyplan("verify", "shop.yaml", URL, *more)
    assert (found.exit_code, found.stderr) == (1, "")
    *_, line, _, outcome = found.stdout.splitlines()
    assert line.startswith(f"User: unreadable entry ({shop}): table 'User': the stored value of 'created_at' is not")
    assert outcome == "2 rows, and 1 entry that cannot be read: every view is what the others imply"


def sqlite(*statements: str) -> None:
    """What somebody does to the file with other tools."""
    with sqlite3.connect("shop.db") as database:
        for statement in statements:
            database.execute(statement)
    database.close()


@pytest.mark.parametrize("other", ["", "CREATE INDEX {} ON Product (name)"], ids=["dropped", "other"])
@pytest.mark.parametrize("used", [False, True], ids=["unused", "used"])
def test_verify_finds_and_repairs_an_index(keyplan: Keyplan, shop: str, other: str, used: bool) -> None:
    # What is computed of a user's orders is read through one of the indexes, and cannot be compared without it.
    index = "ix_Order_user_created_at" if used else "ix_Order_status_created_at"
    sqlite(f"DROP INDEX {index}", *([other.format(index)] if other else []))
    fault = f"index {index} is {'another' if other else 'missing'}"
    found = keyplan("verify", "shop.yaml", URL)
    assert (found.exit_code, found.stderr) == (1, "")
    assert f"{fault}; --repair makes it again\n" in found.stdout
    said = "3 rows: every view is what its rows imply, but structures are not as designed"
    assert found.stdout.endswith(f"\n{'nothing was compared, because structures are missing' if used else said}\n")
    assert json.loads(keyplan("verify", "shop.yaml", URL, "--format", "json").stdout)["structures"] == [fault]
    repaired = keyplan("verify", "shop.yaml", URL, "--repair", "--yes")
    assert (repaired.exit_code, repaired.stdout.splitlines()[-1]) == (1, "3 rows: repaired 1 structure")
    assert keyplan("verify", "shop.yaml", URL).exit_code == 0
    assert keyplan("apply", "shop.yaml", URL).stdout == "nothing to do; the design is there already\n"


def test_verify_does_not_repair_what_has_lost_its_rows(keyplan: Keyplan, shop: str) -> None:
    sqlite('DROP TABLE "User"')
    line = "shop.db: table User is missing, with all its rows; restore it from a backup, or make it anew with …"
    for more in ((), ("--repair", "--yes")):
        assert_fails(keyplan("verify", "shop.yaml", URL, *more), line)
    assert_fails(keyplan("run", "shop.yaml", URL, "user_by_id", f"user_id={shop}"), line)
    applied = keyplan("apply", "shop.yaml", URL, "--yes")
    assert "create table User, empty: its rows are gone" in applied.stdout.splitlines()
    assert keyplan("run", "shop.yaml", URL, "user_by_id", f"user_id={shop}").stdout == "nothing found\n"


def test_verify_fills_a_table_that_others_are_copied_to(keyplan: Keyplan, shop: str) -> None:
    keyplan("run", "shop.yaml", URL, "place_order", f"user={shop}", "total=1")
    with sqlite3.connect("shop.db") as database:
        (table,) = next(iter(database.execute("SELECT name FROM sqlite_master WHERE name LIKE 'Order_sums_by_%'")))
    database.close()
    sqlite(f'DROP TABLE "{table}"')
    found = keyplan("verify", "shop.yaml", URL)
    assert found.exit_code == 1
    assert found.stdout.splitlines() == [
        f"table {table} is missing; --repair makes it again",
        "",
        "nothing was compared, because structures are missing",
    ]
    repaired = keyplan("verify", "shop.yaml", URL, "--repair", "--yes").stdout.splitlines()[-1]
    assert repaired == "4 rows: repaired 1 structure and 1 entry"
    assert keyplan("verify", "shop.yaml", URL).exit_code == 0


def test_one_row_is_one_row(keyplan: Keyplan, locked: str) -> None:
    assert keyplan("load", locked, URL, "-", stdin=ROW).stdout == "loaded 1 row\n"
    assert keyplan("verify", locked, URL).stdout.endswith("\n1 row: every view is what its rows imply\n")


def test_apply_shows_first_and_does_it_with_yes(keyplan: Keyplan) -> None:
    keyplan("init", "shop.yaml")
    dry = keyplan("apply", "shop.yaml", URL)
    assert dry.exit_code == 0
    assert dry.stdout
    assert dry.stderr == "nothing was done; add --yes to do it\n"
    assert [file.name for file in Path().iterdir()] == ["shop.yaml"]
    done = keyplan("apply", "shop.yaml", URL, "--yes")
    assert (done.exit_code, done.stdout, done.stderr) == (0, dry.stdout, "")
    again = keyplan("apply", "shop.yaml", URL, "--yes")
    assert again.stdout == "nothing to do; the design is there already\n"


def test_apply_and_load_as_documents(keyplan: Keyplan) -> None:
    keyplan("init", "shop.yaml")
    call = ("apply", "shop.yaml", URL)
    steps = keyplan(*call).stdout.splitlines()
    dry = keyplan(*call, "--format", "json")
    assert (dry.exit_code, dry.stderr) == (0, "nothing was done; add --yes to do it\n")
    changes = [{"summary": step, "destructive": False} for step in steps]
    assert json.loads(dry.stdout) == {"made": False, "changes": changes, "left": []}
    assert [file.name for file in Path().iterdir()] == ["shop.yaml"]
    done = keyplan(*call, "--yes", "--format", "json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"made": True, "changes": changes, "left": []}
    again = keyplan(*call, "--yes", "--format", "json")
    assert json.loads(again.stdout) == {"made": True, "changes": [], "left": []}
    row = '["Customer", {"customer_id": "00000000-0000-0000-0000-000000000001", "email": "a", "name": "x"}]'
    loaded = keyplan("load", "shop.yaml", URL, "-", "--format", "json", stdin=row)
    assert (loaded.exit_code, json.loads(loaded.stdout), loaded.stderr) == (0, {"loaded": 1}, "")
    assert_fails(keyplan("load", "shop.yaml", URL, "-", "--format", "json", stdin="{"), "stdin:1: is not JSON: …")


def test_the_document_of_apply_says_what_destroys_and_what_is_left(
    keyplan: Keyplan, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyplan("init", "shop.yaml")
    steps = ["leaves: the index x", "create table A", "destroys: drop table B"]
    monkeypatch.setattr(api, "apply", lambda *_, **__: steps, raising=False)
    done = keyplan("apply", "shop.yaml", URL, "--yes", "--format", "json")
    changes = [
        {"summary": "create table A", "destructive": False},
        {"summary": "drop table B", "destructive": True},
    ]
    assert json.loads(done.stdout) == {"made": True, "changes": changes, "left": ["the index x"]}
    monkeypatch.setattr(api, "apply", lambda *_, **__: steps[:1], raising=False)
    said = "leaves: the index x\nnothing to do; the design is there already\n"
    assert keyplan("apply", "shop.yaml", URL, "--yes").stdout == said


@pytest.mark.parametrize(
    "words",
    [
        ("run", "shop.yaml", "sqlite:shpo.db", "open_orders"),
        ("load", "shop.yaml", "sqlite:shpo.db", "rows.jsonl"),
        ("load", "shop.yaml", "sqlite:shpo.db", "--generate"),
        ("verify", "shop.yaml", "sqlite:shpo.db"),
        ("verify", "shop.yaml", "sqlite:shpo.db", "--repair", "--yes"),
    ],
    ids=" ".join,
)
def test_a_mistyped_file_is_not_created(keyplan: Keyplan, words: tuple[str, ...]) -> None:
    keyplan("init", "shop.yaml")
    Path("rows.jsonl").write_text("")
    before = sorted(Path().iterdir())
    line = "shpo.db: there is no database; check the name, or make it with 'keyplan apply'"
    assert_fails(keyplan(*words), line)
    assert sorted(Path().iterdir()) == before


def test_a_file_without_a_design_is_not_given_one_by_the_way(keyplan: Keyplan) -> None:
    keyplan("init", "shop.yaml")
    Path("shop.db").touch()
    line = "shop.db: nothing has been applied to this database yet; run 'keyplan apply' first"
    assert_fails(keyplan("verify", "shop.yaml", URL), line)
    keyplan("design", "shop.yaml", "--engine", "sqlite", "--save")
    assert_fails(keyplan("verify", "shop.yaml", URL), line)
    assert keyplan("apply", "shop.yaml", URL, "--yes").exit_code == 0
    assert keyplan("verify", "shop.yaml", URL).exit_code == 0


def test_python_creates_a_file_unless_told_not_to(keyplan: Keyplan) -> None:
    keyplan("init", "shop.yaml")
    with pytest.raises(api.StorageError, match=r"shop\.db: there is no database"):
        api.open("shop.yaml", URL, create=False)

    async def refused() -> None:
        await api.open_async("shop.yaml", URL, create=False)

    with pytest.raises(api.StorageError, match=r"shop\.db: there is no database"):
        asyncio.run(refused())
    assert not Path("shop.db").exists()
    api.open("shop.yaml", URL).close()
    api.open("shop.yaml", URL, create=False).close()


def test_the_lock_file_is_what_runs(keyplan: Keyplan) -> None:
    keyplan("init", "shop.yaml")
    assert keyplan("design", "shop.yaml", "--engine", "sqlite", "--save").stderr == "wrote shop.sqlite.lock.json\n"
    same = keyplan("design", "shop.yaml", "--engine", "sqlite")
    assert same.stdout.endswith("the lock file holds the same design\n")
    keyplan("apply", "shop.yaml", URL, "--yes")
    assert keyplan("run", "shop.yaml", URL, "open_orders").stdout == "no rows\n"
    # A pattern less: the recorded design is for another model now.
    text = Path("shop.yaml").read_text()
    Path("shop.yaml").write_text("\n".join(line for line in text.splitlines() if "open_orders" not in line))
    stale = keyplan("run", "shop.yaml", URL, "customer_by_email", "email=x")
    assert_fails(stale, "shop.sqlite.lock.json: the model has changed since the design was made; make it again with …")
    changed = json.loads(keyplan("design", "shop.yaml", "--engine", "sqlite", "--format", "json").stdout)
    assert changed["against_lock"]["same"] is False
    assert len(changed["against_lock"]["dropped"]) == 1
    kept = keyplan("design", "shop.yaml", "--engine", "sqlite", "--keep", "--format", "json")
    assert json.loads(kept.stdout)["against_lock"]["dropped"] == []


def test_a_database_of_another_model_is_not_to_be_applied_to(keyplan: Keyplan) -> None:
    note = "keyplan: 1\nname: notes\nentities: {Note: {count: 9, fields: {id: 'int, key'}}}\n"
    Path("notes.yaml").write_text(f"{note}patterns: {{note: {{find: Note, where: id = :id, rate: low}}}}\n")
    Path("memos.yaml").write_text(Path("notes.yaml").read_text().replace("name: notes", "name: memos"))
    assert keyplan("apply", "notes.yaml", "sqlite:n.db", "--yes").exit_code == 0
    call = ("sqlite:n.db", "note", "id=1")
    recorded = "n.db: the design recorded there: "
    said = "it is for the model 'notes', not for 'memos'; name another database, or the model it was made for"
    assert_fails(keyplan("run", "memos.yaml", *call), recorded + said)
    assert keyplan("apply", "memos.yaml", "sqlite:n.db", "--yes").exit_code == 2
    Path("notes.yaml").write_text(Path("notes.yaml").read_text().replace("id: 'int, key'", "id: 'int, key', at: int"))
    said = "the model has changed since the design was made; run 'keyplan apply'"
    assert_fails(keyplan("run", "notes.yaml", *call), recorded + said)


def test_keep_wants_a_lock_file(keyplan: Keyplan) -> None:
    keyplan("init", "shop.yaml")
    failed = keyplan("design", "shop.yaml", "--engine", "sqlite", "--keep")
    assert_fails(failed, "shop.yaml: there is no lock file to keep; make one with --save")


@pytest.mark.usefixtures("shop")
def test_run_says_what_it_did(keyplan: Keyplan) -> None:
    found = keyplan("run", "shop.yaml", URL, "product", "sku=A1", "--consistency", "strong", "--explain")
    assert found.stdout.endswith("\n\n1 request in 1 round trip, 1 row\n1. get Product: 1 request, 1 row\n"), (
        found.output
    )
    told = json.loads(keyplan("run", "shop.yaml", URL, "product", "sku=A1", "--explain", "--format", "json").stdout)
    assert told["answer"]["sku"] == "A1"
    assert told["done"]["steps"] == [{"op": "get", "view": "Product", "requests": 1, "rows": 1}]


def test_the_row_of_a_load_that_is_refused_is_named_once(keyplan: Keyplan) -> None:
    keyplan("init", "shop.yaml")
    assert keyplan("apply", "shop.yaml", URL, "--yes").exit_code == 0
    ids = [f"00000000-0000-0000-0000-00000000000{number}" for number in (1, 2)]
    rows = [json.dumps(["Customer", {"customer_id": one, "email": "a", "name": "x"}]) for one in ids]
    line = f"stdin:2: Customer '{ids[1]}': another row has the same 'email'; give another value"
    assert_fails(keyplan("load", "shop.yaml", URL, "-", stdin="\n".join(rows)), line)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("order",), "shop.yaml: no pattern, write or transaction 'order'; …"),
        (("product", "skew=A1"), "product: unknown argument 'skew'; …"),
        (("product",), "product: missing argument 'sku'; give it a value"),
        (("product", "sku"), "'sku': not an argument; write name=value, or name=@file for JSON"),
        (("product", "sku=A1", "sku=B2"), "'sku=B2': 'sku' is given twice; give it once"),
        (("product", "sku=@nosuch.json"), "nosuch.json: no such file or directory; check the name"),
        (("take_stock", "sku=A1", "n=many"), "take_stock: argument 'n': expected a whole number, got 'many'"),
        (("take_stock", "sku=A1", "n=4"), "take_stock: …"),
        (("orders_by_status", "status=lost"), "orders_by_status: argument 'status': …"),
        (("orders_by_status", "status=pending", "--cursor", "x"), "orders_by_status: …"),
        (("product", "sku=A1", "--all"), "product: its answer is not a list of rows; leave out --all"),
        (("product", "sku=A1", "explain=true"), "product: unknown argument 'explain'; write --explain"),
        (("product", "sku=A1", "--consistency", "string"), "keyplan run: …; see 'keyplan run --help'"),
        (("orders_by_status", "status=pending", "--all", "--explain"), "orders_by_status: …; leave out --all"),
        (("take_stock", "sku=A1", "n=1", "--consistency", "strong"), "take_stock: …; leave out --consistency"),
        (
            ("cancel_order", "order_id=01J9ACCM8065ZTVGCX0000000B"),
            "cancel_order: there is no such Order; check its key",
        ),
        (("take_stock", "sku=A1", "n=1", "--all"), "take_stock: its answer is not a list of rows; leave out --all"),
    ],
)
def test_wrong_calls(keyplan: Keyplan, shop: str, arguments: tuple[str, ...], line: str) -> None:
    assert_fails(keyplan("run", "shop.yaml", URL, *arguments), line)


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (
            "{",
            "stdin:1: is not JSON: Expecting property name … at character 2; check quotes, commas and brackets there",
        ),
        ('{"Product": {}}', 'stdin:1: expected ["Entity", {row}]; give …'),
        ('["Produkt", {}]', "stdin:1: no entity 'Produkt'; did you mean 'Product'?"),
        (
            '["Product", {"sku": "A1"}]',
            "stdin:1: Product: missing arguments 'name', 'description', 'category', 'price'; give each of them a value",
        ),
        ('["Product", {"sku": "A1", "nmae": "x"}]', "stdin:1: Product: unknown argument 'nmae'; did you mean 'name'?"),
        (f"{ROW}\n\n{ROW.replace('19.90', '19.999')}", "stdin:3: Product: argument 'price': …"),
        (f"{ROW}\n\n\n{ROW.replace('3}', 'true}')}", "stdin:4: Product: argument 'stock': …"),
        (f"{ROW}\n{ROW[:-1]}", "stdin:2: is not JSON: …"),
        (f"{ROW}\n{ROW}, 1", "stdin:2: is not JSON: …"),
        (f"{ROW}\n[]", 'stdin:2: expected ["Entity", {row}]; give …'),
        (f'{ROW}\n["Product", null]', 'stdin:2: expected ["Entity", {row}]; give …'),
        (f"{ROW}\n[5, {{}}]", 'stdin:2: expected ["Entity", {row}]; give …'),
        (f"{ROW}\n" + "[" * 100_000, "stdin:2: is nested too deep; make it simpler"),
        (ROW.replace("3}", "1e99999999999999999999}"), "stdin:1: has the number '1e9…; give another"),
        ('["Product", {"\\n\\u001b[31m": 1}]', "stdin:1: Product: unknown argument '\\n\\x1b[31m'; …"),
        ('["Prod\\nuct", {}]', "stdin:1: no entity 'Prod\\nuct'; did you mean 'Product'?"),
        (f"\n{USER}\n\n{USER.replace('1111-1', '1111-2')}", "stdin:4: User '…; give another value"),
    ],
)
def test_wrong_rows(keyplan: Keyplan, locked: str, row: str, line: str) -> None:
    assert_fails(keyplan("load", locked, URL, "-", stdin=row), line)


def test_load_wants_rows_from_one_place(keyplan: Keyplan) -> None:
    keyplan("init", "shop.yaml")
    line = "keyplan load: give a file of rows, or --generate, and not both"
    assert_fails(keyplan("load", "shop.yaml", URL), line)
    assert_fails(keyplan("load", "shop.yaml", URL, "rows.jsonl", "--generate"), line)
    keyplan("apply", "shop.yaml", URL, "--yes")
    line = "nosuch.jsonl: no such file or directory; check the name"
    assert_fails(keyplan("load", "shop.yaml", URL, "nosuch.jsonl"), line)
    Path("latin.jsonl").write_bytes(b"\n[\xff")
    line = "latin.jsonl:2: the rows are not UTF-8; save them in that encoding"
    assert_fails(keyplan("load", "shop.yaml", URL, "latin.jsonl"), line)
    assert_fails(keyplan("load", "shop.yaml", URL, "."), ".: is a directory; name a file")
    Path("empty.jsonl").touch()
    assert keyplan("load", "shop.yaml", URL, "empty.jsonl").stdout == "loaded 0 rows\n"


def test_rows_with_a_byte_order_mark(keyplan: Keyplan, locked: str) -> None:
    Path("rows.jsonl").write_text(f"{ROW}\r\n\r\n{ROW}\r\n", encoding="utf-8-sig")
    assert keyplan("load", locked, URL, "rows.jsonl").stdout == "loaded 2 rows\n"


@pytest.mark.thorough
def test_a_wrong_row_far_down_is_named_by_its_line(keyplan: Keyplan, locked: str) -> None:
    lines = ["", *(ROW.replace("A1", f"A{number}") for number in range(12_000))]
    lines[7_777] = lines[7_777].replace("home", "h" * 600)
    Path("rows.jsonl").write_text("\n".join(lines))
    line = "rows.jsonl:7778: Product: argument 'category': …; 5000 rows are loaded, and --done 5000 goes on from there"
    assert_fails(keyplan("load", locked, URL, "rows.jsonl"), line)
    said = keyplan("load", locked, URL, "rows.jsonl", "--done", "5000")
    assert_fails(said, "rows.jsonl:7778: Product: argument 'category': …")


LOGS = """
keyplan: 1
name: logs
entities:
  Event: { count: 1k, fields: { event_id: "ulid, key", n: int } }
  User: { count: 100, fields: { user_id: "uuid, key", email: "string(10), unique" } }
patterns: { events: { count: Event, rate: 1/s }, users: { count: User, rate: 1/s } }
writes: { log: { create: Event, rate: 1/s }, join: { create: User, rate: 1/s } }
"""


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["Event", {"n": "x"}], "Event: argument 'n': expected an int, got str; give one such as 42"),
        (["User", {"email": "e0"}], "User …another row has the same 'email'; give another value"),
    ],
)
@pytest.mark.parametrize("again", [True, False])
def test_a_load_that_a_row_has_stopped_goes_on_without_it(
    keyplan: Keyplan, monkeypatch: pytest.MonkeyPatch, wrong: object, said: str, again: bool
) -> None:
    """Rows without keys are there once, whether it goes on from the number that is told or begins again."""
    monkeypatch.setattr("keyplan.store.bulk.load.BULK", 5)
    Path("logs.yaml").write_text(LOGS)
    assert keyplan("apply", "logs.yaml", URL, "--yes").exit_code == 0
    rows = [["User", {"email": f"e{n // 3}"}] if n % 3 == 0 else ["Event", {"n": 7}] for n in range(15)]
    rows.insert(11, wrong)
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    line = f"rows.jsonl:12: {said}; 10 rows are loaded, and --done 10 goes on from there"
    assert_fails(keyplan("load", "logs.yaml", URL, "rows.jsonl"), line)
    del rows[11]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    rest = keyplan("load", "logs.yaml", URL, "rows.jsonl", *([] if again else ["--done", "10"]))
    assert rest.stdout == ("loaded 15 rows\n" if again else "loaded 5 rows\n"), rest.output
    assert keyplan("run", "logs.yaml", URL, "events").stdout == "10\n"
    assert keyplan("run", "logs.yaml", URL, "users").stdout == "5\n"


def test_an_interrupted_load_goes_on(keyplan: Keyplan, monkeypatch: pytest.MonkeyPatch) -> None:
    keyplan("init", "shop.yaml")
    keyplan("apply", "shop.yaml", URL, "--yes")
    rows = list(api.generate(api.load_model("shop.yaml"), scale=0.0003))
    assert len(rows) > 10_000

    def interrupted(*arguments: object, **options: object) -> object:
        yield from rows[:7_000]
        raise KeyboardInterrupt

    def full(*arguments: object, **options: object) -> object:
        yield from rows[:7_000]
        raise api.StorageError("shop.db: the disk is full; make room and repeat")

    with monkeypatch.context() as patch:
        patch.setattr(api, "generate", full)
        stopped = keyplan("load", "shop.yaml", URL, "--generate", "--scale", "0.0003")
        assert_fails(stopped, "shop.db: the disk is full; …; 5000 rows are loaded, and --done 5000 goes on from there")
        patch.setattr(api, "generate", interrupted)
        stopped = keyplan("load", "shop.yaml", URL, "--generate", "--scale", "0.0003")
        assert_fails(stopped, "keyplan: interrupted after 5000 rows; run it again with --done 5000 to go on from there")
    beyond = keyplan("load", "shop.yaml", URL, "--generate", "--scale", "0.0003", "--done", "99999")
    assert_fails(beyond, f"load: 'done' leaves out 99999 rows, and there are only {len(rows)}; give the same rows…")
    rest = keyplan("load", "shop.yaml", URL, "--generate", "--scale", "0.0003", "--done", "5000")
    assert rest.stdout == f"loaded {len(rows) - 5000:,} rows\n"
    assert json.loads(keyplan("verify", "shop.yaml", URL, "--format", "json").stdout)["rows"] == len(rows)


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("sqlite:nosuch/shop.db", "nosuch/shop.db: …"),
        ("sqlite:shop.yaml", "shop.yaml: is not an SQLite database; …"),
        ("nosuch:shop", "no engine for 'nosuch:'; …"),
        ("sqlit:shop.db", "no engine for 'sqlit:'; did you mean 'sqlite'?"),
        ("shop.db", "'shop.db' is no URL; say which engine it is on, as in sqlite:shop.db"),
    ],
)
def test_wrong_urls(keyplan: Keyplan, url: str, line: str) -> None:
    keyplan("init", "shop.yaml")
    assert_fails(keyplan("run", "shop.yaml", url, "open_orders"), line)


PARCELS = """
keyplan: 1
name: parcels
entities:
  Parcel:
    count: 10
    fields: { parcel_id: "int, key", about: "json(40), optional", name: "string(9), optional" }
  Scan:
    count: 10
    key: [parcel, line]
    fields: { parcel: "Parcel, as scans, max 5", line: int, seen: "json(40)" }
patterns:
  parcel: { find: Parcel, where: "parcel_id = :id", with: [scans], rate: 1/s }
  parcels: { find: Parcel, page: 5, rate: 1/s }
writes:
  add: { create: Parcel, with: [scans], rate: 1/s }
  call: { update: Parcel, set: [name], where: "parcel_id = :id", return: [name, about], rate: 1/s }
transactions:
  both: [add, call]
"""


@pytest.fixture
def parcels(keyplan: Keyplan) -> Keyplan:
    Path("parcels.yaml").write_text(PARCELS)
    assert keyplan("apply", "parcels.yaml", "sqlite:p.db", "--yes").exit_code == 0
    scans = '[{"line": 1, "seen": {"at": {"x": 1}}}]'
    given = ("parcel_id=1", 'about={"a": {"b": [1]}}', "name=x", f"scans={scans}")
    assert keyplan("run", "parcels.yaml", "sqlite:p.db", "add", *given).exit_code == 0
    return lambda *arguments, **more: keyplan("run", "parcels.yaml", "sqlite:p.db", *arguments, **more)


def test_a_json_field_is_shown_as_one_value(parcels: Keyplan) -> None:
    shown = parcels("parcel", "id=1").stdout.splitlines()
    assert shown[1].split(maxsplit=1) == ["about", '{"a": {"b": [1]}}']
    assert shown[-1].split(maxsplit=2) == ["1", "1", '{"at": {"x": 1}}']
    assert parcels("parcels").stdout.splitlines()[0].split() == ["parcel_id", "about", "name"]
    assert parcels("call", "id=1", "name=y").stdout.splitlines()[1] == 'about  {"a": {"b": [1]}}'
    both = parcels("both", 'add={"parcel_id": 2, "about": "text"}', 'call={"id": 1, "name": "z"}').stdout
    assert 'call.about     {"a": {"b": [1]}}' in both.splitlines()
    assert parcels("parcel", "id=2").stdout.splitlines()[1].split() == ["about", '"text"']
    assert json.loads(parcels("parcel", "id=1", "--format", "json").stdout)["about"] == {"a": {"b": [1]}}


def test_null_in_a_file_clears_a_field(parcels: Keyplan) -> None:
    assert parcels("call", "id=1", "name=@-", stdin="null").exit_code == 0
    assert json.loads(parcels("parcel", "id=1", "--format", "json").stdout)["name"] is None
    assert "null in it clears an optional field" in parcels("--help").stdout


def test_what_is_wrong_with_json_is_told_of_text_and_file_alike(parcels: Keyplan) -> None:
    row = '{"a": 1, "a": 2}'
    said = "has 'a' twice; leave one out"
    assert_fails(parcels("add", "parcel_id=9", f"about={row}", "name=x"), f"add: argument 'about': {said}")
    assert_fails(parcels("add", "parcel_id=9", "about=@-", "name=x", stdin=row), f"-: {said}")


def test_a_folder_that_is_not_there_is_told_before_anything_is_promised(keyplan: Keyplan, locked: str) -> None:
    said = "nowhere/x.db: its folder does not exist; check the name, or make the folder"
    assert_fails(keyplan("apply", locked, "sqlite:nowhere/x.db"), said)
