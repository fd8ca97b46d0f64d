"""What a run is given: the prompt, in whatever form it comes, and the conversation before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..runtime.errors import ConfigError
from ..runtime.messages import Message, UserMessage, as_messages, clean

Input = str | Mapping[str, Any] | Sequence[Message | Mapping[str, Any]]
"""A prompt; a mapping with `prompt` and whatever else scorers read; or messages of which the last is the user's."""

History = Sequence[Message | Mapping[str, Any]]
"""Messages, or what `message_to_dict` wrote of them."""


def read_input(input: Input) -> tuple[str, list[Message]]:
    """Return the task as text, and the messages that put it to the model.

    Raises:
        ConfigError: there is no prompt in it, or a blank one.
    """
    if isinstance(input, Mapping):
        prompt = input.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            raise ConfigError("input", dict(input), "a mapping with a `prompt` that is not blank")
        return clean(prompt), [UserMessage(clean(prompt))]
    if isinstance(input, str):
        if not input.strip():
            raise ConfigError("input", input, "a prompt that is not blank")
        return clean(input), [UserMessage(clean(input))]
    messages = _read("input", input)
    last = messages[-1] if messages else None
    if not isinstance(last, UserMessage) or not last.text.strip():
        raise ConfigError("input", input, "messages of which the last one is the user's and not blank")
    messages[-1] = replace(last, text=clean(last.text))
    return clean(last.text), messages


def read_history(history: History) -> list[Message]:
    """Return the messages of a history.

    Raises:
        ConfigError: it is none, or an entry is no message.
    """
    return _read("history", history)


def _read(argument: str, value: Any) -> list[Message]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ConfigError(argument, value, "a list of messages, such as `result.messages` of an earlier run")
    try:
        return as_messages(list(value))
    except ConfigError as error:
        raise ConfigError(argument, error.value, error.allowed) from error
