"""What the types for Python begin with, whatever the model: pages, reports, and what every store has."""

from __future__ import annotations

IMPORTED = {
    "collections.abc": ("AsyncIterator", "Callable", "Iterable", "Iterator", "Mapping", "Sequence", "Set"),
    "datetime": ("date", "datetime"),
    "decimal": ("Decimal",),
    "typing": (
        *("TYPE_CHECKING", "Any", "Literal", "NotRequired", "Protocol", "Self", "TypedDict", "TypeVar", "overload"),
    ),
    "uuid": ("UUID",),
    "keyplan": ("Design", "Model"),
}
"""What the text imports, by modules."""

HEAD = '''"""The calls of the model '{model}', typed; written by `keyplan emit --to python`, not to be edited.

    store = cast({name}, keyplan.open(...))
    store = cast(Async{name}, await keyplan.open_async(...))
"""

from __future__ import annotations

{imports}

if TYPE_CHECKING:
    from keyplan import Design, Model

Row = TypeVar("Row", covariant=True)
Consistency = Literal["eventual", "session", "strong"]


class Page(Protocol[Row]):
    """Some rows, and where the next ones begin; `cursor` is None at the end."""

    @property
    def rows(self) -> Sequence[Row]: ...
    @property
    def cursor(self) -> str | None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Row]: ...


class Executed(Protocol):
    """What a call did, which `explain=True` returns besides the answer."""

    @property
    def steps(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def rounds(self) -> int: ...
    @property
    def requests(self) -> int: ...
    @property
    def rows(self) -> int: ...


class ViewReport(Protocol):
    """What `verify` found in one view."""

    @property
    def entries(self) -> int: ...
    @property
    def missing(self) -> int: ...
    @property
    def wrong(self) -> int: ...
    @property
    def extra(self) -> int: ...


class Verification(Protocol):
    """What `verify` found."""

    @property
    def ok(self) -> bool: ...
    @property
    def views(self) -> Mapping[str, ViewReport]: ...
    @property
    def problems(self) -> Sequence[str]: ...
    @property
    def structures(self) -> Sequence[str]: ...
    @property
    def compared(self) -> bool: ...
    @property
    def rows(self) -> int: ...
    @property
    def repaired(self) -> int: ...
'''

COMMON = {
    False: """\
@property
def model(self) -> Model: ...
@property
def design(self) -> Design: ...
def load(
    self,
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    *,
    progress: Callable[[int], None] | None = None,
    done: int | None = None,
) -> int: ...
def verify(self, *, repair: bool = False, progress: Callable[[int], None] | None = None) -> Verification: ...
def settle(self) -> None: ...
def using(self, **options: Any) -> Self: ...
def close(self) -> None: ...
def __enter__(self) -> Self: ...
def __exit__(self, *exc: object) -> None: ...
""",
}
COMMON[True] = (
    COMMON[False]
    .replace("def __enter__", "def __aenter__")
    .replace("def __exit__", "def __aexit__")
    .replace("\ndef ", "\nasync def ")
    .replace("@property\nasync def ", "@property\ndef ")
    .replace("async def using", "def using")
)
"""What every store has besides its calls, sync (False) and async (True); its methods are those of `keyplan.open`."""
