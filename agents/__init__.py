"""Agents: the agent itself, its tools, its streams, and delegation."""

from .agent import Agent, as_check
from .delegation import (
    DelegationEnd,
    DelegationPolicy,
    DelegationStart,
    FinishDecision,
    StartDecision,
)
from .stream import RunStream, TextStream
from .tool import FunctionTool, as_tool, tool

__all__ = [
    "Agent",
    "DelegationEnd",
    "DelegationPolicy",
    "DelegationStart",
    "FinishDecision",
    "FunctionTool",
    "RunStream",
    "StartDecision",
    "TextStream",
    "as_check",
    "as_tool",
    "tool",
]
