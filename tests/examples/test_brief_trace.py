"""The demo's trace, sent to a real receiver, is one that the trace checker has nothing to say against."""

from pathlib import Path

from brief_demo import run_demo
from traces import otel_tool


def test_the_trace_checker_finds_nothing_wrong_with_the_demos_trace(tmp_path: Path) -> None:
    (tmp_path / "tides.txt").write_text("Tides come twice a day. The moon pulls the sea. Harbours keep tables of them.")
    with otel_tool("receiver").Receiver() as receiver:
        done = run_demo("tides.txt", folder=tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
        assert done.returncode == 0, done.stderr
        dump = receiver.dump()
    assert len(dump["spans"]) > 20
    found = otel_tool("check_trace").check(dump, loop="alfine.")
    assert [str(problem) for problem in found if problem.level != "INFO"] == []
