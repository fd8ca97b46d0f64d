"""Agents: the agent itself, its tools, its streams, and delegation."""

from .agent import Agent
from .delegation_policy import (
    DelegationEnd,
    DelegationPolicy,
    DelegationStart,
    FinishDecision,
    StartDecision,
)
from .options import RunOptions, as_check
from .stream import RunStream, TextStream
from .tool import FunctionTool, as_tool, tool

__all__ = [
    "Agent",
    "DelegationEnd",
    "DelegationPolicy",
    "DelegationStart",
    "FinishDecision",
    "FunctionTool",
    "RunOptions",
    "RunStream",
    "StartDecision",
    "TextStream",
    "as_check",
    "as_tool",
    "tool",
]
