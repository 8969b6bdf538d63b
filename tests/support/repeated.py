"""Property tests with two amounts of examples: some in `make test`, and many in `make test-exhaustive`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

Test = Callable[..., None]


def repeated(given: Callable[[Test], Test], *, some: int, many: int, **options: Any) -> Callable[[Test], Test]:
    """The test with some examples; and, in the same module, one of the same name with `_many_times` behind it, which is
    marked as exhaustive. Both keep what they find in one place, so a failure of the second is seen by the first from
    then on. Other decorators stand below this one, so that both have them. `options` are settings of Hypothesis."""

    def decorate(test: Test) -> Test:
        thorough = settings(max_examples=many, **options)(given(test))
        thorough.__name__ = f"{test.__name__}_many_times"
        # Tests are found by the names of their module.
        test.__globals__[thorough.__name__] = pytest.mark.exhaustive(thorough)
        return settings(max_examples=some, **options)(given(test))

    return decorate
