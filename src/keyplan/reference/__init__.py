"""The meaning of a model, in plain Python over plain rows: the oracle that every engine is held to.

Written to be read next to the language reference; nothing here is fast or clever. Each section of it has one file:

    Values      keyplan.model.values        what a value is, how it orders
    Reads       evaluate.py                 where, order, pages, shape, rank
                aggregate.py                group and compute
    Writes      apply.py                    create, upsert, update, delete, transactions
    both        database.py                 the rows, expiry, references, computed fields

What a caller may give and what an answer looks like is decided in `keyplan.model` (`arguments`, `new_row`, `predicate`,
`shape`), because the store has to decide the same; everything else is decided here a second time, independently of it.
"""

from keyplan.reference.database import Database, Page

__all__ = ["Database", "Page"]
