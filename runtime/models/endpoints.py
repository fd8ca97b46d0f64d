"""Where providers are served, and which key they want."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ..errors import ConfigError

Renames = Mapping[str, str | None]

# OpenAI's reasoning models refuse `max_tokens`. Mistral refuses what it does not know, and sends the usage unasked.
_OPENAI: Renames = {"max_tokens": "max_completion_tokens"}
_MISTRAL: Renames = {"seed": "random_seed", "stream_options": None}
_NO_KEY = "none"
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Provider:
    """Who serves models over the Chat Completions protocol.

    Attributes:
        base_url: up to and including the version, such as `https://api.openai.com/v1`.
        key_variable: the environment variable that holds the key.
        needs_key: False for servers on one's own machine; a key that is set is sent all the same.
        renames: fields of a request that the server calls otherwise, or refuses (None).
    """

    name: str
    base_url: str
    key_variable: str
    needs_key: bool = True
    renames: Renames = field(default_factory=dict)

    @property
    def url_variable(self) -> str:
        """The environment variable that replaces `base_url`."""
        return re.sub(r"\W", "_", self.name.upper()) + "_BASE_URL"


PROVIDERS: dict[str, Provider] = {
    p.name: p
    for p in (
        Provider("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", renames=_OPENAI),
        Provider("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        Provider("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        Provider("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
        Provider("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", renames=_MISTRAL),
        Provider("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
        Provider("ollama", "http://localhost:11434/v1", "OLLAMA_API_KEY", needs_key=False),
        Provider("lmstudio", "http://localhost:1234/v1", "LMSTUDIO_API_KEY", needs_key=False),
        Provider("vllm", "http://localhost:8000/v1", "VLLM_API_KEY", needs_key=False),
    )
}


def register_provider(name: str, *, base_url: str, key_variable: str | None = None) -> None:
    """Make models of a Chat Completions server available as `<name>/<model>`. A known name is replaced.

    Args:
        name: lower-case letters, digits, `_`, `.` and `-`.
        base_url: up to and including the version, such as `https://api.acme.com/v1`.
        key_variable: the environment variable that holds the key; None for a server that needs none.

    Raises:
        ConfigError: the name or the URL cannot be used.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError("name", name, "lower-case letters, digits, `_`, `.` and `-`")
    check_url("base_url", base_url)
    PROVIDERS[name] = Provider(name, base_url, key_variable or "", needs_key=key_variable is not None)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A provider's address and key, as settled for one model."""

    base_url: str
    api_key: str
    key_variable: str = ""
    renames: Renames = field(default_factory=dict)

    @property
    def host(self) -> str:
        """The address without path and credentials."""
        return host_of(self.base_url)


def find_endpoint(provider: str, base_url: str | None = None, api_key: str | None = None) -> Endpoint:
    """Settle where a model is asked and with which key: what is given, the environment, the provider's own.

    A server at an address of one's own choice is asked without a key when none is set.

    Raises:
        ConfigError: the provider is unknown and no `base_url` is given, the URL is none, or the key is missing.
    """
    known = PROVIDERS.get(provider)
    if known is None:
        if base_url is None:
            raise ConfigError("provider", provider, f"one of {', '.join(PROVIDERS)}, or give `base_url`")
        known = Provider(provider, base_url, "", needs_key=False)
    own_url = base_url or os.environ.get(known.url_variable, "").strip()
    url = own_url or known.base_url
    check_url("base_url" if base_url else known.url_variable if own_url else "base_url", url)
    key = (api_key or (known.key_variable and os.environ.get(known.key_variable)) or "").strip()
    if not key and known.needs_key and not own_url:
        raise ConfigError("api_key", api_key, f"set {known.key_variable}, or give `api_key`, to ask {provider}")
    if not (key.isascii() and key.isprintable()):
        raise ConfigError("api_key", "…", "a key holds only printable ASCII characters")
    return Endpoint(url, key or _NO_KEY, known.key_variable, known.renames)


def check_url(argument: str, url: str) -> None:
    """Raise ConfigError for what is no HTTP URL; it does not show the credentials."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        shown = re.sub(r"^(\w+://)?.*@", r"\1***@", url, flags=re.DOTALL)
        raise ConfigError(argument, shown, "a URL such as https://api.openai.com/v1")


def host_of(url: str) -> str:
    """Return a URL's host and port, without credentials."""
    return urlsplit(url).netloc.rpartition("@")[2]
