"""Spans of what a step does: the model call, and the tool calls that it asked for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from . import conventions as names
from .conventions import finish_reason, provider_name
from .models import ModelSettings
from .spans import Attributes, SpanBlock, cleaned, guarded
from .trace_content import Conversation, as_data, as_json, instruction_items, reply_items, tool_items
from .trace_evaluation import GradedChat

if TYPE_CHECKING:
    from .messages import ToolCall
    from .models import Model, ModelRequest, Reply, ToolDefinition
    from .tools import ToolResult
    from .tracing import SpanScope

_TOOL = otel_context.create_key("alfine-tool")


class ChatSpan(SpanBlock):
    """`chat <model>`: one model call.

    Attributes:
        waiting: nothing has come yet, and somebody wants to know when it does.
    """

    kind = SpanKind.CLIENT

    def __init__(self, scope: SpanScope, model: Model, request: ModelRequest) -> None:
        super().__init__(scope.tracer, describe_errors=scope.content.spans)
        self.waiting = False
        self._scope = scope
        self._model = model
        self._request = request
        self._begun = 0.0
        self._content: Attributes = {}
        scope.step += 1

    def describe(self) -> tuple[str, Attributes]:
        scope, model, request = self._scope, self._model, self._request
        attributes: Attributes = {
            names.OPERATION_NAME: names.CHAT,
            names.PROVIDER_NAME: provider_name(model.provider),
            names.REQUEST_MODEL: model.name,
            names.REQUEST_STREAM: True,
        }
        if scope.iteration is not None:
            attributes[names.STEP_NUMBER] = scope.step
        if scope.conversation_id:
            attributes[names.CONVERSATION_ID] = scope.conversation_id
        if request.output is not None:
            attributes[names.OUTPUT_TYPE] = "json"
        own = getattr(model, "settings", None)
        attributes |= _settings(request.settings.over(own if isinstance(own, ModelSettings) else None))
        attributes |= _server(getattr(model, "base_url", None))
        return f"{names.CHAT} {model.name}", attributes

    def started(self) -> None:
        self._begun = time.perf_counter()
        self.waiting = self.recording
        content = self._scope.content
        if self.recording and (content.spans or content.events):
            request = self._request
            self._content[names.INPUT_MESSAGES] = Conversation.of(request).json
            if request.instructions:
                self._content[names.SYSTEM_INSTRUCTIONS] = as_json(instruction_items(request.instructions))
            if request.tools:
                self._content[names.TOOL_DEFINITIONS] = as_json(tool_items(request.tools))
            if content.spans:
                self.set(self._content)

    def first_part(self) -> None:
        """Record that the reply has begun to come."""
        self.waiting = False
        self.set({names.RESPONSE_TIME_TO_FIRST_CHUNK: time.perf_counter() - self._begun})

    @guarded
    def finish(self, reply: Reply) -> None:
        """Record what came back."""
        scope = self._scope
        scope.graded = GradedChat.of(self.span, reply.response_id)
        if not self.recording:
            return
        attributes = _response(reply)
        self.set(attributes)
        if scope.content.spans or scope.content.events:
            self._content[names.OUTPUT_MESSAGES] = as_json(reply_items(reply))
            if scope.content.spans:
                self.set({names.OUTPUT_MESSAGES: self._content[names.OUTPUT_MESSAGES]})
            if scope.content.events:
                facts = cleaned({**self.describe()[1], **attributes})
                data = {key: as_data(str(value)) for key, value in self._content.items()}
                scope.events.emit(names.OPERATION_DETAILS, {**facts, **data}, None)


class ToolSpan(SpanBlock):
    """`execute_tool`: one tool call; a delegation's names the agent that it goes to.

    Attributes:
        has_run: a run was started inside.
    """

    def __init__(
        self, scope: SpanScope, agent: str, call: ToolCall, definition: ToolDefinition | None, target: str | None
    ) -> None:
        super().__init__(scope.tracer, describe_errors=scope.content.spans)
        self.has_run = False
        self._scope = scope
        self._agent = agent
        self._call = call
        self._definition = definition
        self._target = target

    @staticmethod
    def around(context: Context) -> ToolSpan | None:
        """Return the tool call that `context` belongs to."""
        block = otel_context.get_value(_TOOL, context)
        return block if isinstance(block, ToolSpan) else None

    def inside(self, context: Context) -> Context:
        return otel_context.set_value(_TOOL, self, context)

    def describe(self) -> tuple[str, Attributes]:
        call, name = self._call, f"{names.EXECUTE_TOOL} {self._call.name}"
        attributes: Attributes = {
            names.OPERATION_NAME: names.EXECUTE_TOOL,
            names.TOOL_NAME: call.name,
            names.TOOL_TYPE: "function",
            names.TOOL_CALL_ID: call.id,
            names.AGENT_NAME: self._agent,
            names.STEP_NUMBER: self._scope.step,
        }
        if self._definition is not None and self._definition.description:
            attributes[names.TOOL_DESCRIPTION] = self._definition.description
        if self._target is None:
            return name, attributes
        attributes[names.TRANSFER_MODE] = "return_to_caller"
        attributes[names.TRANSFER_TARGET_NAME] = self._target
        return f"{name} {self._target}", attributes

    def started(self) -> None:
        if self._scope.content.spans:
            self.set({names.TOOL_CALL_ARGUMENTS: self._call.arguments})

    def finish(self, result: ToolResult) -> ToolResult:
        """Record the result, and return it."""
        self._finished(result)
        return result

    @guarded
    def _finished(self, result: ToolResult) -> None:
        if self._scope.content.spans:
            self.set({names.TOOL_CALL_RESULT: result.text})
        if self._definition is None:
            self.fail_as(names.UNKNOWN_TOOL)
        elif result.failed and (self._target is None or self.has_run):
            self.fail_as(names.TOOL_ERROR)

    def ended(self, error: BaseException | None) -> None:
        super().ended(error)
        if self._target is not None and not self.has_run and not isinstance(error, Exception):
            self.fail_as(names.DELEGATION_REJECTED if error is None else names.CANCELLED)


def _settings(settings: ModelSettings) -> Attributes:
    attributes: Attributes = {}
    if settings.temperature is not None:
        attributes[names.REQUEST_TEMPERATURE] = float(settings.temperature)
    if settings.top_p is not None:
        attributes[names.REQUEST_TOP_P] = float(settings.top_p)
    if settings.max_tokens is not None:
        attributes[names.REQUEST_MAX_TOKENS] = settings.max_tokens
    if settings.seed is not None:
        attributes[names.REQUEST_SEED] = settings.seed
    if settings.stop:
        attributes[names.REQUEST_STOP_SEQUENCES] = list(settings.stop)
    if settings.reasoning_effort is not None:
        attributes[names.REQUEST_REASONING_LEVEL] = settings.reasoning_effort
    return attributes


def _server(base_url: object) -> Attributes:
    if not isinstance(base_url, str):
        return {}
    url = urlsplit(base_url)
    if not url.hostname:
        return {}
    return {names.SERVER_ADDRESS: url.hostname, names.SERVER_PORT: url.port or (80 if url.scheme == "http" else 443)}


def _response(reply: Reply) -> Attributes:
    reasons: Sequence[str] = [finish_reason(reply.finish_reason)]
    attributes: Attributes = {names.RESPONSE_FINISH_REASONS: reasons}
    if reply.response_id:
        attributes[names.RESPONSE_ID] = reply.response_id
    if reply.response_model:
        attributes[names.RESPONSE_MODEL] = reply.response_model
    usage = reply.usage
    if usage.total_tokens:  # a server that reports nothing is no server that used nothing
        attributes[names.USAGE_INPUT_TOKENS] = usage.input_tokens
        attributes[names.USAGE_OUTPUT_TOKENS] = usage.output_tokens
    if usage.cached_tokens:
        attributes[names.USAGE_CACHE_READ_TOKENS] = usage.cached_tokens
    if usage.reasoning_tokens:
        attributes[names.USAGE_REASONING_TOKENS] = usage.reasoning_tokens
    return attributes
