"""What only newer versions of Spark can do."""

from __future__ import annotations

import pyspark
import pytest

SPARK = tuple(int(part) for part in pyspark.__version__.split(".")[:2])


def since(*version: int) -> pytest.MarkDecorator:
    """Skip a test on older versions."""
    wanted = ".".join(map(str, version))
    return pytest.mark.skipif(version > SPARK, reason=f"needs Spark {wanted}, this is {pyspark.__version__}")
