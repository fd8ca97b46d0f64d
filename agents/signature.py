"""What a function's signature and docstring say to a model, and the reading of the arguments that come back."""

from __future__ import annotations

import functools
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

from ..runtime.errors import ConfigError, text_of
from ..runtime.json_text import read_json, write_json
from ..runtime.messages import clean
from ..runtime.tools import RunContext

_SHOWN = 100
_PROBLEMS = 10


class ArgumentsError(ValueError):
    """The arguments cannot be used; the text is for the model."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a tool's function.

    Attributes:
        schema: the JSON schema of the arguments, an object.
        wants_context: some parameter is a `RunContext`.
    """

    schema: dict[str, Any]
    wants_context: bool
    _model: type[BaseModel]
    _fields: Mapping[str, str]
    _parameters: tuple[inspect.Parameter, ...]
    _contexts: frozenset[str]
    _strict: bool

    def read(self, text: str) -> BaseModel:
        """Validate the JSON text that a model wrote.

        Raises:
            ArgumentsError: it cannot be used; the text names each place, the reason and what was given.
        """
        text = clean(text).strip() or "{}"
        try:
            return self._validate(text)
        except ValidationError as error:
            if (problem := error.errors(include_url=False)[0])["type"] != "json_invalid":
                raise ArgumentsError(_complaint(error)) from error
            reason = str(problem["ctx"]["error"])
        # Lone surrogates and raw line ends in strings are no JSON, but what they mean is clear.
        try:
            text = write_json(read_json(text.encode())).decode()
        except ValueError as error:
            raise ArgumentsError(_broken(text, reason)) from error
        try:
            return self._validate(text)
        except ValidationError as error:
            raise ArgumentsError(_complaint(error)) from error

    def bind(self, values: BaseModel, context: RunContext | None) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and the keyword arguments of a call. What the model left out, the function fills in."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for parameter in self._parameters:
            positional = parameter.kind is parameter.POSITIONAL_ONLY
            if parameter.name in self._contexts:
                value: Any = context
            else:
                field = self._fields[parameter.name]
                value = getattr(values, field)
                if field not in values.model_fields_set and _is_plain_default(parameter.default):
                    if not positional:
                        continue
                    value = parameter.default
            if positional:
                args.append(value)
            else:
                kwargs[parameter.name] = value
        return args, kwargs

    def _validate(self, text: str) -> BaseModel:
        try:
            return self._model.model_validate_json(text, strict=True if self._strict else None)
        except ValidationError:
            raise
        except Exception as error:
            # A validator of the user's.
            reason = f"{type(error).__name__}: {_short(text_of(error), 300)}"
            raise ArgumentsError(f"The arguments could not be checked: {reason}") from error


class _Schema(GenerateJsonSchema):
    # A default that JSON has no word for is left out, without a warning.
    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012


def read_signature(
    function: Callable[..., Any], tool_name: str, *, strict: bool, descriptions: Mapping[str, str]
) -> Signature:
    """Read the parameters of a function.

    Args:
        function: a function, method, `functools.partial` or callable object; every parameter is annotated. What a
            partial gives by keyword is not shown to the model.
        tool_name: for errors.
        strict: take arguments of exactly the annotated types and refuse unknown ones.
        descriptions: of the parameters, by name; a `Field(description=...)` wins.

    Raises:
        ConfigError: a parameter cannot be offered to a model.
    """
    parameters = _parameters(function, tool_name)
    hints = _hints(function, tool_name)
    annotations: dict[str, Any] = {}
    contexts: set[str] = set()
    for parameter in parameters:
        name = parameter.name
        if name not in hints:
            hint = "; give the bound method to `tool`" if name == "self" else ""
            raise _config_error(tool_name, name, f"every parameter needs a type annotation{hint}")
        if _is_context(hints[name]):
            contexts.add(name)
        else:
            annotations[name] = hints[name]
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    model, fields = _model(tool_name, annotations, defaults, strict)
    schema = _schema(tool_name, model, annotations, defaults)
    for name, text in descriptions.items():
        if isinstance(described := schema["properties"].get(name), dict):
            described.setdefault("description", text)
    return Signature(schema, bool(contexts), model, fields, parameters, frozenset(contexts), strict)


def _parameters(function: Callable[..., Any], tool_name: str) -> tuple[inspect.Parameter, ...]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"tool {tool_name!r}", function, "a function with a signature that can be read") from error
    bound = function.keywords if isinstance(function, functools.partial) else {}
    parameters = tuple(p for p in signature.parameters.values() if p.name not in bound)
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise _config_error(tool_name, parameter.name, "a tool takes named parameters, no *args or **kwargs")
    return parameters


def _hints(function: Callable[..., Any], tool_name: str) -> dict[str, Any]:
    core = core_of(function)
    try:
        return get_type_hints(core, include_extras=True)
    except NameError:
        pass
    # Names that only type checkers import, or that are local to the function in which the tool is made.
    names = {"RunContext": RunContext, **_callers_names()}
    try:
        return get_type_hints(core, localns=names, include_extras=True)
    except NameError as error:
        allowed = f"annotations whose names can be found at run time ({error})"
        raise ConfigError(f"tool {tool_name!r}", function, allowed) from error


def _callers_names() -> Mapping[str, Any]:
    package = __name__.partition(".")[0] + "."
    frame = sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(package):
        frame = frame.f_back
    return frame.f_locals


def without_partial(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a `functools.partial` calls."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def core_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what is really called: the function of a partial, `__call__` of an object."""
    core: Any = without_partial(function)
    return core if inspect.isroutine(core) else core.__call__


def _is_context(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _is_context(get_args(annotation)[0])
    if origin is Union or origin is UnionType:
        return any(_is_context(member) for member in get_args(annotation))
    return annotation is RunContext


def _is_plain_default(default: object) -> bool:
    return default is not inspect.Parameter.empty and not isinstance(default, FieldInfo)


def _model(
    tool_name: str, annotations: Mapping[str, Any], defaults: Mapping[str, Any], strict: bool
) -> tuple[type[BaseModel], dict[str, str]]:
    """Build the pydantic model of the arguments. Its fields have names of ours: a parameter may be called `copy`."""
    fields = {name: f"p{index}" for index, name in enumerate(annotations)}
    definitions: dict[str, Any] = {}
    for name, field in fields.items():
        annotation = _with_alias(annotations[name], name)
        definitions[field] = (annotation, defaults[name]) if name in defaults else annotation
    config = ConfigDict(extra="forbid" if strict else "ignore", allow_inf_nan=False)
    try:
        return create_model("Arguments", __config__=config, **definitions), fields
    except Exception as error:
        if len(annotations) > 1:
            _find_culprit(tool_name, annotations, defaults, strict)
        raise _unusable(tool_name, annotations, error) from error


def _with_alias(annotation: Any, name: str) -> Any:
    """Annotate the name that the model sees; a `Field(alias=...)` of the user's comes later and wins."""
    base, *rest = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    return Annotated[(base, Field(alias=name), *rest)]


def _schema(
    tool_name: str, model: type[BaseModel], annotations: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    try:
        schema = _without_titles(model.model_json_schema(schema_generator=_Schema))
    except Exception as error:
        if len(annotations) > 1:
            _find_culprit(tool_name, annotations, defaults, True)
        raise _unusable(tool_name, annotations, error) from error
    return {**schema, "additionalProperties": False}


def _find_culprit(tool_name: str, annotations: Mapping[str, Any], defaults: Mapping[str, Any], strict: bool) -> None:
    """Raise the error that one parameter causes on its own."""
    for name, annotation in annotations.items():
        model, _ = _model(tool_name, {name: annotation}, defaults, strict)
        _schema(tool_name, model, {name: annotation}, defaults)


def _unusable(tool_name: str, annotations: Mapping[str, Any], error: Exception) -> ConfigError:
    reason = str(error).partition("\n")[0]
    return _config_error(tool_name, ", ".join(annotations), f"a type that pydantic can read from JSON ({reason})")


def _config_error(tool_name: str, parameter: str, allowed: str) -> ConfigError:
    return ConfigError(f"tool {tool_name!r}, parameter", parameter, allowed)


def _without_titles(schema: Any) -> Any:
    """Drop pydantic's titles, which repeat the names. A property or a value may itself be called `title`."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs", "patternProperties"):
            kept[key] = {name: _without_titles(item) for name, item in value.items()}
        elif key in ("default", "examples", "const", "enum"):
            kept[key] = value
        elif key != "title" or not isinstance(value, str):
            kept[key] = _without_titles(value)
    return kept


def _broken(text: str, reason: str) -> str:
    if reason.startswith("EOF"):
        end = json.dumps(text[-40:], ensure_ascii=False)
        return f"The arguments are no whole JSON: they were cut off after {len(text)} characters, at {end}."
    return f"The arguments are no valid JSON: {reason}. They begin with {shown(text)}."


def _complaint(error: ValidationError) -> str:
    problems = error.errors(include_url=False)
    lines = ["The arguments do not fit:"]
    for problem in problems[:_PROBLEMS]:
        place = ".".join(_short(str(part)) for part in problem["loc"]) or "arguments"
        given = "" if problem["type"] == "missing" else f" (given: {shown(problem['input'])})"
        lines.append(f"- {place}: {_short(problem['msg'], 300)}{given}")
    if len(problems) > _PROBLEMS:
        lines.append(f"- and {len(problems) - _PROBLEMS} more")
    return "\n".join(lines)


def shown(value: object) -> str:
    """Return a value in a few words, however large it is."""
    if isinstance(value, str):
        return json.dumps(_short(value), ensure_ascii=False)
    if isinstance(value, Mapping):
        keys = ", ".join(_short(str(key), 30) for key in list(value)[:5])
        return f"an object with {len(value)} keys: {keys}{', …' if len(value) > 5 else ''}" if value else "{}"
    if isinstance(value, list):
        return f"a list of {len(value)} items" if value else "[]"
    return _short(json.dumps(value) if value is None or isinstance(value, bool) else str(value))


def _short(text: str, size: int = _SHOWN) -> str:
    return text if len(text) <= size else f"{text[:size]}… ({len(text)} characters)"


_SECTIONS = (
    ("GOOGLE", re.compile(r"^\s*(Args|Arguments|Parameters|Params|Returns|Yields|Raises|Examples?):\s*$", re.M)),
    ("NUMPYDOC", re.compile(r"^\s*(Parameters|Other Parameters|Returns|Yields|Raises|Examples)\n\s*-{3,}\s*$", re.M)),
    ("REST", re.compile(r"^\s*:(param|parameter|arg|argument|type|returns?|rtype|raises?)\b[^:\n]*:", re.M)),
)


def read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return what a docstring says of the function, and of its parameters by name.

    Google, NumPy and Sphinx sections are understood; without any, the whole text is the description.
    """
    core = core_of(function)
    # A callable object is described by its `__call__`, or else by its class.
    own = (
        inspect.getdoc(core) if core is without_partial(function) else core.__doc__ or without_partial(function).__doc__
    )
    text = inspect.cleandoc(own or "")
    style = next((name for name, section in _SECTIONS if section.search(text)), None)
    if style is None:
        return text.strip(), {}
    import docstring_parser  # here, because most functions do not need it

    try:
        doc = docstring_parser.parse(text, docstring_parser.DocstringStyle[style])
    except docstring_parser.ParseError:
        # What only looked like a section is text.
        return text.strip(), {}
    parts = [part.strip() for part in (doc.short_description, doc.long_description) if part]
    parameters = {
        name.strip().lstrip("*"): parameter.description.strip()
        for parameter in doc.params
        if parameter.description and parameter.args[0] != "attribute"
        for name in parameter.arg_name.split(",")
    }
    return "\n\n".join(parts), parameters
