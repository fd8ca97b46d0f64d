"""A supervisor delegates to two sub-agents. A rubric grades its answer, and what is missing goes back to it.

    python examples/supervisor_with_rubric.py

With OPENAI_API_KEY or OPENAI_BASE_URL set, a real model is asked (ALFINE_MODEL names it). Without, all models are
scripted: nothing is thought here, but the run is a real one.
"""

import json
import os

import anyio

from alfine import Agent, Criterion, RunResult, create_rubric_scorer, events
from alfine.testing import ScriptedModel, SeenRequest, Turn, call

HAS_MODEL = os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")
MODEL = os.environ.get("ALFINE_MODEL", "openai/gpt-5-mini") if HAS_MODEL else None

RUBRIC = [
    Criterion("Names the source of its figures", id="source"),
    Criterion("Ends with a section headed Recommendations", id="recommendations"),
    Criterion("Is at most 150 words long", id="length", required=False),
]


def build_supervisor() -> Agent[str]:
    research = Agent(
        "research",
        description="Finds facts and says where they come from",
        instructions="Give facts with their source, no advice.",
        model=MODEL or ScriptedModel(["31 % of bicycle trips end at a station (city survey, table 4)."]),
    )
    writer = Agent(
        "writer",
        description="Turns facts into prose",
        instructions="Write plainly and briefly.",
        model=MODEL or ScriptedModel(["Almost a third of bicycle trips, 31 %, end at a station."]),
    )
    draft = "## Analysis\nAlmost a third of bicycle trips, 31 %, end at a station."
    mended = f"{draft} Source: city survey, table 4.\n\n## Recommendations\nBuild covered parking at stations."
    script: list[Turn | str] = [
        Turn(tool_calls=[call("delegate_research", {"prompt": "Where do bicycle trips end?"})]),
        Turn(
            tool_calls=[call("delegate_writer", {"prompt": "Put into prose: 31 % of bicycle trips end at a station."})]
        ),
        draft,
        mended,
    ]
    return Agent(
        "supervisor",
        instructions="Have facts found and prose written, then answer with a short report.",
        model=MODEL or ScriptedModel(script),
        agents=[research, writer],
    )


def stand_in_judge(request: SeenRequest) -> str:
    """Give verdicts in place of a model that judges: look into the answer for what the rubric asks for."""
    _, _, answer = request.text.partition("The output to judge")
    found = {
        "source": ("Source:" in answer, "The figure needs its source."),
        "recommendations": ("## Recommendations" in answer, "There is no section headed Recommendations."),
        "length": (len(answer.split()) <= 150, "It is too long."),
    }
    verdicts = [
        {"id": name, "reasoning": "It is there." if satisfied else missing, "satisfied": satisfied}
        for name, (satisfied, missing) in found.items()
    ]
    return json.dumps({"verdicts": verdicts})


async def main() -> RunResult[str]:
    supervisor = build_supervisor()
    rubric = create_rubric_scorer(model=MODEL or ScriptedModel(stand_in_judge), criteria=RUBRIC)
    async with supervisor.stream(
        "Report on where bicycle trips end", max_steps=8, is_task_complete={"scorers": [rubric], "strategy": "all"}
    ) as stream:
        async for event in stream:
            match event:
                case events.DelegationStarted():
                    print(f"-> {event.target}: {event.prompt}")
                case events.DelegationFinished():
                    print(f"<- {event.target}: {event.result}")
                case events.CriterionJudged():
                    print(f"   [{'x' if event.satisfied else ' '}] {event.description}: {event.reason}")
                case events.CheckFinished():
                    print(f"check {event.iteration}: {'passed' if event.passed else 'failed'}")
        result = await stream.result()
    print(f"\n{result.outcome} after {len(result.checks)} checks\n\n{result.text}")
    return result


if __name__ == "__main__":
    anyio.run(main)
