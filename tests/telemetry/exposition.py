"""What Prometheus reads from a registry."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as strict
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector


def registry_of(*collectors: Collector) -> CollectorRegistry:
    """A registry with these alone."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return registry


def read(text: str) -> dict[str, float]:
    """The values of an exposition, by name and labels as `name{a="x",b="y"}`, the labels sorted."""
    values: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            key = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert key not in values, f"{key} is there twice"
            values[key] = sample.value
    return values


def scrape(registry: CollectorRegistry) -> dict[str, float]:
    """The same of a registry. OpenMetrics' parser checks more: units, suffixes, the order of families."""
    openmetric = openmetrics.generate_latest(registry).decode()
    assert [*strict(openmetric)]
    return read(generate_latest(registry).decode())
