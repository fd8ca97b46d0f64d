"""Recorded cases of another system's loop, run over real HTTP, with the outcome that is right.

`ALFINE_CASES` names the folder (default: `../shared/cases` beside this project). Cases of part `loop` run here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from alfine import (
    Agent,
    AlfineError,
    DelegationEnd,
    DelegationPolicy,
    DelegationStart,
    FinishDecision,
    Message,
    OpenAIChatModel,
    RunResult,
    Score,
    ScorerInput,
    StartDecision,
    StepDecision,
    StepInfo,
    create_rubric_scorer,
    tool,
)
from alfine.events import CheckFinished, DelegationFinished, Event, ScorerFinished, StepFinished, TextDelta
from alfine.scorers import parse_rubric
from alfine.testing import FakeOpenAI, Turn, call, http_error

Case = dict[str, Any]

FOLDER = Path(os.environ.get("ALFINE_CASES") or Path(__file__).parent.parent.parent / "shared" / "cases")
CASES: list[Case] = [
    case for path in sorted(FOLDER.glob("*.json")) if (case := json.loads(path.read_text()))["part"] == "loop"
]

FINISH_REASONS = {"tool_calls": "tool-calls", "cancelled": "aborted"}
TYPES = {"string": "str", "number": "float", "boolean": "bool"}


def test_there_are_cases() -> None:
    if not CASES and not os.environ.get("CI"):
        pytest.skip(f"no cases in {FOLDER}; set ALFINE_CASES to the folder that holds them")
    assert CASES, f"no cases in {FOLDER}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_a_recorded_case_comes_out_right(case: Case) -> None:
    async with FakeOpenAI(scripts(case), strict=True) as server:
        play = Play(case, server)
        await play.run()
        seen = play.outcome()
    expected = case["expect"]
    assert {key: seen[key] for key in expected} == expected


class Play:
    """One case at work."""

    def __init__(self, case: Case, server: FakeOpenAI) -> None:
        self.case = case
        self.server = server
        self.hooks: Mapping[str, Any] = case.get("hooks", {})
        self.tool_runs: list[str] = []
        self.events: list[Event] = []
        self.result: RunResult[str] | None = None
        self.error: AlfineError | None = None
        self.models = {
            name: OpenAIChatModel(name, base_url=server.base_url, api_key="key", max_retries=0)
            for name in case["models"]
        }

    async def run(self) -> None:
        options = self.case["options"]
        stream = self.agent("supervisor").stream(
            self.case["input"],
            max_steps=options.get("max_steps"),
            is_task_complete=self.check(),
            request_context=options.get("request_context", {}),
            on_step=self.on_step(),
        )
        async with anyio.create_task_group() as group, stream:
            if abort := options.get("abort_on_call"):
                group.start_soon(self.abort, stream.cancel, abort)
            async for event in stream:
                self.events.append(event)
            try:
                self.result = await stream.result()
            except AlfineError as error:
                self.error = error
                self.result = getattr(error, "result", None)
        for model in self.models.values():
            await model.aclose()

    async def abort(self, cancel: Callable[[], None], abort: Mapping[str, Any]) -> None:
        await self.server.wait_for_request(abort["model"], abort["n"])
        await anyio.sleep(abort["after_ms"] / 1000)
        cancel()

    def agent(self, key: str) -> Agent[str]:
        said = self.case["agents"][key]
        return Agent(
            said["name"],
            model=self.models[key],
            instructions=said["instructions"],
            description=said.get("description", ""),
            tools=[self.tool(name) for name in said.get("tools", [])],
            agents={sub: self.agent(sub) for sub in said.get("agents", [])},
            max_steps=5,
            delegation=self.delegation(),
        )

    def tool(self, name: str) -> Callable[..., Any]:
        said = self.case["tools"][name]
        returns = Nth(said["returns"])
        scope: dict[str, Any] = {"runs": self.tool_runs, "returns": returns}
        parameters = ", ".join(f"{p}: {TYPES[kind]}" for p, kind in said["params"].items())
        exec(
            f"async def {name}({parameters}) -> str:\n    runs.append({name!r})\n    return str(returns.next())\n",
            scope,
        )
        made: Callable[..., Any] = tool(scope[name])
        return made

    def check(self) -> dict[str, Any] | None:
        said = self.case.get("is_task_complete")
        if said is None:
            return None
        return {
            "scorers": [self.scorer(s) for s in said["scorers"]],
            "strategy": said.get("strategy", "all"),
            "parallel": said.get("parallel", True),
            "timeout": said["timeout_ms"] / 1000 if "timeout_ms" in said else 600,
            "hide_feedback": said.get("suppress_feedback", False),
            "on_complete": raises("on_complete raised") if said.get("on_complete") == "raise" else None,
        }

    def scorer(self, said: Mapping[str, Any]) -> Any:
        if said["kind"] != "rubric":
            return CaseScorer(said)
        return create_rubric_scorer(
            model=self.models[said["model"]],
            criteria=said.get("criteria"),
            id=said["id"],
            scale=said.get("scale", 1),
        )

    def on_step(self) -> Callable[[StepInfo], StepDecision | None] | None:
        said = self.hooks.get("on_iteration")
        if said is None:
            return None

        def hook(info: StepInfo) -> StepDecision | None:
            wish = said[info.step.number - 1] if info.step.number <= len(said) else None
            if wish == "raise":
                raise RuntimeError("on_iteration raised")
            if wish is None:
                return None
            go_on = wish.get("continue")
            return StepDecision(None if go_on is None else "go_on" if go_on else "stop", wish.get("feedback"))

        return hook

    def delegation(self) -> DelegationPolicy:
        starts = self.hooks.get("delegation_start", {})
        ends = self.hooks.get("delegation_complete", {})
        keys = {said["name"]: key for key, said in self.case["agents"].items()}

        def on_start(start: DelegationStart) -> StartDecision | None:
            said = starts.get(keys[start.target])
            if said == "raise":
                raise RuntimeError("delegation_start raised")
            if said is None:
                return None
            return StartDecision(
                said.get("proceed", True),
                said.get("rejection_reason", ""),
                said.get("prompt"),
                said.get("instructions"),
            )

        def on_finish(end: DelegationEnd) -> FinishDecision | None:
            said = ends.get(keys[end.target])
            if said == "raise":
                raise RuntimeError("delegation_complete raised")
            if said is None:
                return None
            return FinishDecision(said.get("result_text"), said.get("feedback"), said.get("bail", False))

        return DelegationPolicy(
            on_start=on_start,
            on_finish=on_finish,
            context="conversation",
            message_filter=message_filter(self.hooks.get("message_filter")),
            include_tool_results=self.case["options"].get("include_sub_tool_results", False),
        )

    def outcome(self) -> dict[str, Any]:
        own = [e for e in self.events if e.depth == 0]
        result = self.result
        checks = result.checks if result else ()
        finish = result.steps[-1].finish_reason if result and result.steps else None
        if result is not None and result.outcome == "cancelled":
            finish = "cancelled"
        return {
            "model_calls": {name: len(calls) for name in self.models if (calls := self.server.calls(name))},
            "steps": sum(isinstance(e, StepFinished) for e in own),
            "checks": [self.check_of(e, own) for e in own if isinstance(e, CheckFinished)],
            "complete": checks[-1].passed if checks else None,
            "seen": {probe: self.seen(probe) for probe in self.case.get("probes", [])},
            "delegations": self.delegations(own),
            "tool_runs": self.tool_runs,
            "finish_reason": FINISH_REASONS.get(finish, finish) if finish else None,
            "final_text": result.text if result else "",
            "streamed_text": "".join(e.text for e in own if isinstance(e, TextDelta)),
            "error": self.error_text(),
        }

    def check_of(self, check: CheckFinished, own: Sequence[Event]) -> dict[str, Any]:
        scorers = [e for e in own if isinstance(e, ScorerFinished) and e.step == check.step]
        return {
            "iteration": check.step,
            "passed": check.passed,
            "timed_out": check.timed_out,
            "at_limit": check.at_limit,
            "scorers": [
                {"id": e.scorer_id, "score": e.value or 0, "passed": e.passed, "errored": e.errored}
                for e in sorted(scorers, key=lambda e: e.position)
            ],
        }

    def delegations(self, own: Sequence[Event]) -> list[dict[str, Any]]:
        keys = {said["name"]: key for key, said in self.case["agents"].items()}
        ended = [e for e in own if isinstance(e, DelegationFinished)]
        return [
            {"agent": keys[e.target], "result": e.result, "failed": e.failed}
            for e in sorted(ended, key=lambda e: (e.step, e.position))
        ]

    def seen(self, probe: str) -> list[str]:
        return [f"{r.model}#{r.n}" for r in self.server.requests if probe in r.text]

    def error_text(self) -> Any:
        """The expected text where the reported message contains it, else the whole message."""
        if self.error is None:
            return None
        expected = self.case["expect"].get("error")
        return expected if expected and expected in str(self.error) else str(self.error)


class Nth:
    """Value n for use n; the last one repeats."""

    def __init__(self, values: Any) -> None:
        self.values = values if isinstance(values, list) else [values]
        self.used = 0

    def next(self) -> Any:
        self.used += 1
        return self.values[min(self.used, len(self.values)) - 1]


class CaseScorer:
    """A scorer as the cases describe it."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.id: str = said["id"]
        self.said = said
        self.scores = Nth(said.get("scores", said.get("score", 1)))
        self.messages = Nth(said.get("message"))
        self.delays = Nth(said.get("delay_ms", 0))
        reason = said.get("reason", "")
        self.reasons = None if isinstance(reason, dict) else Nth(reason)

    async def score(self, input: ScorerInput, /) -> Score:
        value, delay, message = self.value(input.output), self.delays.next(), self.messages.next()
        reason = self.reasons.next() if self.reasons else self.said["reason"]["pass" if value == 1 else "fail"]
        await anyio.sleep(delay / 1000)
        if self.said["kind"] == "raises" and message is not None:
            raise RuntimeError(message)
        return Score(float("nan") if value == "NaN" else value, reason=reason)

    def value(self, output: str) -> Any:
        if self.said["kind"] == "contains":
            return int(self.said["text"] in output)
        if self.said["kind"] == "regex":
            return int(re.search(self.said["pattern"], output) is not None)
        return self.scores.next()


def raises(text: str) -> Callable[..., None]:
    def hook(*_: object) -> None:
        raise RuntimeError(text)

    return hook


def message_filter(said: str | None) -> Callable[[Sequence[Message]], Sequence[Message]] | None:
    if said is None:
        return None

    def keep(messages: Sequence[Message]) -> Sequence[Message]:
        if said == "raise":
            raise RuntimeError("message_filter raised")
        return [] if said == "none" else messages[-int(said) :]

    return keep


def scripts(case: Case) -> dict[str, list[Turn]]:
    ids = criterion_ids(case)
    return {model: [turn(said, ids) for said in turns] for model, turns in case["models"].items()}


def criterion_ids(case: Case) -> dict[str, str]:
    """Criterion text to the id that our rubric gives it."""
    rubrics = [
        s.get("criteria") or case["options"].get("request_context", {}).get("rubric") or ""
        for s in (case.get("is_task_complete") or {}).get("scorers", [])
        if s["kind"] == "rubric"
    ]
    return {c.description: c.id for rubric in rubrics for c in parse_rubric(rubric)}


def turn(said: Mapping[str, Any], ids: Mapping[str, str]) -> Turn:
    repeat = said.get("repeat", False)
    if "status" in said:
        return http_error(said["status"], said.get("message", ""), repeat=repeat)
    text = judge_text(json.dumps(said["json"]), ids) if "json" in said else judge_text(said.get("text", ""), ids)
    calls = [
        call(
            c["tool"] if "tool" in c else f"delegate_{c['delegate']}",
            c["raw_args"]
            if "raw_args" in c
            else c["args"]
            if "tool" in c
            else {"prompt": c["prompt"], **c.get("args", {})},
        )
        for c in said.get("calls", [])
    ]
    return Turn(
        text,
        tool_calls=calls,
        finish_reason=said.get("finish_reason"),
        delay=said.get("delay_ms", 0) / 1000,
        repeat=repeat,
    )


def judge_text(text: str, ids: Mapping[str, str]) -> str:
    """Translate a recorded judge's answer into the shape that our judge is asked for; other text stays."""
    found = re.search(r"\{.*\}", text, re.DOTALL)
    try:
        said = json.loads(found.group()) if found else None
    except ValueError:
        return text
    if not isinstance(said, dict) or "criteria" not in said or found is None:
        return text
    answer = {
        "verdicts": [
            {
                "id": ids.get(v.get("criterion"), f"unknown {v.get('criterion')}"),
                **{ours: v[theirs] for theirs, ours in JUDGE_FIELDS.items() if theirs in v},
            }
            for v in said["criteria"]
        ]
    }
    if "overallAssessment" in said:
        answer["summary"] = said["overallAssessment"]
    return text[: found.start()] + json.dumps(answer) + text[found.end() :]


JUDGE_FIELDS = {"reasoning": "reasoning", "satisfied": "satisfied"}
