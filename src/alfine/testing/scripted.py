"""A model that answers from a script, in the same process and without a network."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from anyio.lowlevel import checkpoint

from alfine.runtime.limits import Usage
from alfine.runtime.messages import AssistantMessage, Message, ToolCall
from alfine.runtime.models import (
    ModelRequest,
    ModelSettings,
    OutputSchema,
    Part,
    Reply,
    ToolCallPart,
    ToolDefinition,
)

from ._play import OutputPart, Player, call_ids, parts
from .faults import Cut, ErrorInStream, MalformedChunk, as_model_error
from .gates import Gate
from .turns import Script, Turn


@dataclass(slots=True, kw_only=True, eq=False)
class SeenRequest:
    """One request as a `ScriptedModel` saw it; what happens to the conversation later does not change it.

    >>> import anyio
    >>> from alfine.runtime.messages import UserMessage
    >>> from alfine.runtime.models import ModelRequest
    >>> async def ask(model):
    ...     return [part async for part in model.stream(ModelRequest([UserMessage("Hi")], "Be kind"))]
    >>> model = ScriptedModel(["Hello!"])
    >>> parts = anyio.run(ask, model)
    >>> (seen,) = model.requests
    >>> seen.instructions, seen.texts, seen.n
    ('Be kind', ['Hi'], 1)

    Attributes:
        model: the model's name.
        n: which request to this model, from 1.
        ended: opens when the model is done with the request, for whatever reason.
        disconnected: the caller went away (cancel, or an early close) before the reply was whole; final once `ended`
            is open.
    """

    model: str
    n: int
    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...]
    settings: ModelSettings
    output: OutputSchema | None
    ended: Gate = field(default_factory=Gate)
    disconnected: bool = False

    @property
    def texts(self) -> list[str]:
        """The text of each message, in order, without the instructions."""
        return [message.text for message in self.messages]

    @property
    def text(self) -> str:
        """All that the model was shown, in one text: instructions, messages and the arguments of tool calls."""
        shown = [self.instructions]
        for message in self.messages:
            shown.append(message.text)
            if isinstance(message, AssistantMessage):
                shown += [wanted.arguments for wanted in message.tool_calls]
        return "\n".join(shown)

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools that the model may call."""
        return [tool.name for tool in self.tools]


class ScriptedModel:
    """A `Model` that answers from a script and remembers what it was asked.

    Request n gets turn n. A script may also be a function of the `SeenRequest`, sync or async, that returns a turn or
    a text. Past the end of a list the last turn is given again if it has `repeat`; else the call fails with
    `script exhausted`.

    >>> import anyio
    >>> from alfine.runtime.messages import UserMessage
    >>> from alfine.runtime.models import ModelRequest, Reply
    >>> model = ScriptedModel(["Hello!"])
    >>> async def ask():
    ...     async for part in model.stream(ModelRequest([UserMessage("Hi")])):
    ...         if isinstance(part, Reply):
    ...             return part.text
    >>> anyio.run(ask)
    'Hello!'
    >>> model.requests[0].texts
    ['Hi']

    Args:
        script: the turns, or a function.
        name: the model's name.
        provider: who is said to serve it.

    Raises:
        ConfigError: the script is neither a list of turns and texts nor a function.
    """

    def __init__(self, script: Script[SeenRequest], *, name: str = "scripted", provider: str = "scripted") -> None:
        self.requests: list[SeenRequest] = []
        self._player = Player(script)
        self._new_id = call_ids()
        self._name = name
        self._provider = provider

    @property
    def name(self) -> str:
        """The model's name."""
        return self._name

    @property
    def provider(self) -> str:
        """Who is said to serve it."""
        return self._provider

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Part, None]:
        """Answer with the next turn.

        Raises:
            ModelError: the script is exhausted, or the turn has a fault.
            Exception: the turn's `error`, or what a script function raised.
        """
        seen = self._remember(request)
        try:
            await checkpoint()
            turn = await self._player.turn(seen, self._name)
            await turn.before_answer()
            said = list(parts(turn, self._new_id))
            for position, part in enumerate(said[: _last(turn)]):
                await turn.pause(position, len(said))
                await checkpoint()  # as between chunks of a network: others may run, and a cancel is noticed
                yield part
            await turn.pause(len(said), len(said))
            if turn.error is not None:
                raise turn.error
            if turn.fault is not None:
                raise as_model_error(turn.fault, self._name)
        except Exception:
            raise
        except BaseException:
            seen.disconnected = True  # cancelled, or closed by the caller
            raise
        finally:
            seen.ended.open()
        yield _reply(turn, said, self._name, f"{self._name}-{seen.n}")

    def _remember(self, request: ModelRequest) -> SeenRequest:
        seen = SeenRequest(
            model=self._name,
            n=len(self.requests) + 1,
            instructions=request.instructions,
            messages=tuple(request.messages),
            tools=tuple(request.tools),
            settings=request.settings,
            output=request.output,
        )
        self.requests.append(seen)
        return seen


def _last(turn: Turn) -> int | None:
    match turn.fault:
        case Cut(after_deltas) | MalformedChunk(after_deltas) | ErrorInStream(_, after_deltas):
            return after_deltas or 0
    return None


def _reply(turn: Turn, said: list[OutputPart], model: str, response_id: str) -> Reply:
    begun = [part for part in said if isinstance(part, ToolCallPart) and not part.arguments]
    return Reply(
        text=turn.text,
        tool_calls=tuple(
            ToolCall(part.call_id, wanted.name, wanted.arguments)
            for part, wanted in zip(begun, turn.tool_calls, strict=True)
        ),
        reasoning=turn.reasoning,
        finish_reason="tool_calls" if turn.tool_calls else turn.ends_with,
        refusal=turn.refusal,
        usage=turn.usage or Usage(),
        response_id=response_id,
        response_model=model,
    )
