"""Events: one flat list of typed values that round-trip through JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

import pytest

from alfine.runtime.events import (
    EVENT_TYPES,
    Event,
    RunStarted,
    StepStarted,
    TextDelta,
    ToolProgress,
    UnknownEvent,
    event_from_dict,
)

KINDS = [
    *("run_started", "step_started", "text_delta", "reasoning_delta", "tool_call_started", "tool_call_delta"),
    *("tool_called", "tool_returned", "delegation_started", "delegation_finished", "step_finished", "check_started"),
    *("criterion_judged", "scorer_finished", "check_finished", "feedback_injected", "approval_requested"),
    *("approval_resolved", "warning", "run_finished"),
]

SAMPLES: dict[str, Any] = {
    "str": "é\x00",
    "int": 3,
    "float": 0.5,
    "bool": True,
    "str | None": "text",
    "int | None": 4,
    "float | None": 0.25,
    "bool | None": False,
    "list[str]": ["a", "b"],
    "dict[str, float]": {"cost": 0.5},
    "Any": {"nested": [1, None]},
}


def full(cls: type[Event]) -> Event:
    """Return an event with something in every field."""
    return cls(**{f.name: SAMPLES[str(f.type)] for f in fields(cls)})


def least(cls: type[Event]) -> Event:
    """Return an event with only what it needs."""
    needed = [f for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING]
    return cls(**{f.name: SAMPLES[str(f.type)] for f in needed})


def test_every_kind_of_the_design_exists() -> None:
    assert set(KINDS) <= set(EVENT_TYPES)
    assert set(EVENT_TYPES) - set(KINDS) == {"tool_progress"}


@pytest.mark.parametrize("kind", EVENT_TYPES)
@pytest.mark.parametrize("make", [full, least])
def test_every_kind_round_trips_through_json(kind: str, make: Callable[[type[Event]], Event]) -> None:
    event = make(EVENT_TYPES[kind])
    data = json.loads(event.to_json())
    assert data["kind"] == kind
    assert next(iter(data)) == "kind"
    again = event_from_dict(data)
    assert again == event
    assert type(again) is EVENT_TYPES[kind]


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_every_kind_says_which_run_it_belongs_to(kind: str) -> None:
    assert {"seq", "run_id", "agent", "depth"} <= full(EVENT_TYPES[kind]).to_dict().keys()


def test_the_list_is_versioned() -> None:
    assert RunStarted("r", "a", 0, "in", 10).to_dict()["version"] == 1


def test_unknown_fields_are_ignored() -> None:
    data = StepStarted("r", "a", 0, 1, 2).to_dict()
    assert event_from_dict({**data, "mood": "fine"}) == event_from_dict(data)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            {"kind": "mood_changed", "run_id": "r", "agent": "a", "depth": 1, "seq": 7, "mood": 3}, id="a kind"
        ),
        pytest.param({"kind": "text_delta", "run_id": "r", "agent": "a", "depth": 1, "seq": 7}, id="a lacking field"),
        pytest.param({"kind": ["odd"], "run_id": "r", "agent": "a", "depth": 1, "seq": 7}, id="no kind at all"),
    ],
)
def test_what_is_not_known_comes_back_whole_as_an_unknown_event(data: dict[str, object]) -> None:
    event = event_from_dict(data)
    assert isinstance(event, UnknownEvent)
    assert (event.run_id, event.agent, event.depth, event.seq) == ("r", "a", 1, 7)
    assert event.to_dict() == data


def test_an_event_without_anything_is_unknown_too() -> None:
    assert isinstance(event_from_dict({"depth": "deep", "seq": None}), UnknownEvent)


def test_lone_surrogates_and_numbers_without_a_word_in_json_can_still_be_written() -> None:
    assert json.loads(TextDelta("r", "a\ud800", 0, 1, "x\udfff", False).to_json())["text"] == "x\ufffd"
    assert json.loads(ToolProgress("r", "a", 0, 1, 0, "c", "t", float("nan")).to_json())["data"] is None
