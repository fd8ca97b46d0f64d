"""Messages, models, the journal, the loop, the check, limits and traces. It knows no Agent and no scorer class."""

from .check import CheckReport, ScorerResult
from .errors import (
    AlfineError,
    BudgetError,
    ConfigError,
    JudgeError,
    ModelError,
    OutcomeError,
    RunError,
    ScorerError,
    StreamError,
    ToolError,
)
from .ledger import Ledger, LedgerChanges, LedgerRow
from .limits import Price, Usage, UsageLimits
from .messages import (
    AssistantMessage,
    FeedbackMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    message_from_dict,
    message_to_dict,
)
from .models import (
    Model,
    ModelRequest,
    ModelSettings,
    OutputSchema,
    ReasoningPart,
    Reply,
    TextPart,
    ToolCallPart,
    ToolDefinition,
)
from .models.openai_chat import OpenAIChatModel
from .models.providers import register_provider, resolve_model
from .result import RunResult, StepDecision, StepInfo, StepRecord
from .scoring import Evidence, FunctionScorer, Score, Scorer, ScorerInput, Verdict
from .task_complete import TaskComplete
from .tools import RunContext, ToolResult

__all__ = [
    "AlfineError",
    "AssistantMessage",
    "BudgetError",
    "CheckReport",
    "ConfigError",
    "Evidence",
    "FeedbackMessage",
    "FunctionScorer",
    "JudgeError",
    "Ledger",
    "LedgerChanges",
    "LedgerRow",
    "Message",
    "Model",
    "ModelError",
    "ModelRequest",
    "ModelSettings",
    "OpenAIChatModel",
    "OutcomeError",
    "OutputSchema",
    "Price",
    "ReasoningPart",
    "Reply",
    "RunContext",
    "RunError",
    "RunResult",
    "Score",
    "Scorer",
    "ScorerError",
    "ScorerInput",
    "ScorerResult",
    "StepDecision",
    "StepInfo",
    "StepRecord",
    "StreamError",
    "TaskComplete",
    "TextPart",
    "ToolCall",
    "ToolCallPart",
    "ToolDefinition",
    "ToolError",
    "ToolMessage",
    "ToolResult",
    "Usage",
    "UsageLimits",
    "UserMessage",
    "Verdict",
    "message_from_dict",
    "message_to_dict",
    "register_provider",
    "resolve_model",
]
