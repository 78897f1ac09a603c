"""The behaviour of queues, on every server and in both colours."""

import pytest

pytest.register_assert_rewrite(
    "tests.behaviour.cases"
)  # they are called by test_cases, so pytest does not see them
