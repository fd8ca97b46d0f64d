"""From a string such as `openai/gpt-5-mini` to a model."""

from __future__ import annotations

from ..errors import ConfigError
from .endpoints import PROVIDERS, register_provider
from .openai_chat import OpenAIChatModel
from .protocol import Model

__all__ = ["register_provider", "resolve_model"]


def resolve_model(spec: str | Model) -> Model:
    """Return the model that `spec` names; a model is returned as it is.

    Args:
        spec: `<provider>/<name>`, where the name may hold slashes, as in `openrouter/meta-llama/llama-3.3-70b`.

    Raises:
        ConfigError: no such provider, or its key is missing.
    """
    if not isinstance(spec, str):
        if not isinstance(spec, Model):
            raise ConfigError("model", spec, "`<provider>/<name>`, or a model with `name`, `provider` and `stream`")
        return spec
    provider, slash, name = spec.strip().partition("/")
    if not slash or provider not in PROVIDERS or not name.strip():
        raise ConfigError("model", spec, f"`<provider>/<name>` with a provider of {', '.join(PROVIDERS)}")
    return OpenAIChatModel(name.strip(), provider=provider)
