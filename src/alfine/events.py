"""The events of a run, under the name that users write: `from alfine.events import TextDelta`."""

from .runtime.events import *  # noqa: F403 - the names are those of its __all__
