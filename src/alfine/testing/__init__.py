"""Test doubles for models: test your agents without a network, a key or a surprise.

- `ScriptedModel` is a model that answers from a script, in the same process: fast, and enough for most tests.
- `FakeOpenAI` is a local server that answers from the same scripts over HTTP, through the real openai client: for tests
  of what only a wire has, such as cut connections, rate limits and disconnects.

A script is a list of turns (`Turn`, or a text), or a function of the request that returns one. `call` writes a tool
call, `Gate` puts events in order without sleeping, and `alfine.testing.faults` has turns that go wrong.

>>> import anyio
>>> from alfine.runtime.messages import UserMessage
>>> from alfine.runtime.models import ModelRequest
>>> model = ScriptedModel([Turn(tool_calls=[call("search", {"q": "anyio"})]), "Found it."])
>>> async def parts_of_reply():
...     return [part async for part in model.stream(ModelRequest([UserMessage("Search!")]))]
>>> anyio.run(parts_of_reply)[-1].tool_calls
(ToolCall(id='call_1', name='search', arguments='{"q": "anyio"}'),)
"""

from .fake_openai import FakeOpenAI
from .faults import cut, cut_before_head, error_in_stream, http_error, malformed_chunk, raw, slow
from .gates import Gate
from .http_request import HttpRequest
from .scripted import ScriptedModel, SeenRequest
from .turns import Script, ScriptedCall, Turn, call

__all__ = [
    "FakeOpenAI",
    "Gate",
    "HttpRequest",
    "Script",
    "ScriptedCall",
    "ScriptedModel",
    "SeenRequest",
    "Turn",
    "call",
    "cut",
    "cut_before_head",
    "error_in_stream",
    "http_error",
    "malformed_chunk",
    "raw",
    "slow",
]
