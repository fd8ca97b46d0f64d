"""Language models: the protocol, and the model that speaks to OpenAI-compatible servers."""

from .protocol import (
    FinishReason,
    Model,
    ModelRequest,
    ModelSettings,
    OutputSchema,
    Part,
    ReasoningPart,
    Reply,
    TextPart,
    ToolCallPart,
    ToolDefinition,
)

__all__ = [
    "FinishReason",
    "Model",
    "ModelRequest",
    "ModelSettings",
    "OutputSchema",
    "Part",
    "ReasoningPart",
    "Reply",
    "TextPart",
    "ToolCallPart",
    "ToolDefinition",
]
