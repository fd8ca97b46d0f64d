"""From what a client or a stream reports to a `ModelError` that says what happened and what to do."""

from __future__ import annotations

from collections.abc import Mapping

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
        self._key = endpoint.api_key
        self._key_variable = endpoint.key_variable

    def error(self, what: str, *, status: int | None = None, retryable: bool = False) -> ModelError:
        """Return a `ModelError` about this model. The key is never in it, also where a server repeats it."""
        if len(self._key) >= 8:
            what = what.replace(self._key, "***")
        return ModelError(f"{self._who} {what}", model=self._name, status=status, retryable=retryable)

    def answered(self, status: int, body: object) -> ModelError:
        """Return the error for an HTTP status that is none of success."""
        retryable = _may_pass(status) and "insufficient_quota" not in _codes(body)
        said = describe(body) or "no reason given"
        return self.error(f"answered {status}: {said}{self._advice(status)}", status=status, retryable=retryable)

    def reported(self, body: object) -> ModelError:
        """Return the error for an error object inside a stream."""
        codes = _codes(body)
        status = next((int(code) for code in codes if code.isdecimal() and 400 <= int(code) < 600), None)
        passing = any(word in code for code in codes for word in _PASSING)
        retryable = passing or (status is not None and _may_pass(status))
        said = describe(body) or "no reason given"
        return self.error(f"reported an error in its stream: {said}", status=status, retryable=retryable)

    def _advice(self, status: int) -> str:
        if status in (401, 403):
            key = f"the key in {self._key_variable}" if self._key_variable else "the `api_key` that was given"
            return f"; check {key}"
        if status == 404:
            return "; check the model's name and the base URL"
        return ""


def describe(body: object) -> str:
    """Return what an error's body says in words, cut to a readable length."""
    if isinstance(body, Mapping):
        inner = body.get("error")
        if inner:
            return describe(inner)
        said = body.get("message") or body.get("detail") or body.get("code") or body.get("type") or dict(body)
    else:
        said = body
    text = str(said or "").strip()
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _codes(body: object) -> list[str]:
    """Return an error's codes and types, in lower case with underscores."""
    if not isinstance(body, Mapping):
        return []
    inner = body.get("error")
    own = [body.get(name) for name in ("code", "type", "status")]
    return [str(code).lower().replace(" ", "_") for code in own if code is not None] + _codes(inner)


def _may_pass(status: int) -> bool:
    return status in (408, 409, 429) or status >= 500
