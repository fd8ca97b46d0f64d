"""From what a client or a stream reports to a `ModelError` that says what happened and what to do."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from copy import copy

from ..errors import ModelError
from .endpoints import Endpoint

_PASSING = ("overload", "rate_limit", "ratelimit", "too_many_requests", "unavailable", "server_error", "internal_error")
_LONGEST = 1000


class Failures:
    """Builds the errors of one model.

    Args:
        provider: who serves it.
        name: its name there.
        endpoint: where it is asked.
    """

    def __init__(self, provider: str, name: str, endpoint: Endpoint) -> None:
        self._name = name
        self._who = f"{provider}/{name} at {endpoint.host}"
        self._keys = _secrets(endpoint.api_key)
        self._key_variable = endpoint.key_variable

    def of_request(self, headers: Mapping[str, str]) -> Failures:
        """Return the same for one request: the key that it was really sent with is not shown either."""
        sent = (headers.get("authorization", "").partition(" ")[2].strip(), headers.get("api-key", ""))
        failures = copy(self)
        failures._keys = self._keys | _secrets(*sent)
        return failures

    def mask(self, text: str) -> str:
        """Return the text without the keys."""
        for key in self._keys:
            text = text.replace(key, "***")
        return text

    def can_show(self, error: BaseException) -> bool:
        """Whether the exception's traceback is free of the keys."""
        text = "".join(traceback.format_exception(error))
        return not any(key in text for key in self._keys)

    def error(self, what: str, *, status: int | None = None, retryable: bool = False) -> ModelError:
        """Return a `ModelError` about this model. The key is never in it, also where a server repeats it."""
        return ModelError(f"{self._who} {self.mask(what)}", model=self._name, status=status, retryable=retryable)

    def answered(self, status: int, body: object) -> ModelError:
        """Return the error for an HTTP status that is none of success."""
        retryable = _may_pass(status) and "insufficient_quota" not in _codes(body)
        said = self._said(body)
        return self.error(f"answered {status}: {said}{self._advice(status)}", status=status, retryable=retryable)

    def reported(self, body: object) -> ModelError:
        """Return the error for an error object inside a stream."""
        codes = _codes(body)
        status = next((int(code) for code in codes if code.isdecimal() and 400 <= int(code) < 600), None)
        passing = any(word in code for code in codes for word in _PASSING)
        retryable = passing or (status is not None and _may_pass(status))
        said = self._said(body)
        return self.error(f"reported an error in its stream: {said}", status=status, retryable=retryable)

    def _said(self, body: object) -> str:
        # Masked before it is cut, or half a key would be left.
        text = self.mask(describe(body)) or "no reason given"
        return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"

    def _advice(self, status: int) -> str:
        if status in (401, 403):
            key = f"the key in {self._key_variable}" if self._key_variable else "the `api_key` that was given"
            return f"; check {key}"
        if status == 404:
            return "; check the model's name and the base URL"
        return ""


def describe(body: object) -> str:
    """Return what an error's body says in words."""
    if isinstance(body, Mapping):
        inner = body.get("error")
        if inner:
            return describe(inner)
        said = body.get("message") or body.get("detail") or body.get("code") or body.get("type") or dict(body)
    else:
        said = body
    return str(said or "").strip()


def _secrets(*keys: str) -> frozenset[str]:
    # What is shorter is no key, and might be a word of the message.
    return frozenset(key for key in keys if len(key) >= 8)


def _codes(body: object) -> list[str]:
    """Return an error's codes and types, in lower case with underscores."""
    if not isinstance(body, Mapping):
        return []
    inner = body.get("error")
    own = [body.get(name) for name in ("code", "type", "status")]
    return [str(code).lower().replace(" ", "_") for code in own if code is not None] + _codes(inner)


def _may_pass(status: int) -> bool:
    return status in (408, 409, 429) or status >= 500
