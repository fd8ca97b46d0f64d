"""The package's logger. structlog is loaded on the first log line, since it costs more than all our imports."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def logger() -> FilteringBoundLogger:
    """Return the logger; how it renders is the application's business."""
    import structlog

    log: FilteringBoundLogger = structlog.get_logger("alfine")
    return log
