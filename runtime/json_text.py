"""JSON as it comes from and goes to servers: broken text is read where that is possible, and never written."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from .messages import clean


def read_json(data: bytes) -> object:
    """Read JSON; lone surrogates, control characters and bytes that are no UTF-8 are let through.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return from_json(data)
    except ValueError:
        pass
    try:
        return json.loads(data.decode("utf-8", "replace"), strict=False)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def write_json(value: object) -> bytes:
    """Write JSON that any server can read: UTF-8, no lone surrogates, no NaN.

    Raises:
        TypeError: the value holds something that JSON has no word for.
    """
    try:
        return to_json(value, inf_nan_mode="null")
    except PydanticSerializationError:
        return clean(json.dumps(value, ensure_ascii=False)).encode()


def is_json_object(text: str) -> bool:
    """Whether `text` is a JSON object, by the letter."""
    try:
        return isinstance(from_json(text.encode(), allow_inf_nan=False), dict)
    except ValueError:
        return False


def json_ready(value: object) -> Any:
    """Return a value in the types that JSON has; what does not fit becomes text."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    try:
        return to_jsonable_python(value, fallback=str, inf_nan_mode="null")
    except (ValueError, RecursionError):
        # It contains itself, or bytes that are no text.
        return str(value)
