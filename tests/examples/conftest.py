"""Examples are programs and no package: a test loads one by its file name."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Load an example anew, as on a machine without a key."""

    def load_example(name: str) -> ModuleType:
        for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ALFINE_MODEL"):
            monkeypatch.delenv(variable, raising=False)
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load_example
