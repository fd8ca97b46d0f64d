"""A sub-agent that checks its own work, so that its supervisor only ever sees work that holds.

    python examples/sub_agent_with_check.py

The clerk's answer has to be JSON whose items add up to the total: its check runs inside the delegation, and the
supervisor need not know. With OPENAI_API_KEY or OPENAI_BASE_URL set, a real model is asked (ALFINE_MODEL names it).
Without, the models are scripted: the clerk's first two answers are wrong in two ways.
"""

import os

import anyio
from pydantic import BaseModel, ValidationError

from alfine import Agent, RunResult, Score, TaskComplete, events
from alfine.testing import ScriptedModel, Turn, call

HAS_MODEL = os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")
MODEL = os.environ.get("ALFINE_MODEL", "openai/gpt-5-mini") if HAS_MODEL else None

INVOICE = "2 pots of paint at 14 each, 1 brush at 6, delivery 5. Total 39."
SCRIPT = [
    'Here it is: {"items": {"paint": 28, "brush": 6, "delivery": 5}, "total": 39}',
    '{"items": {"paint": 14, "brush": 6, "delivery": 5}, "total": 39}',
    '{"items": {"paint": 28, "brush": 6, "delivery": 5}, "total": 39}',
]


class Invoice(BaseModel):
    items: dict[str, float]
    total: float


def adds_up(output: str) -> Score:
    """Grade by code. The reason is what the clerk reads when its answer fails."""
    try:
        invoice = Invoice.model_validate_json(output)
    except ValidationError as error:
        return Score(0, reason=f"It is not the JSON that was asked for: {error.errors()[0]['msg']}.")
    found = sum(invoice.items.values())
    return Score(
        float(found == invoice.total), reason=f"The items add up to {found:g}, the total is {invoice.total:g}."
    )


def build_supervisor() -> Agent[str]:
    clerk = Agent(
        "clerk",
        description="Turns the text of an invoice into data that is checked",
        instructions='Answer with JSON only: {"items": {"<name>": <price of all of them>, …}, "total": <total>}',
        model=MODEL or ScriptedModel(SCRIPT),
        is_task_complete=TaskComplete([adds_up]),
        max_steps=5,
    )
    script: list[Turn | str] = [
        Turn(tool_calls=[call("delegate_clerk", {"prompt": INVOICE})]),
        "The paint costs 28 of 39 in all.",
    ]
    return Agent(
        "bookkeeper",
        instructions="Have invoices read by the clerk before you answer.",
        model=MODEL or ScriptedModel(script),
        agents=[clerk],
    )


async def main() -> RunResult[str]:
    async with build_supervisor().stream(f"What does the paint cost? {INVOICE}") as stream:
        async for event in stream:
            margin = "    " * event.depth
            match event:
                case events.DelegationStarted():
                    print(f"{margin}{event.agent} -> {event.target}: {event.prompt}")
                case events.ScorerFinished():
                    print(f"{margin}[{'x' if event.passed else ' '}] {event.scorer_id}: {event.reason}")
                case events.DelegationFinished():
                    print(f"{margin}{event.agent} <- {event.target} ({event.outcome}): {event.result}")
        result = await stream.result()
    print(f"\n{result.outcome}\n\n{result.text}")
    return result


if __name__ == "__main__":
    anyio.run(main)
