"""The reason that is told of a pattern that cannot be served."""

from __future__ import annotations

from keyplan.design.findings.unserved import _reason


def test_reason_is_how_long_it_takes_in_whatever_unit_that_is_told() -> None:
    slow = "reading 'Click' takes 12.35 s of 200 ms left"
    assert _reason(["only a scan would find them", slow, "no view with this key"], "raise p99", 200.0) == slow
    hopeless = "reading 'Click' takes 967.6 s of 200 ms left"
    assert _reason([hopeless, "no view with this key"], "", 200.0) == "no view with this key"
