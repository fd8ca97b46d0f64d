"""Scorers that are plain code, under the strategy `any`: one that passes is enough.

    python examples/any_of_code_scorers.py

A meeting may be summed up in one short sentence or in a list of points, but not in a wall of text. Both scorers are
code, so they cost no model call. With OPENAI_API_KEY or OPENAI_BASE_URL set, a real model writes (ALFINE_MODEL names
it). Without, its two answers are scripted.
"""

import os

import anyio

from alfine import Agent, CheckReport, RunResult, Score, TaskComplete, create_scorer
from alfine.testing import ScriptedModel

HAS_MODEL = os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")
MODEL = os.environ.get("ALFINE_MODEL", "openai/gpt-5-mini") if HAS_MODEL else None

LIMIT = 80
SCRIPT = [
    "The team met on Monday and talked for an hour about the release, which was moved to Friday, while Ada agreed to "
    "write the notes and Max to test the installer.",
    "- The release is on Friday\n- Ada writes the notes\n- Max tests the installer",
]


def one_short_sentence(output: str) -> Score:
    """A plain function is a scorer: it takes the output and returns a bool, a number from 0 to 1, or a Score."""
    fits = len(output) <= LIMIT and "\n" not in output.strip()
    return Score(float(fits), reason=f"{len(output)} characters; one sentence of at most {LIMIT} would do.")


# The same built of named steps: each step sees what the steps before it returned.
list_of_points = (
    create_scorer(id="list_of_points", description="At least three lines, each of them a point")
    .preprocess(lambda step: step.output.strip().splitlines())
    .analyze(lambda step: [line for line in step.results["preprocess"] if line.startswith("- ")])
    .generate_reason(lambda step: f"{len(step.results['analyze'])} lines are points; a list of three or more would do.")
    .generate_score(
        lambda step: len(step.results["analyze"]) >= 3 and step.results["analyze"] == step.results["preprocess"]
    )
)


def show(report: CheckReport) -> None:
    print(f"check {report.iteration}: {'passed' if report.passed else 'failed'}")
    for result in report.scorers:
        reason = result.score.reason if result.score else result.error
        print(f"   [{'x' if result.passed else ' '}] {result.scorer_id}: {reason}")


async def main() -> RunResult[str]:
    agent = Agent(
        "scribe",
        instructions="Sum up what you are given.",
        model=MODEL or ScriptedModel(SCRIPT),
        max_steps=4,
        is_task_complete=TaskComplete([one_short_sentence, list_of_points], strategy="any", on_complete=show),
    )
    result = await agent.run(
        "We met on Monday for an hour. The release moves to Friday. Ada will write the notes, Max tests the installer."
    )
    print(f"\n{result.outcome}\n\n{result.text}")
    return result


if __name__ == "__main__":
    anyio.run(main)
