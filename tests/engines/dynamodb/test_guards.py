"""What keeps a unique value also answers reads by it, with what they want, where that is cheaper than an index."""

from __future__ import annotations

from typing import Any

import pytest

import keyplan
from keyplan.plan.view import View
from tests.unit.design.nouns import model_of

USERS = """
User:
  count: 2M
  fields: { user_id: "uuid, key", email: "string(32), unique", name: string(20), about: text(ABOUT) }
"""


def views(
    *, about: int = 200, by_email: str = "10/s", select: str = "", edits: str = "1/day", p99: str = "10ms"
) -> list[View]:
    """The views of a design of users who are found by their mail."""
    wanted = f", select: [{select}]" if select else ""
    model = model_of(
        USERS.replace("ABOUT", str(about)),
        f"""
user: {{ find: User, where: "user_id = :user_id", rate: 100/s, p99: 10ms }}
by_email: {{ find: User, where: "email = :email"{wanted}, rate: {by_email}, p99: {p99} }}
""",
        f"""
register: {{ create: User, rate: 1/min }}
edit: {{ update: User, set: [about], where: "user_id = :user_id", rate: {edits} }}
""",
    )
    return list(keyplan.design(model, "dynamodb").views.values())


def test_the_guard_of_a_unique_value_has_what_reads_by_it_want() -> None:
    home, guard = views()
    assert guard.unique
    assert set(guard.holds) == set(home.holds)


@pytest.mark.parametrize(
    ("figures", "holds"),
    [
        ({"about": 3000, "select": "user_id, name"}, {"user_id", "email", "name"}),
        ({"edits": "1000/s", "p99": "50ms"}, {"user_id", "email"}),
    ],
    ids=["some of it", "edited all the time"],
)
def test_the_guard_has_no_more_than_pays(figures: dict[str, Any], holds: set[str]) -> None:
    _, guard = views(**figures)
    assert guard.unique
    assert set(guard.holds) == holds
