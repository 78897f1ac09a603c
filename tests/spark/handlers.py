"""Handlers that tasks import by their names."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rq_dlq.spark import by_batch, by_row

OUT = "id string, batch string, total double, error_class string, error_message string"


def handle(row: dict[str, Any]) -> dict[str, Any]:
    """Fails where the body is no number."""
    return {"total": float(row["body"])}


def handle_many(rows: pa.RecordBatch) -> dict[str, Any]:
    """The same of many rows."""
    return {"total": rows["body"].cast(pa.string()).cast(pa.float64())}


totals, many_totals = by_row(handle, OUT), by_batch(handle_many, OUT)
