"""The client of a database: how values are written, where reads and writes go, and what its errors mean.

This and `port.py` are all that knows the driver.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import copy
from datetime import UTC
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urlsplit

from keyplan.engines.mongodb.faults import translate
from keyplan.engines.mongodb.operations import Find
from keyplan.engines.mongodb.values import Document, Top
from keyplan.errors import ArgumentError, KeyplanError, MissingDriverError

try:
    import bson
    import pymongo
    from bson.codec_options import CodecOptions, TypeEncoder, TypeRegistry
    from bson.decimal128 import Decimal128
    from bson.errors import BSONError
    from bson.max_key import MaxKey
    from pymongo import _csot, read_preferences
    from pymongo.errors import (
        AutoReconnect,
        BulkWriteError,
        InvalidOperation,
        OperationFailure,
        PyMongoError,
        ServerSelectionTimeoutError,
    )
    from pymongo.read_concern import ReadConcern
    from pymongo.read_preferences import ReadPreference
    from pymongo.write_concern import WriteConcern
except ImportError:
    raise MissingDriverError("mongodb: the driver 'pymongo' is not installed; pip install 'keyplan[mongodb]'") from None

__all__ = [
    "ERRORS",
    "AutoReconnect",
    "BulkWriteError",
    "InvalidOperation",
    "Link",
    "OperationFailure",
    "PyMongoError",
    "ReadConcern",
    "ReadPreference",
    "ServerSelectionTimeoutError",
    "WriteConcern",
    "bson",
    "codec_options",
    "has_deadline",
    "pymongo",
]

SELECTION_MS = 10_000
"""How long a usable server is looked for, unless the URL says otherwise."""
_CONCERN = {"w": "w", "journal": "j", "wtimeoutMS": "wtimeout"}
_OPTIONS = {**_CONCERN, "readPreference": "", "readConcernLevel": ""}
"""The options of a URL that single calls can have, and what the driver calls those of a write concern."""
_MODES = {
    "primary": read_preferences.Primary,
    "primaryPreferred": read_preferences.PrimaryPreferred,
    "secondary": read_preferences.Secondary,
    "secondaryPreferred": read_preferences.SecondaryPreferred,
    "nearest": read_preferences.Nearest,
}
_LEVELS = ("local", "available", "majority", "linearizable")
ERRORS = (PyMongoError, BSONError, ArithmeticError, OverflowError, UnicodeError)


class _DecimalEncoder(TypeEncoder):
    """Decimals as Decimal128. Rows turn them back: a decoder here would be asked about every value there is."""

    python_type = Decimal

    def transform_python(self, value: Decimal) -> Decimal128:
        return Decimal128(value)


class _TopEncoder(TypeEncoder):
    """Our greatest value as MaxKey."""

    python_type = Top

    def transform_python(self, value: Top) -> MaxKey:
        return MaxKey()


def codec_options() -> CodecOptions[Any]:
    from bson.binary import UuidRepresentation

    return CodecOptions(
        tz_aware=True,
        tzinfo=UTC,
        uuid_representation=UuidRepresentation.STANDARD,
        type_registry=TypeRegistry([_DecimalEncoder(), _TopEncoder()]),
    )


def has_deadline() -> bool:
    """Whether the caller has said how long the driver may take (`pymongo.timeout`)."""
    return _csot.get_timeout() is not None


class Seen:
    """The time of the last operation that a client knows the outcome of; shared by the links of one client."""

    def __init__(self) -> None:
        self.last: Any = None
        self.cluster: Any = None
        """The time of the cluster that came with it, signed. A node that has not heard of a time refuses to wait for
        it, unless the client brings this; the driver knows that of its own client only."""

    def note(self, moment: Any, cluster: Any = None) -> None:
        if moment is not None and (self.last is None or moment > self.last):
            self.last = moment
            self.cluster = cluster or self.cluster


class Link:
    """A client of either colour, and the collections it reads and writes."""

    def __init__(self, url: str, client: Any) -> None:
        parts = urlsplit(url)
        name = unquote(parts.path.lstrip("/"))
        hosts = parts.netloc.rpartition("@")[2]
        self.where = f"{hosts}/{name}"
        if not name or "/" in name:
            raise ArgumentError(
                f"'{parts.scheme}://{hosts}/': no database is named; write {parts.scheme}://host/database"
            )
        options: dict[str, Any] = {"appname": "keyplan", "tz_aware": True}
        if "serverselectiontimeoutms" not in parts.query.lower():
            options["serverSelectionTimeoutMS"] = SELECTION_MS
        try:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "error", UserWarning
                )  # the driver goes on without an option that it does not know
                self.client = client(url, **options)
            self.options = codec_options()
            self.database = self.client.get_database(name, codec_options=self.options)
        except (PyMongoError, ValueError, TypeError, UserWarning) as error:
            raise ArgumentError(f"{self.where}: {error}") from None
        self._name = name
        self._seen = Seen()
        self._ask(self.client.write_concern.document, self.client.read_concern.level)

    def _ask(self, concern: Document, level: str | None) -> None:
        """What writes wait for, and how much of what others have written plain reads see."""
        # A concern without `w` would mean a single node.
        said = {"w": "majority", **concern}
        self.concern = WriteConcern(said["w"], said.get("wtimeout"), said.get("j"))
        self._weak_level: Document = {"readConcern": {"level": level}} if level else {}
        self._strong_concern = ReadConcern("linearizable" if level == "linearizable" else "majority")
        self._level = level
        self._weak: dict[str, Any] = {}
        self._following: dict[str, Any] = {}
        self._strong: dict[str, Any] = {}
        self._writing: dict[str, Any] = {}

    def using(self, options: Mapping[str, Any]) -> Link:
        """The same client with other concerns and another read preference, named as in a URL."""
        for name in options:
            if name not in _OPTIONS:
                raise ArgumentError(f"{self.where}: calls have no option '{name}'; they have {', '.join(_OPTIONS)}")
        named = {_OPTIONS[name]: value for name, value in options.items() if name in _CONCERN}
        if named.get("w") in (0, "0"):
            raise ArgumentError(
                f"{self.where}: 'w' is {named['w']!r}, so that no write would be known to be done; use 1"
            )
        mode = options.get("readPreference")
        if mode is not None and mode not in _MODES:
            raise ArgumentError(f"{self.where}: no read preference '{mode}'; there are {', '.join(_MODES)}")
        level = options.get("readConcernLevel", self._level)
        if level not in (None, *_LEVELS):
            raise ArgumentError(f"{self.where}: no read concern '{level}'; there are {', '.join(_LEVELS)}")
        made = copy(self)
        try:
            made._ask({**self.concern.document, **named}, level)
        except (PyMongoError, ValueError, TypeError) as error:
            raise ArgumentError(f"{self.where}: {error}") from None
        made.database = self.client.get_database(
            self._name,
            codec_options=self.options,
            read_preference=self.database.read_preference if mode is None else _MODES[mode](),
            read_concern=ReadConcern(level),
        )
        return made

    def session(self) -> Any:
        """A session whose last time is noted by `note`."""
        return self.client.start_session(causal_consistency=False)

    def note(self, moment: Any, cluster: Any = None) -> None:
        """Takes notice of the time of an operation: reads of the session see what was there then.

        `cluster`: what the server says of its cluster's time, where another client has asked."""
        self._seen.note(moment, cluster)

    def following(self, name: str) -> tuple[Any, Any]:
        """A collection that may be read on any node, and a session behind all that this client has written or seen.

        Not behind the time of the cluster, which may be ahead of every write: then a read would wait for the next one.
        """
        session = self.client.start_session(causal_consistency=True)
        if self._seen.last is not None:
            session.advance_operation_time(self._seen.last)
            if self._seen.cluster is not None:
                session.advance_cluster_time(self._seen.cluster)
        collection = self._following.get(name)
        if collection is None:
            collection = self._following[name] = self.database.get_collection(
                name, read_concern=ReadConcern("majority")
            )
        return collection, session

    def reading(self, name: str, strong: bool) -> Any:
        found = (self._strong if strong else self._weak).get(name)
        if found is None:
            if strong:
                found = self._strong[name] = self.database.get_collection(
                    name, read_preference=ReadPreference.PRIMARY, read_concern=self._strong_concern
                )
            else:
                found = self._weak[name] = self.database.get_collection(name)
        return found

    def page(self, request: Find) -> Any:
        """The find as a plain command, which for one small answer is quicker than the driver's cursor."""
        preference = ReadPreference.PRIMARY if request.strong else self.database.read_preference
        return self.database.command(self.command(request), codec_options=self.options, read_preference=preference)

    @property
    def reads_primary(self) -> bool:
        """Whether plain reads go to the primary."""
        return bool(self.database.read_preference.mode == ReadPreference.PRIMARY.mode)

    def command(self, request: Find) -> Document:
        body: Document = {"find": request.collection, "filter": request.filter}
        if request.projection is not None:
            body["projection"] = request.projection
        if request.sort is not None:
            body["sort"] = dict(request.sort)
        if request.hint is not None:
            body["hint"] = request.hint
        body["limit"] = body["batchSize"] = request.limit
        body |= {"readConcern": self._strong_concern.document} if request.strong else self._weak_level
        return body

    def writing(self, name: str) -> Any:
        found = self._writing.get(name)
        if found is None:
            found = self._writing[name] = self.database.get_collection(
                name,
                read_preference=ReadPreference.PRIMARY,
                read_concern=ReadConcern("local"),
                write_concern=self.concern,
            )
        return found

    def error(self, error: BaseException, *, writing: bool) -> KeyplanError:
        return translate(error, self.where, writing=writing)
