"""Hooks on delegation: reject it, rewrite its prompt, choose what it sees, and act on what comes back.

    python examples/delegation_hooks.py

With OPENAI_API_KEY or OPENAI_BASE_URL set, a real model is asked (ALFINE_MODEL names it) and delegates as it likes.
Without, the models are scripted so that every hook has something to do.
"""

import os
from collections.abc import Sequence

import anyio

from alfine import (
    Agent,
    DelegationEnd,
    DelegationPolicy,
    DelegationStart,
    FinishDecision,
    Message,
    RunResult,
    StartDecision,
    UserMessage,
    events,
)
from alfine.testing import ScriptedModel, Turn, call

HAS_MODEL = os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")
MODEL = os.environ.get("ALFINE_MODEL", "openai/gpt-5-mini") if HAS_MODEL else None


def on_start(start: DelegationStart) -> StartDecision | None:
    """Decide before the sub-agent is called. None lets the delegation go ahead as it is."""
    if start.target == "payroll" and start.context.request_context.get("role") != "manager":
        return StartDecision(proceed=False, reason="Only managers may ask about pay. Do without it.")
    if start.target == "handbook":
        return StartDecision(prompt=f"{start.prompt} Name the paragraph.", max_steps=3)
    return None


def on_finish(end: DelegationEnd) -> FinishDecision | None:
    """Decide what becomes of the result."""
    if end.target == "handbook" and end.text is not None:
        text = end.text.replace("INTERNAL: ", "")
        return FinishDecision(text=text, feedback="A lawyer has to word the answer: ask `lawyer` for it.")
    if end.target == "lawyer" and not end.failed:
        return FinishDecision(bail=True)  # the lawyer's words are the answer, nobody rewords them
    return None


def user_messages_only(messages: Sequence[Message]) -> Sequence[Message]:
    """Show a sub-agent what the user said, and neither other sub-agents' results nor the supervisor's drafts."""
    return [message for message in messages if isinstance(message, UserMessage)]


def build_supervisor() -> Agent[str]:
    script = [
        Turn(tool_calls=[call("delegate_payroll", {"prompt": "What does Ada earn?"})]),
        Turn(tool_calls=[call("delegate_handbook", {"prompt": "How long is the notice period?"})]),
        Turn(tool_calls=[call("delegate_lawyer", {"prompt": "Word it: three months' notice, paragraph 12."})]),
    ]
    return Agent(
        "front desk",
        instructions="Answer questions of staff with the help of your colleagues.",
        model=MODEL or ScriptedModel(script),
        agents=[
            Agent("payroll", description="Knows what people earn", model=MODEL or ScriptedModel(["Secret!"])),
            Agent(
                "handbook",
                description="Knows the staff handbook",
                model=MODEL or ScriptedModel(["INTERNAL: three months, paragraph 12."]),
            ),
            Agent(
                "lawyer",
                description="Words answers so that they hold",
                model=MODEL or ScriptedModel(["The notice period is three months (staff handbook, paragraph 12)."]),
            ),
        ],
        delegation=DelegationPolicy(on_start=on_start, on_finish=on_finish, message_filter=user_messages_only),
    )


async def main() -> RunResult[str]:
    async with build_supervisor().stream(
        "What does Ada earn, and how long is her notice period?", request_context={"role": "clerk"}
    ) as stream:
        async for event in stream:
            match event:
                case events.DelegationStarted():
                    print(f"-> {event.target}: {event.prompt}")
                case events.DelegationFinished():
                    print(f"{'!!' if event.rejected else '<-'} {event.target}: {event.result}")
                case events.FeedbackInjected():
                    print(f"   feedback: {event.text}")
        result = await stream.result()
    print(f"\n{result.outcome}\n\n{result.text}")
    return result


if __name__ == "__main__":
    anyio.run(main)
