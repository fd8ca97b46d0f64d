"""The agents: a supervisor, a reader that opens the documents, and a writer."""

from __future__ import annotations

from alfine import Agent, Model

from .documents import Documents
from .grading import SECTIONS
from .tools import document_tools

TASK = "Write a brief of these documents for a busy reader."
MAX_STEPS = 16

LAYOUT = f"""\
A brief is Markdown: a title (`# …`), then sections (`## …`), at least {", ".join(SECTIONS)}. It quotes the documents
word for word, each quote on its own: a line `> the quoted words`, and right below it a line `> — name of the document`.
It is short, says nothing that the notes do not bear out, and lists its documents under {SECTIONS[-1]}."""


def build_team(model: Model | str, documents: Documents) -> Agent[str]:
    """Return the supervisor of a team that makes briefs of these documents."""
    reader = Agent(
        "reader",
        description="Lists, reads and searches the documents, and takes notes: sentences word for word, by document.",
        instructions="You read documents. List them, read what the task needs, and search for what you are asked to "
        "find. Answer with notes only: for each document a line `Document: name`, and below it the sentences that "
        "matter, word for word, each on a line that begins with `- `. Leave no document out.",
        model=model,
        tools=document_tools(documents),
    )
    writer = Agent(
        "writer",
        description="Writes a brief from notes, or repairs a draft. It sees its prompt only: give it the notes, the "
        "draft and what is wrong with it.",
        instructions=f"You write briefs from notes. {LAYOUT} Answer with the brief only.",
        model=model,
    )
    return Agent(
        "supervisor",
        instructions="You have briefs made, and do not write them yourself. Let the reader take notes, give these to "
        "the writer, and answer with the writer's brief, word for word, and with nothing else. When a check says what "
        "is missing, let the reader look up what the notes lack and the writer repair the brief: keep what holds, mend "
        f"what fails. {LAYOUT}",
        model=model,
        agents=[reader, writer],
        max_steps=MAX_STEPS,
    )
