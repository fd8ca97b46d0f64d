"""The seam to language models: what a run sends, what comes back, and the protocol between them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Protocol, runtime_checkable

from ..errors import ConfigError
from ..limits import Usage
from ..messages import Message, ToolCall

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "error"]


def is_number(value: object) -> bool:
    """Whether `value` is an int or a float, and no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, Sequence) else (value,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How a model is asked. A field that is None is not sent.

    Attributes:
        temperature: 0 to 2.
        top_p: 0 to 1.
        max_tokens: most tokens in one reply, at least 1.
        seed: for servers that can repeat a reply.
        stop: texts that end a reply.
        tool_choice: `auto`, `none`, `required`, or the name of a tool.
        parallel_tool_calls: whether one reply may hold several calls.
        reasoning_effort: such as `minimal`, `low`, `medium`, `high`.
        timeout: seconds for one model call until its last byte.
        extra_body: further fields of the request's body, sent as they are.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: Sequence[str] | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    timeout: float | None = None
    extra_body: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for name, low, high in (("temperature", 0, 2), ("top_p", 0, 1)):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and low <= value <= high):
                raise ConfigError(f"settings.{name}", value, f"a number from {low} to {high}")
        for name, kind, allowed in (
            ("max_tokens", int, "a whole number, at least 1"),
            ("seed", int, "a whole number"),
            ("tool_choice", str, "`auto`, `none`, `required`, or the name of a tool"),
            ("parallel_tool_calls", bool, "True or False"),
            ("reasoning_effort", str, "a text such as `low`"),
            ("extra_body", Mapping, "a mapping"),
        ):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
                raise ConfigError(f"settings.{name}", value, allowed)
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ConfigError("settings.max_tokens", self.max_tokens, "a whole number, at least 1")
        if self.timeout is not None and not (is_number(self.timeout) and 0 < self.timeout < float("inf")):
            raise ConfigError("settings.timeout", self.timeout, "a finite number of seconds above 0")
        stop = self.stop
        if stop is not None and (isinstance(stop, str) or not all(isinstance(s, str) for s in _listed(stop))):
            raise ConfigError("settings.stop", stop, "a list of texts")

    def over(self, base: ModelSettings | None) -> ModelSettings:
        """Return `base` with every field replaced that is set here."""
        if base is None:
            return self
        return replace(base, **{f.name: v for f in fields(self) if (v := getattr(self, f.name)) is not None})


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """What a model is told of a tool; `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """The JSON schema that the reply's text has to fit, where the server can hold a model to one."""

    name: str
    schema: Mapping[str, Any]


@dataclass(slots=True)
class ModelRequest:
    """One question to a model.

    Attributes:
        messages: the conversation; within one run the same list, which only grows.
        instructions: the system prompt, empty for none.
        tools: what the model may call.
        settings: how to ask.
        output: the schema of a structured reply.
        memo: the model's own notes; one dict for all the requests of a run, so that what was turned into bytes once
            need not be turned again.
    """

    messages: Sequence[Message]
    instructions: str = ""
    tools: Sequence[ToolDefinition] = ()
    settings: ModelSettings = field(default_factory=ModelSettings)
    output: OutputSchema | None = None
    memo: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class TextPart:
    """A piece of the reply's text."""

    text: str


@dataclass(slots=True)
class ReasoningPart:
    """A piece of the model's reasoning, where the server shows it."""

    text: str


@dataclass(slots=True)
class ToolCallPart:
    """A piece of a tool call.

    Attributes:
        position: which call of the reply, from 0.
        call_id: the call's id; the same in every part of one call.
        name: the tool's name; the same in every part of one call.
        arguments: the next piece of the JSON text.
    """

    position: int
    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole reply: the last thing that a model streams.

    Attributes:
        text: all the text parts joined; the refusal's text where the model refused.
        tool_calls: in the order in which they began; ids are unique within the reply.
        reasoning: all the reasoning parts joined.
        finish_reason: `tool_calls` whenever there are tool calls, whatever the server said.
        refusal: the model refused, and `text` says so.
        usage: what this one call cost.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    finish_reason: FinishReason = "stop"
    refusal: bool = False
    usage: Usage = field(default_factory=Usage)
    response_id: str | None = None
    response_model: str | None = None


Part = TextPart | ReasoningPart | ToolCallPart | Reply


@runtime_checkable
class Model(Protocol):
    """A language model. Anything with these three members is one.

    `stream` is an async generator: any number of text, reasoning and tool call parts, then exactly one `Reply`. The
    caller closes it. It raises `ModelError` when the call fails; what was streamed until then stays with the caller.
    """

    @property
    def name(self) -> str:
        """The model's name as its server knows it, such as `gpt-5-mini`."""
        ...

    @property
    def provider(self) -> str:
        """Who serves it, such as `openai`."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Part, None]:
        """Ask the model and stream its reply."""
        ...
