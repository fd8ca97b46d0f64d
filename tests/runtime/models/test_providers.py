"""From model strings to models."""

from collections.abc import AsyncGenerator, Iterator

import pytest

from alfine.runtime.errors import ConfigError
from alfine.runtime.models import Model, ModelRequest, Part, TextPart
from alfine.runtime.models.endpoints import PROVIDERS, find_endpoint
from alfine.runtime.models.openai_chat import OpenAIChatModel
from alfine.runtime.models.providers import register_provider, resolve_model


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for provider in PROVIDERS.values():
        monkeypatch.delenv(provider.key_variable, raising=False)
        monkeypatch.delenv(provider.url_variable, raising=False)
    before = dict(PROVIDERS)
    yield
    PROVIDERS.clear()
    PROVIDERS.update(before)


class OwnModel:
    name = "own"
    provider = "me"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Part, None]:
        yield TextPart("Hi")


def test_a_model_is_returned_as_it_is() -> None:
    model = OwnModel()
    assert resolve_model(model) is model


def test_provider_and_name_are_taken_apart_at_the_first_slash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "k")
    model = resolve_model("openrouter/meta-llama/llama-3")
    assert (model.provider, model.name) == ("openrouter", "meta-llama/llama-3")
    assert isinstance(model, Model)


@pytest.mark.parametrize("spec", ["gpt-5-mini", "", "/", "openai/", "openai/ ", "nobody/gpt", "/gpt"])
def test_a_string_that_names_no_model_is_refused_with_the_providers(spec: str) -> None:
    with pytest.raises(ConfigError, match="openai, openrouter, groq") as caught:
        resolve_model(spec)
    assert (caught.value.argument, caught.value.value) == ("model", spec)


def test_what_is_neither_string_nor_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="model: 7"):
        resolve_model(7)  # type: ignore[arg-type]  # what a caller without a type checker may write


@pytest.mark.parametrize("provider", [name for name, p in PROVIDERS.items() if p.needs_key])
@pytest.mark.parametrize("key", [None, "", "  "])
def test_a_missing_key_is_refused_before_any_request(
    provider: str, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key is not None:
        monkeypatch.setenv(PROVIDERS[provider].key_variable, key)
    with pytest.raises(ConfigError, match=PROVIDERS[provider].key_variable):
        resolve_model(f"{provider}/m")


@pytest.mark.parametrize("provider", ["ollama", "lmstudio", "vllm"])
def test_a_local_provider_needs_no_key(provider: str) -> None:
    resolve_model(f"{provider}/m")
    assert find_endpoint(provider).base_url.startswith("http://localhost:")


def test_a_local_provider_gets_the_key_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", " k\n")
    assert find_endpoint("vllm").api_key == "k"


def test_another_base_url_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:9/v1")
    endpoint = find_endpoint("openai")
    assert (endpoint.base_url, endpoint.api_key) == ("http://localhost:9/v1", "none")


def test_what_is_given_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
    endpoint = find_endpoint("openai", "http://localhost:8/v1", "given")
    assert (endpoint.base_url, endpoint.api_key) == ("http://localhost:8/v1", "given")


@pytest.mark.parametrize("url", ["localhost:9", "ftp://x/v1", "http://", "http://[", "http://x:99999/v1"])
def test_a_base_url_that_is_none_is_refused_by_name(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="base_url"):
        find_endpoint("openai", url)
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(ConfigError, match="OPENAI_BASE_URL"):
        find_endpoint("openai")


@pytest.mark.parametrize(
    "url", ["ftp://me:secret@x/v1", "me:secret@x/v1", "http://me:sec/ret@x/v1", "http://me:s@cret@"]
)
def test_a_base_url_that_is_refused_does_not_show_its_credentials(url: str) -> None:
    with pytest.raises(ConfigError, match="base_url") as caught:
        find_endpoint("openai", url)
    assert not [part for part in ("me", "sec", "cret") if part in repr(caught.value.value)]
    assert "***@" in str(caught.value)


def test_a_key_that_cannot_be_sent_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="printable") as caught:
        find_endpoint("openai", None, "sécret")
    assert "sécret" not in str(caught.value)


def test_a_provider_is_registered_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    register_provider("acme", base_url="https://api.acme.test/v1", key_variable="ACME_API_KEY")
    with pytest.raises(ConfigError, match="ACME_API_KEY"):
        resolve_model("acme/m")
    monkeypatch.setenv("ACME_API_KEY", "k")
    assert resolve_model("acme/m").provider == "acme"
    assert find_endpoint("acme").base_url == "https://api.acme.test/v1"


def test_a_registered_provider_without_a_key_variable_needs_none() -> None:
    register_provider("acme", base_url="http://acme.test/v1")
    assert find_endpoint("acme").api_key == "none"


@pytest.mark.parametrize("name", ["", "a/b", "A", " a"])
def test_a_provider_name_that_cannot_stand_in_a_model_string_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="name"):
        register_provider(name, base_url="https://api.acme.test/v1")


def test_an_unknown_provider_works_with_a_base_url_only() -> None:
    OpenAIChatModel("m", provider="mine", base_url="http://localhost:9/v1")
    with pytest.raises(ConfigError, match="provider: 'mine'"):
        OpenAIChatModel("m", provider="mine")


@pytest.mark.parametrize("arguments", [{"name": ""}, {"name": " "}, {"name": "m", "max_retries": -1}])
def test_wrong_arguments_are_refused_by_name(arguments: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"^(name|max_retries)"):
        OpenAIChatModel(**arguments, api_key="k")  # type: ignore[arg-type]  # wrong on purpose
