"""Settings and limits that cannot be meant are refused by name, before any model is called."""

from __future__ import annotations

from typing import Any

import pytest

from alfine import ConfigError, ModelSettings, UsageLimits


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("temperature", v) for v in ("x", True, -1, 3, float("nan"))),
        *(("top_p", v) for v in ("x", True, -0.1, 1.1)),
        *(("max_tokens", v) for v in ("5", 0, 1.5, True, float("nan"))),
        *(("seed", v) for v in ("x", 1.5)),
        *(("stop", v) for v in ("abc", 5, [5])),
        ("tool_choice", 5),
        ("parallel_tool_calls", "yes"),
        ("reasoning_effort", 5),
        *(("timeout", v) for v in ("x", 0, -1, float("inf"), float("nan"))),
        *(("extra_body", v) for v in (5, "x", [1])),
    ],
)
def test_a_setting_of_a_wrong_kind_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelSettings(**{name: value})
    assert caught.value.argument == f"settings.{name}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, v) for name in ("requests", "tool_calls", "total_tokens") for v in ("1", 1.5, -1, float("nan"), True)),
        *(("prices", v) for v in (5, "x", [1], None)),
        *(("wall_time", v) for v in ("1", -1, float("inf"))),
    ],
)
def test_a_limit_of_a_wrong_kind_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        UsageLimits(**{name: value})
    assert caught.value.argument == f"limits.{name}"
