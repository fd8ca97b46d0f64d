"""One agent and one scorer, and a rubric that comes with each run.

    python examples/run_time_rubric.py

A rubric scorer that is made without criteria reads them from the run: here from `request_context["rubric"]`, as a
service would that lets each of its users say what a good answer is. With OPENAI_API_KEY or OPENAI_BASE_URL set, a real
model writes and judges (ALFINE_MODEL names it). Without, both are scripted.
"""

import json
import os

import anyio

from alfine import Agent, RunResult, TaskComplete, create_rubric_scorer
from alfine.testing import ScriptedModel, SeenRequest

HAS_MODEL = os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")
MODEL = os.environ.get("ALFINE_MODEL", "openai/gpt-5-mini") if HAS_MODEL else None

QUESTION = "Why is the sky blue?"

# A rubric is a text with one criterion a line, or a list, where each criterion may have an id and be optional.
RUBRICS: dict[str, list[dict[str, object]]] = {
    "for children": [
        {"id": "child", "description": "A child of six can follow it"},
        {"id": "example", "description": "It compares light with something from daily life", "required": False},
    ],
    "for students": [
        {"id": "term", "description": "It names Rayleigh scattering"},
        {"id": "law", "description": "It says how scattering depends on the wavelength"},
    ],
}


def stand_in_writer(request: SeenRequest) -> str:
    """Write in place of a model: a second answer says more, a third one all."""
    if "wavelength" in request.text:
        return "Rayleigh scattering grows with the inverse fourth power of the wavelength, so blue light spreads most."
    return "Sunlight bounces off the air like balls off a wall, and blue light bounces most."


def stand_in_judge(request: SeenRequest) -> str:
    """Judge in place of a model: a few words stand for each criterion."""
    signs = {"child": "bounces", "example": "like balls", "term": "Rayleigh", "law": "inverse fourth power"}
    criteria, _, rest = request.text.partition("The mark of the data blocks")
    _, _, answer = rest.partition("The output to judge")
    verdicts = [
        {"id": name, "reasoning": f"The answer {'has' if sign in answer else 'lacks'} it.", "satisfied": sign in answer}
        for name, sign in signs.items()
        if f"{name}: " in criteria
    ]
    return json.dumps({"verdicts": verdicts})


async def main() -> dict[str, RunResult[str]]:
    agent = Agent(
        "explainer",
        instructions="Answer in one or two sentences.",
        model=MODEL or ScriptedModel(stand_in_writer),
        max_steps=4,
        is_task_complete=TaskComplete([create_rubric_scorer(model=MODEL or ScriptedModel(stand_in_judge))]),
    )
    results = {}
    for name, rubric in RUBRICS.items():
        result = results[name] = await agent.run(QUESTION, request_context={"rubric": rubric})
        print(f"{name}: {result.outcome} after {len(result.checks)} check(s)\n{result.text}")
        for row in result.ledger.rows:
            print(f"   [{'x' if row.satisfied else ' '}] {row.description}")
        print()
    return results


if __name__ == "__main__":
    anyio.run(main)
