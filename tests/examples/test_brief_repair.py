"""The demo's team makes a brief of files that it has not seen, fails its rubric, is told why, and repairs it."""

import pytest
from brief_demo import demands, documents, layout, make_brief

from alfine import RunResult, ToolMessage

GARDEN = {
    "soil.txt": "Soil feeds the roots. Too much water is a risk for every root. Who waters the beds in August?\n",
    "tools.md": "# Tools\n\nA spade cuts roots.\nA rake levels soil. The shed costs 300 euro a year.\n",
    "plan.txt": "We plant beans in April. We harvest in July. The budget is small.\n",
    "letters.txt": "Dear neighbours, the compost smells. Please turn it more often.\n",
}


def drafts(result: RunResult[str]) -> list[str]:
    """Return the answers that were graded, in order."""
    return [step.text for step in result.steps if step.graded]


async def test_the_first_draft_fails_and_the_second_holds_what_the_reason_named() -> None:
    result = await make_brief(GARDEN)
    assert result.outcome == "complete"
    assert [check.passed for check in result.checks] == [False, True]
    first, second = drafts(result)
    assert "## Open questions" not in first
    assert "## Open questions" in second
    assert "Who waters the beds in August?" in second
    assert "letters.txt" not in first
    assert "> — letters.txt" in second


async def test_without_the_reason_the_same_brief_comes_again_and_the_demo_fails() -> None:
    result = await make_brief(GARDEN, feedback=False)
    assert result.outcome == "stalled"
    assert len(set(drafts(result))) == 1
    assert not result.complete


@pytest.mark.parametrize(
    ("criterion", "expected"),
    [
        ('Mentions the word "compost"', "> Dear neighbours, the compost smells.\n> — letters.txt"),
        ('Mentions the word "dragon"', "The documents do not mention “dragon”."),
        ('Has a section named "Risks"', "## Risks\n\n> Too much water is a risk for every root.\n> — soil.txt"),
        ('Has a "Budget" section', "## Budget\n\n> The budget is small.\n> — plan.txt"),
        ("Quotes at least 4 sources", "> — letters.txt"),
        ("Names every document", "- letters.txt"),
        ("At least 90 words", "> Please turn it more often.\n> — letters.txt"),
    ],
)
async def test_another_rubric_gives_another_correction(criterion: str, expected: str) -> None:
    result = await make_brief(GARDEN, criterion)
    first, second = drafts(result)
    assert result.complete
    assert expected not in first
    assert expected in second


async def test_a_brief_is_cut_to_length_without_losing_what_holds() -> None:
    result = await make_brief(GARDEN, '- At most 50 words\n- Mentions "compost"\n- Quotes at least 2 sources')
    first, second = drafts(result)
    assert result.complete
    assert layout.count_words(first) > 50 >= layout.count_words(second)


async def test_an_unwanted_word_is_taken_out() -> None:
    result = await make_brief(GARDEN, 'Does not mention the word "spade"')
    first, second = drafts(result)
    assert result.complete
    assert "spade" in first
    assert "spade" not in second


async def test_a_criterion_without_a_rule_is_never_passed_and_the_rest_is_repaired_all_the_same() -> None:
    result = await make_brief(GARDEN, '- Sounds like Goethe\n- Has a section named "Risks"')
    assert result.outcome == "stalled"
    assert "## Risks" in result.text
    history = {row.description: row.history for row in result.ledger.rows}
    assert history["Sounds like Goethe"] == [False] * len(result.checks)
    assert history['Has a section named "Risks"'] == [False] + [True] * (len(result.checks) - 1)


async def test_the_task_decides_what_is_looked_up() -> None:
    about_compost = await make_brief(GARDEN, "At least 1 words", task="What is said about compost?")
    notes = next(message for message in about_compost.messages if isinstance(message, ToolMessage))
    assert "the compost smells" in notes.text


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param({"one.txt": "A single sentence stands here."}, id="one sentence"),
        pytest.param({"word.txt": "Word"}, id="one word"),
        pytest.param({"heads.md": "# One\n\n## Two\n\n### Three\n"}, id="headings only"),
        pytest.param({f"{n}.txt": f"Text number {n} says this. It says more." for n in range(10)}, id="ten files"),
        pytest.param({"de.txt": "Der Garten ist groß. Wer gießt die Beete? Niemand weiß es."}, id="German"),
        pytest.param({"zh.txt": "花园很大。谁来浇水?没有人知道。豆子长得很好。"}, id="Chinese"),
        pytest.param({"long.txt": "word " * 5000}, id="a long line"),
        pytest.param({"solid.txt": "x" * 50_000}, id="a long word"),
        pytest.param({"code.py": "def f(x):\n    return x + 1  # why?\n"}, id="code"),
        pytest.param({"table.md": "| a | b |\n|---|---|\n| 1 | 2 |\n"}, id="a table only"),
        pytest.param({"cut.md": "```\n# x = 1\n```\n"}, id="a code block only"),
        pytest.param({"q.md": "> She said: stop.\n> He did.\n\n- one item\n- [ ] a box (required): no\n"}, id="quotes"),
        pytest.param({"marks.txt": "Document: x\n- Find: y\n| Draft. Mend: z says it all here.\n"}, id="our own marks"),
        pytest.param({"a b [1].txt": "Names may hold spaces. They do here."}, id="an odd name"),
    ],
)
async def test_any_kind_of_text_becomes_a_brief_whose_quotes_are_true(texts: dict[str, str]) -> None:
    result = await make_brief(texts)
    assert result.complete, result.ledger
    found = layout.quotes(result.text)
    assert {quote.document for quote in found} == set(texts)
    known = documents.Documents(texts)
    assert all(known.holds(quote.document, quote.text) for quote in found)


async def test_a_large_file_is_read_in_pages_and_searched_to_its_end() -> None:
    text = "This line is like all the others here.\n" * 130_000 + "Only the end mentions the treasure.\n"
    result = await make_brief({"large.txt": text}, 'Mentions the word "treasure"')
    assert len(text) > 5_000_000
    assert result.complete
    assert "Only the end mentions the treasure." in result.text


@pytest.mark.parametrize(
    "criterion",
    [
        "Is well written",
        'Mentions "a" and has a section named "B" with two items',
        "At most words",
        "Quotes people",
        "",
    ],
)
def test_a_criterion_is_understood_as_a_whole_or_not_at_all(criterion: str) -> None:
    assert demands.understand(criterion) is None
