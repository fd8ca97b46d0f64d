"""Puts a reply together from the frames of a Chat Completions stream, as compatible servers really send them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..json_text import is_json_object, write_json
from ..limits import Usage
from ..messages import ToolCall, clean
from .protocol import FinishReason, Part, ReasoningPart, Reply, TextPart, ToolCallPart

_FINISH: dict[str, FinishReason] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}


class TextJoiner:
    """Makes pieces of text sendable. Half of a character at a piece's end waits for the next piece to complete it.

    Attributes:
        half: what waits; a piece of ASCII that comes while nothing waits is sendable as it is.
    """

    __slots__ = ("half",)

    def __init__(self) -> None:
        self.half = ""

    def push(self, piece: str) -> str:
        """Take the next piece; returns what can be shown."""
        if piece.isascii() and not self.half:
            return piece
        text = self.half + piece
        self.half = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self.half = text[:-1], text[-1]
        return clean(text)

    def flush(self) -> str:
        """Return what still waits, as U+FFFD."""
        half, self.half = self.half, ""
        return clean(half)


class _Call:
    """One tool call while it arrives. Nothing of it is shown until its name is known."""

    __slots__ = ("id", "joiner", "name", "pieces", "position", "server_id", "shown")

    def __init__(self, position: int, server_id: str | None) -> None:
        self.position = position
        self.server_id = server_id
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.joiner = TextJoiner()
        self.shown = False

    def show(self, piece: str) -> ToolCallPart:
        self.shown = True
        return ToolCallPart(self.position, self.id, self.name, piece)

    @property
    def is_whole(self) -> bool:
        """The arguments are a whole JSON object: nothing can follow it."""
        last = next((piece for piece in reversed(self.pieces) if piece.strip()), "")
        return last.rstrip().endswith("}") and is_json_object("".join(self.pieces))


class ReplyBuilder:
    """Takes a stream's frames, gives their parts, and at the end the `Reply`.

    Args:
        used_ids: the ids of the calls in the request's history; calls of this reply get others.
        number: tells this reply from the others of the run, such as the number of messages before it. It goes into the
            ids of calls that came without one.
    """

    def __init__(self, used_ids: Collection[str] = (), number: int = 0) -> None:
        self._used_ids = used_ids
        self._number = number
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._text_joiner = TextJoiner()
        self._reasoning_joiner = TextJoiner()
        self._calls: list[_Call] = []
        self._ids: set[str] = set()
        self._by_id: dict[tuple[int | None, str], _Call] = {}
        self._by_index: dict[int, _Call] = {}
        self._refusal = False
        self._usage: Mapping[str, Any] = {}
        self._response_id: str | None = None
        self._response_model: str | None = None
        self.finish_reason: str | None = None

    @property
    def has_output(self) -> bool:
        """Whether anything of an answer has come: text, reasoning, or a call."""
        return bool(self._text or self._reasoning or self._calls)

    def feed(self, frame: Mapping[str, Any], out: list[Part]) -> None:
        """Take one frame, a chunk or a whole completion, and append to `out` what it adds."""
        get = frame.get
        if self._response_id is None:
            self._response_id = _text_or_none(get("id"))
            self._response_model = _text_or_none(get("model"))
        if (usage := get("usage")) and isinstance(usage, dict):
            self._usage = usage
        if type(choices := get("choices")) is not list:
            return
        for choice in choices:
            # Only one answer is ever asked for; further ones come only where `extra_body` wants them.
            if type(choice) is not dict or choice.get("index"):
                continue
            delta = choice.get("delta")
            if type(delta) is dict:
                if len(delta) == 1 and type(content := delta.get("content")) is str:
                    # What nearly every chunk is; each token comes through here.
                    if self._text_joiner.half or not content.isascii():
                        content = self._text_joiner.push(content)
                    if content:
                        self._text.append(content)
                        out.append(TextPart(content))
                elif len(delta) == 1 and type(calls := delta.get("tool_calls")) is list:
                    self._call_pieces(calls, out)
                else:
                    self._delta(delta, out)
            elif delta is None and not self.has_output and isinstance(message := choice.get("message"), dict):
                self._delta(message, out)
            if (reason := choice.get("finish_reason")) and isinstance(reason, str):
                self.finish_reason = reason

    def end(self) -> list[Part]:
        """Return what is left, the `Reply` last."""
        out: list[Part] = []
        self._add_reasoning(self._reasoning_joiner.flush(), out)
        self._add_text(self._text_joiner.flush(), out)
        for call in self._calls:
            rest = call.joiner.flush()
            if not "".join(call.pieces).strip() and not rest:
                # A call of a tool without parameters: some servers send no arguments at all.
                rest = "{}"
            if rest:
                call.pieces.append(rest)
            if rest or not call.shown:
                out.append(call.show(rest if call.shown else "".join(call.pieces)))
        calls = tuple(ToolCall(c.id, c.name, "".join(c.pieces)) for c in self._calls)
        reason: FinishReason = "tool_calls" if calls else _FINISH.get(self.finish_reason or "", "stop")
        reply = Reply(
            text="".join(self._text),
            tool_calls=calls,
            reasoning="".join(self._reasoning),
            finish_reason=reason,
            refusal=self._refusal,
            usage=read_usage(self._usage),
            response_id=self._response_id,
            response_model=self._response_model,
        )
        return [*out, reply]

    def _delta(self, delta: Mapping[str, Any], out: list[Part]) -> None:
        get = delta.get
        if reasoning := get("reasoning_content") or get("reasoning"):
            self._add_reasoning(self._reasoning_joiner.push(_flat(reasoning)), out)
        if content := get("content"):
            self._add_text(self._text_joiner.push(content if type(content) is str else _flat(content)), out)
        if refusal := get("refusal"):
            self._refusal = True
            self._add_text(self._text_joiner.push(_flat(refusal)), out)
        if isinstance(calls := get("tool_calls"), list):
            self._call_pieces(calls, out)
        if isinstance(old := get("function_call"), dict):
            self._call_piece({"function": old}, out)

    def _add_text(self, text: str, out: list[Part]) -> None:
        if text:
            self._text.append(text)
            out.append(TextPart(text))

    def _add_reasoning(self, text: str, out: list[Part]) -> None:
        if text:
            self._reasoning.append(text)
            out.append(ReasoningPart(text))

    def _call_pieces(self, pieces: list[Any], out: list[Part]) -> None:
        for piece in pieces:
            if isinstance(piece, dict):
                self._call_piece(piece, out)

    def _call_piece(self, piece: Mapping[str, Any], out: list[Part]) -> None:
        function, index = piece.get("function"), piece.get("index")
        if type(function) is dict and len(function) == 1 and "id" not in piece and type(index) is int:
            # What nearly every piece is: more arguments of a call that has begun.
            known, more = self._by_index.get(index), function.get("arguments")
            if known is not None and known.shown and type(more) is str and more.isascii() and not known.joiner.half:
                if more:
                    known.pieces.append(more)
                    out.append(ToolCallPart(known.position, known.id, known.name, more))
                return
        function = function if isinstance(function, dict) else {}
        index = _index(index)
        server_id = clean(_text_or_none(piece.get("id")) or "") or None
        name = clean(_text_or_none(function.get("name")) or "")
        arguments = _arguments(function.get("arguments"))

        call = self._find(index, server_id, name, arguments)
        if call is None:
            call = _Call(len(self._calls), server_id)
            call.id = self._unique(server_id or f"call_{call.position}_{self._number}")
            self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        if server_id is not None:
            call.server_id = call.server_id or server_id
            self._by_id[index, server_id] = call
            self._by_id.setdefault((None, server_id), call)
        call.name = call.name or name
        text = call.joiner.push(arguments)
        if text:
            call.pieces.append(text)
        if call.name and (text or not call.shown):
            out.append(call.show(text if call.shown else "".join(call.pieces)))

    def _find(self, index: int | None, server_id: str | None, name: str, arguments: str) -> _Call | None:
        """Return the call that a piece continues, None for a new one."""
        if server_id is not None:
            if (known := self._by_id.get((index, server_id))) is not None:
                return None if arguments.strip() and self._begins(known, name) else known
            if (known := self._by_id.get((None, server_id))) is not None and index not in self._by_index:
                # Some servers count the pieces in `index`; a name with no arguments yet is how a call begins.
                begins = name and (not arguments or self._begins(known, name))
                return None if begins else known
        last = self._calls[-1] if self._calls else None
        current = last if index is None else self._by_index.get(index)
        if current is None:
            return last if last is not None and not name and self._joins(last, server_id, arguments) else None
        if server_id is not None and current.server_id is not None:
            # Another id is another call, unless it brings only arguments: some servers invent an id a piece.
            return current if arguments and not name and current.name else None
        blank = arguments and not arguments.strip()
        return None if not blank and self._begins(current, name) else current

    @staticmethod
    def _begins(call: _Call, name: str) -> bool:
        """Whether a piece with this name begins a call of its own, though nothing else tells it from `call`."""
        if not name or not call.name:
            return False
        return name != call.name or call.is_whole

    @staticmethod
    def _joins(last: _Call, server_id: str | None, arguments: str) -> bool:
        """Whether a piece under a new index, without a name, continues the last call: it would be a nameless one."""
        if server_id is not None and not (arguments and last.name):
            return False
        return not (arguments.strip() and last.is_whole)

    def _unique(self, wanted: str) -> str:
        unique, n = wanted, 1
        while unique in self._ids or unique in self._used_ids:
            n += 1
            unique = f"{wanted}_{n}"
        self._ids.add(unique)
        return unique


def read_usage(data: Mapping[str, Any]) -> Usage:
    """Return what a server's `usage` says in tokens, in any of the common spellings; what is missing counts as 0."""
    prompt = _mapping(data.get("prompt_tokens_details") or data.get("input_tokens_details"))
    completion = _mapping(data.get("completion_tokens_details") or data.get("output_tokens_details"))
    input_tokens = _count(data, "prompt_tokens", "input_tokens")
    cached_tokens = _count(prompt, "cached_tokens") or _count(data, "prompt_cache_hit_tokens", "cached_tokens")
    return Usage(
        input_tokens=input_tokens,
        output_tokens=_count(data, "completion_tokens", "output_tokens"),
        cached_tokens=min(cached_tokens, input_tokens),
        reasoning_tokens=_count(completion, "reasoning_tokens") or _count(data, "reasoning_tokens"),
    )


def _count(data: Mapping[str, Any], *names: str) -> int:
    for name in names:
        value = data.get(name)
        if isinstance(value, int | float) and 0 < value < float("inf"):
            return int(value)
    return 0


def _index(value: object) -> int | None:
    """Return a call's index; some servers write it as a text or as a float."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _flat(content: object) -> str:
    """Return the text of a content that is a text, a part, or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(map(_flat, content))
    if isinstance(content, dict):
        return _flat(content.get("text") or content.get("refusal") or "")
    return ""


def _arguments(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else write_json(value).decode()
