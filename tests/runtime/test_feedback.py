"""The feedback message of a failed check."""

from __future__ import annotations

import re

import pytest
from playing import Says, of, play, wants, worker

from alfine import CheckReport, FeedbackMessage, Score, Verdict
from alfine.runtime.events import FeedbackInjected

REASONS = ["  two lines\n\n  and 3.5 s\t<tag> ```code```  ", "- a list\n- of two", "fine as it is"]


async def test_it_holds_every_reason_word_for_word_failing_ones_first() -> None:
    scorers = [
        Says(Score(1.0, reason=REASONS[2]), id="good"),
        Says(RuntimeError("SECRET"), 1.0, id="broken"),
        Says(Score(0.0, reason=REASONS[0]), 1.0, id="bad"),
        Says(Score(0.5, reason=REASONS[1]), 1.0, id="half"),
    ]
    agent, model = worker(["one", "two"], is_task_complete={"scorers": scorers})
    await play(agent)
    text = model.requests[1].texts[-1]
    places = [text.index(part) for part in (REASONS[0], REASONS[1], "broken", REASONS[2])]
    assert places == sorted(places)
    assert "SECRET" not in text


async def test_it_has_its_own_kind_in_the_history() -> None:
    agent, model = worker(["one", "two"], is_task_complete={"scorers": [wants("two")]})
    result, _ = await play(agent)
    message = result.messages[2]
    assert isinstance(message, FeedbackMessage)
    assert (message.source, message.hidden) == ("check", False)
    assert model.requests[1].messages[2] == message
    assert message.text.startswith("[Completion check 1]")


def marked(**satisfied: bool) -> Score:
    verdicts = tuple(Verdict(k, f"criterion {k}", k != "o", v, f"about {k}") for k, v in satisfied.items())
    return Score(float(all(satisfied.values())), criteria=verdicts, reason="see the criteria")


async def test_it_says_what_was_fixed_what_still_fails_and_what_broke() -> None:
    scorer = Says(marked(a=False, b=False, c=True, o=False), marked(a=True, b=False, c=False, o=False), 1.0)
    agent, model = worker(["one", "two", "three"], is_task_complete={"scorers": [scorer]})
    await play(agent)
    first, second = model.requests[1].texts[-1], model.requests[2].texts[-1]
    assert "criterion" not in first
    assert "Fixed since the last check: criterion a\n" in second
    assert "Still failing: criterion b; criterion o (optional)\n" in second
    assert "Satisfied before, failing now: criterion c\n" in second


async def test_it_is_the_same_text_each_time_and_holds_no_durations() -> None:
    texts = []
    for _ in range(2):
        agent, model = worker(["one", "two"], is_task_complete={"scorers": [wants("two")]})
        await play(agent)
        texts.append(model.requests[1].texts[-1])
    assert texts[0] == texts[1]
    assert not re.search(r"\d\s*(ms|s|seconds)\b", texts[0])


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_feedback_function_replaces_it(is_async: bool) -> None:
    def write(report: CheckReport) -> str:
        return f"check {report.iteration}: {report.scorers[0].scorer_id} says no"

    async def write_async(report: CheckReport) -> str:
        return write(report)

    check = {"scorers": [Says(0.0, 1.0)], "feedback": write_async if is_async else write}
    agent, model = worker(["one", "two"], is_task_complete=check)
    await play(agent)
    assert model.requests[1].texts[-1] == "check 1: says says no"


async def test_a_blank_feedback_still_lets_somebody_speak_between_two_answers() -> None:
    agent, model = worker(
        ["one", "two"], is_task_complete={"scorers": [Says(0.0, 1.0)], "feedback": lambda report: " "}
    )
    await play(agent)
    assert [m.kind for m in model.requests[1].messages] == ["user", "assistant", "feedback"]
    assert model.requests[1].texts[-1].strip()


@pytest.mark.parametrize("write", [lambda report: 5, lambda report: 1 / 0], ids=["no text", "raising"])
async def test_a_feedback_function_that_fails_ends_the_run_as_error(write: object) -> None:
    agent, _ = worker(["one"], is_task_complete={"scorers": [Says(0.0)], "feedback": write})
    result, _ = await play(agent)
    assert (result.outcome, result.text) == ("error", "one")


async def test_hidden_feedback_still_reaches_the_model() -> None:
    agent, model = worker(["one", "two"], is_task_complete={"scorers": [wants("two")], "hide_feedback": True})
    result, events = await play(agent)
    assert [e.hidden for e in of(events, FeedbackInjected)] == [True]
    assert [m.hidden for m in result.messages if isinstance(m, FeedbackMessage)] == [True]
    assert "two is missing" in model.requests[1].text
