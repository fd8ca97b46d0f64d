"""A sub-agent that checks its own work, so that its supervisor only ever sees work that holds.

    python examples/sub_agent_with_check.py

The coder's answer has to be Python that compiles and passes a test: its check runs inside the delegation, and the
supervisor is none the wiser. With OPENAI_API_KEY or OPENAI_BASE_URL set, a real model is asked (ALFINE_MODEL names it).
Without, the models are scripted: the coder's first two answers are wrong in two ways.
"""

import os

import anyio

from alfine import Agent, RunResult, Score, TaskComplete, events
from alfine.testing import ScriptedModel, Turn, call

HAS_MODEL = os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")
MODEL = os.environ.get("ALFINE_MODEL", "openai/gpt-5-mini") if HAS_MODEL else None

SCRIPT = [
    "def median(numbers)\n    return sorted(numbers)[len(numbers) // 2]",
    "def median(numbers):\n    return numbers[len(numbers) // 2]",
    "def median(numbers):\n    return sorted(numbers)[len(numbers) // 2]",
]


def is_a_median(output: str) -> Score:
    """Compile the answer and try it out. Its reason is what the coder reads when it fails.

    Code that a model wrote belongs in a sandbox; this example runs without one because it can only call `sorted`.
    """
    names: dict[str, object] = {"__builtins__": {"sorted": sorted, "len": len}}
    try:
        exec(compile(output, "answer", "exec"), names)
    except Exception as error:
        return Score(0, reason=f"It does not run: {error}")
    function = names.get("median")
    found = function([9, 1, 5]) if callable(function) else None
    return Score(float(found == 5), reason=f"median([9, 1, 5]) gave {found}, and should give 5.")


def build_supervisor() -> Agent[str]:
    coder = Agent(
        "coder",
        description="Writes Python functions that are tested",
        instructions="Answer with Python code only, without a fence.",
        model=MODEL or ScriptedModel(SCRIPT),
        is_task_complete=TaskComplete([is_a_median]),
        max_steps=5,
    )
    script = [
        Turn(tool_calls=[call("delegate_coder", {"prompt": "Write median(numbers) for an odd count of numbers."})]),
        "Here is the function, tested: `median(numbers)` sorts and takes the middle.",
    ]
    return Agent("lead", instructions="Have code written.", model=MODEL or ScriptedModel(script), agents=[coder])


async def main() -> RunResult[str]:
    async with build_supervisor().stream("I need a median") as stream:
        async for event in stream:
            margin = "    " * event.depth
            match event:
                case events.DelegationStarted():
                    print(f"{margin}{event.agent} -> {event.target}: {event.prompt}")
                case events.ScorerFinished():
                    print(f"{margin}[{'x' if event.passed else ' '}] {event.scorer_id}: {event.reason}")
                case events.DelegationFinished():
                    print(f"{margin}{event.agent} <- {event.target} ({event.outcome}):\n{event.result}")
        result = await stream.result()
    print(f"\n{result.outcome}\n\n{result.text}")
    return result


if __name__ == "__main__":
    anyio.run(main)
