"""Names of spans, attributes and events: the GenAI semantic conventions', and our own under `alfine.`.

No package carries the conventions' newest names, so they stand here.
"""

from __future__ import annotations

# Operations: the values of OPERATION_NAME, and how names of spans begin.
INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
EVALUATION = "evaluation"
ITERATION = "iteration"
IS_TASK_COMPLETE = "is_task_complete"
CRITERION = "criterion"

# Log events.
EVALUATION_RESULT = "gen_ai.evaluation.result"
OPERATION_DETAILS = "gen_ai.client.inference.operation.details"

OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
AGENT_NAME = "gen_ai.agent.name"
AGENT_DESCRIPTION = "gen_ai.agent.description"
CONVERSATION_ID = "gen_ai.conversation.id"
OUTPUT_TYPE = "gen_ai.output.type"

REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
REQUEST_TEMPERATURE = "gen_ai.request.temperature"
REQUEST_TOP_P = "gen_ai.request.top_p"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
REQUEST_SEED = "gen_ai.request.seed"
REQUEST_STOP_SEQUENCES = "gen_ai.request.stop_sequences"
REQUEST_REASONING_LEVEL = "gen_ai.request.reasoning.level"

RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"

USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
USAGE_REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"

TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_DESCRIPTION = "gen_ai.tool.description"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TRANSFER_MODE = "gen_ai.transfer.mode"
TRANSFER_TARGET_NAME = "gen_ai.transfer.target.name"

EVALUATION_NAME = "gen_ai.evaluation.name"
EVALUATION_SCORE_VALUE = "gen_ai.evaluation.score.value"
EVALUATION_SCORE_LABEL = "gen_ai.evaluation.score.label"

# Content: only recorded where it was asked for.
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"
TOOL_CALL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT = "gen_ai.tool.call.result"
EVALUATION_EXPLANATION = "gen_ai.evaluation.explanation"
CRITERION_DESCRIPTION = "alfine.criterion.description"

ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"

RUN_ID = "alfine.run.id"
RUN_PARENT_ID = "alfine.run.parent_id"
RUN_MAX_STEPS = "alfine.run.max_steps"
RUN_ITERATIONS = "alfine.run.iterations"
RUN_OUTCOME = "alfine.run.outcome"
STEP_NUMBER = "alfine.step.number"
ITERATION_NUMBER = "alfine.iteration.number"
ITERATION_PASSED = "alfine.iteration.passed"
ITERATION_FEEDBACK_INJECTED = "alfine.iteration.feedback_injected"
ITERATION_CONTINUED_BY = "alfine.iteration.continued_by"
COMPLETION_STRATEGY = "alfine.completion.strategy"
COMPLETION_PASSED = "alfine.completion.passed"
COMPLETION_PASSED_SCORERS = "alfine.completion.passed_scorers"
COMPLETION_TOTAL_SCORERS = "alfine.completion.total_scorers"
SCORER_ID = "alfine.scorer.id"
SCORER_KIND = "alfine.scorer.kind"
SCORER_SAMPLED = "alfine.scorer.sampled"
SCORER_PASSED = "alfine.scorer.passed"
SCORER_SCALE = "alfine.scorer.scale"
SCORER_SPAN_ID = "alfine.scorer.span_id"
CRITERION_ID = "alfine.criterion.id"
CRITERION_INDEX = "alfine.criterion.index"
CRITERION_REQUIRED = "alfine.criterion.required"
CRITERION_SATISFIED = "alfine.criterion.satisfied"
CRITERION_SPAN_ID = "alfine.criterion.span_id"
# A run's totals have names of their own: a backend that sums `gen_ai.usage.*` would count every call twice.
USAGE = "alfine.usage."

# Values of ERROR_TYPE where no exception tells it.
TOOL_ERROR = "tool_error"
UNKNOWN_TOOL = "unknown_tool"
DELEGATION_REJECTED = "delegation_rejected"
CANCELLED = "cancelled"
NO_MODEL_CALL = "no_model_call"

_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google": "gcp.gen_ai",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}


def provider_name(provider: str) -> str:
    """Return the conventions' name for a provider; one that they do not know keeps its own.

    >>> provider_name("mistral"), provider_name("ollama")
    ('mistral_ai', 'ollama')
    """
    return _PROVIDERS.get(provider, provider)


def finish_reason(reason: str) -> str:
    """Return the conventions' word for why a reply ended.

    >>> finish_reason("tool_calls"), finish_reason("length")
    ('tool_call', 'length')
    """
    return "tool_call" if reason == "tool_calls" else reason
