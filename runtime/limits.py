"""Usage, limits on it, and the budget that a run shares with its sub-runs and judges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from .errors import BudgetError, ConfigError


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used. `cached_tokens` are part of `input_tokens`, `reasoning_tokens` of `output_tokens`.

    Attributes:
        requests: model calls.
        tool_calls: tools that were started, delegations included.
        cost: in the currency of the price table; 0.0 without one.
    """

    requests: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            self.tool_calls + other.tool_calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cost + other.cost,
        )


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens cost. Cached input costs as much as other input unless told."""

    input: float
    output: float
    cached: float | None = None

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if value is None and f.name == "cached":
                continue
            if not _is_amount(value):
                raise ConfigError(f"price.{f.name}", value, "a finite number that is not negative")

    def of(self, usage: Usage) -> float:
        """Return the cost of `usage`."""
        cached = self.input if self.cached is None else self.cached
        # Some servers count cached tokens beside the input, not as a part of it.
        fresh = max(0, usage.input_tokens - usage.cached_tokens)
        return (fresh * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output) / 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLimits:
    """Limits of a run, its sub-runs and its judges together. None is no limit.

    Requests and tool calls are reserved before they start and are never overshot. Tokens and cost count when a server
    reports them, so calls in flight may overshoot by what they return.

    Attributes:
        cost: in the currency of `prices`.
        wall_time: seconds; it also ends a run inside a step.
        prices: model name (`gpt-5-mini`) or provider and name (`openai/gpt-5-mini`) to its price.
    """

    requests: int | None = None
    tool_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cost: float | None = None
    wall_time: float | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "prices" or value is None:
                continue
            if not _is_amount(value):
                raise ConfigError(f"limits.{f.name}", value, "a finite number that is not negative, or None")
        for name in ("requests", "tool_calls", "input_tokens", "output_tokens", "total_tokens"):
            if (count := getattr(self, name)) is not None and not isinstance(count, int):
                raise ConfigError(f"limits.{name}", count, "a whole number, or None")
        if not isinstance(self.prices, Mapping):
            raise ConfigError("limits.prices", self.prices, "a mapping of models to prices")
        for name, price in self.prices.items():
            if not isinstance(price, Price):
                raise ConfigError(f"limits.prices[{name!r}]", price, "a Price")
        if self.cost is not None and not self.prices:
            raise ConfigError("limits.prices", self.prices, "a price for each model, since `cost` is limited")

    def price(self, provider: str, model: str) -> Price | None:
        """Return the price of a model, if it has one."""
        return self.prices.get(f"{provider}/{model}") or self.prices.get(model)


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and math.isfinite(value)


class Budget:
    """What a run has used and may still use. A sub-run's budget counts on its parent's too."""

    def __init__(self, limits: UsageLimits | None = None, parent: Budget | None = None) -> None:
        self.limits = limits or UsageLimits()
        self.parent = parent
        self.usage = Usage()

    def reserve_request(self, provider: str, model: str) -> None:
        """Count one model call that is about to start.

        Raises:
            BudgetError: there is no room for it, in this budget or one above it.
            ConfigError: cost is limited and the model has no price.
        """
        for budget in self._chain():
            budget._check_room()
            if budget.limits.cost is not None and budget.limits.price(provider, model) is None:
                allowed = f"a price for {provider}/{model}, since cost is limited"
                raise ConfigError("limits.prices", sorted(budget.limits.prices), allowed)
        for budget in self._chain():
            budget.usage += Usage(requests=1)

    def reserve_tool_call(self) -> None:
        """Count one tool call that is about to start.

        Raises:
            BudgetError: there is no room for it, in this budget or one above it.
        """
        for budget in self._chain():
            budget._check_count("tool_calls", budget.usage.tool_calls)
        for budget in self._chain():
            budget.usage += Usage(tool_calls=1)

    def add(self, usage: Usage, provider: str, model: str) -> None:
        """Count the tokens that a server reported for a call that was reserved before."""
        chain = self._chain()
        prices = [budget.limits.price(provider, model) for budget in chain]
        for budget, own in zip(chain, prices, strict=True):
            # Without a price of its own a budget counts by the next one's, so that a sub-run has its cost too.
            price = own or next((p for p in prices if p is not None), None)
            cost = price.of(usage) if price else 0.0
            budget.usage += Usage(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_tokens=usage.cached_tokens,
                reasoning_tokens=usage.reasoning_tokens,
                cost=cost,
            )

    @property
    def used_up(self) -> str | None:
        """The name of the limit that leaves no room for one more model call, here or above; None where none does."""
        try:
            for budget in self._chain():
                budget._check_room()
        except BudgetError as error:
            return error.limit
        return None

    def _chain(self) -> list[Budget]:
        chain = [self]
        while (parent := chain[-1].parent) is not None:
            chain.append(parent)
        return chain

    def _check_count(self, name: str, used: int) -> None:
        limit = getattr(self.limits, name)
        if limit is not None and used >= limit:
            raise BudgetError(name, f"{used} of {limit}")

    def _check_room(self) -> None:
        self._check_count("requests", self.usage.requests)
        for name in ("input_tokens", "output_tokens", "total_tokens", "cost"):
            limit = getattr(self.limits, name)
            used = getattr(self.usage, name)
            if limit is not None and used >= limit:
                raise BudgetError(name, f"{used:g} of {limit:g}")
