"""Two visitors at once: the second reads a place in the line (whose turn comes when is in `test_turns`)."""

from __future__ import annotations

import pytest

from tests.app.steps import ask, wait_status

pytestmark = pytest.mark.browser


def test_the_second_visitor_reads_a_place(stub_server, visit):
    first, second = visit(stub_server), visit(stub_server)
    ask(first, "glacial, please")
    wait_status(first, "Decoding")
    ask(second, "What is it?")
    wait_status(second, "Waiting: 1 run is before yours, one runs at a time.")
