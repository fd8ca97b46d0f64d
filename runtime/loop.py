"""The self-correction loop: ask, carry out, check; then stop, or feed back and try again.

The loop only decides. It has no clock, no randomness, no task group and no cancel scope: whatever it does to the world
goes through the journal's verbs, under keys that follow from where it stands.
"""

from __future__ import annotations

from dataclasses import replace

from . import tracing
from .ask import stream_reply
from .check import CheckReport, check_answer, feedback_text
from .errors import BudgetError, ConfigError, ScorerError
from .events import RunStarted, StepFinished, StepStarted
from .hooks import call_hook
from .log import logger
from .messages import AssistantMessage, clean
from .models import Reply
from .parts import part_sink
from .result import Answer, RunResult, StepDecision, StepInfo, StepRecord
from .run import OpenCall, Run
from .tool_calls import call_tools, with_unique_ids

NO_WISH = StepDecision()


async def run_loop(run: Run) -> RunResult[object]:
    """Run to the end and return the result. Whatever happens, `run_finished` is emitted once, as the last event."""
    with tracing.run_span(run.spans, run.spec) as span:
        try:
            await start(run)
            while run.outcome is None:
                await attempt(run)
        except Exception as error:
            run.fail(error)
        except BaseException:
            run.end("complete" if run.accepted else "cancelled")
            raise
        finally:
            span.finish(run.finish())
            await close(run)
    return run.finish()


async def attempt(run: Run) -> None:
    """One iteration: the steps up to and including a check, or up to the end of the run."""
    with tracing.iteration_span(run.spans, run.iteration, fed_back=bool(run.checks)) as span:
        while run.outcome is None:
            reply = await ask(run)
            if reply is None:
                return
            if reply.tool_calls:
                await call_tools(run, reply)
            complaint = misfit(run, reply)
            graded = is_graded(run, reply, complaint)
            await finish_step(run, reply, graded=graded)
            report = await check_answer(run, reply.text) if graded else None
            wish = await ask_hook(run, report)
            await decide(run, reply, report, complaint, wish)
            if report is not None:
                span.finish(report, continued=report.passed and run.outcome is None)
                if run.outcome is None:
                    run.iteration += 1
                return


async def ask(run: Run) -> Reply | None:
    """Ask the model for the next step; None when a limit has ended the run instead."""
    run.step += 1
    run.asked, run.reply = False, None
    await run.emit(StepStarted(*run.head, run.step, run.iteration))

    async def body() -> Reply:
        sink = part_sink(run)
        return await stream_reply(run.spec.model, run.request(), budget=run.spec.budget, sink=sink, spans=run.spans)

    try:
        reply = await run.act(f"{run.step}/model", body, Reply)
    except BudgetError:
        reply, run.asked = None, False
    if reply is None:
        run.end("budget")
        return None
    calls = with_unique_ids(reply.tool_calls, run.call_ids, run.draft_ids)
    reply = replace(reply, text=clean(reply.text), tool_calls=calls)
    run.reply = reply
    run.messages.append(AssistantMessage(reply.text, calls, clean(reply.reasoning)))
    run.open_calls = [OpenCall(call) for call in calls]
    return reply


def misfit(run: Run, reply: Reply) -> str | None:
    """Return what keeps an answer from being of the output type, if one was asked for."""
    if run.spec.output is None or reply.tool_calls:
        return None
    try:
        run.spec.output.parse(reply.text)
    except ValueError as error:
        return str(error)
    return None


def is_graded(run: Run, reply: Reply, complaint: str | None) -> bool:
    """Whether a check follows: it does on answers, and with `when="step"` on every step that has text."""
    check = run.spec.check
    if check is None or complaint is not None or run.outcome is not None:
        return False
    return not reply.tool_calls or (check.when == "step" and bool(reply.text))


async def finish_step(run: Run, reply: Reply, *, graded: bool) -> None:
    """Record the step, and its text if it is an answer that no check will decide about."""
    calls, usage = reply.tool_calls, reply.usage
    record = StepRecord(run.step, run.iteration, reply.text, calls, reply.finish_reason, graded, usage)
    run.steps.append(record)
    if not calls and not graded:
        run.answers.append(Answer(run.step, reply.text, None))
    sizes = len(calls), usage.input_tokens, usage.output_tokens
    await run.emit(StepFinished(*run.head, run.step, reply.finish_reason, graded, *sizes))


async def ask_hook(run: Run, report: CheckReport | None) -> StepDecision:
    """Ask `on_step` what it wants; a hook that raises wants nothing."""
    hook = run.spec.on_step
    if hook is None:
        return NO_WISH
    info = StepInfo(run.context(), run.steps[-1], report, run.is_last)
    wish = await run.act(f"{run.step}/on_step", lambda: run.observe("on_step", hook, info))
    if wish is None or isinstance(wish, StepDecision):
        return wish or NO_WISH
    await run.warn("on_step_returned", f"on_step returned {wish!r}; it has to return a StepDecision or None")
    return NO_WISH


async def decide(run: Run, reply: Reply, report: CheckReport | None, complaint: str | None, wish: StepDecision) -> None:
    """End the run, or put in what the next step has to know."""
    if run.outcome is not None:
        return
    passed = report.passed if report else run.spec.check is None and not reply.tool_calls and complaint is None
    cut = run.over_limit or (report.limit if report else None)
    used_up = run.spec.budget.used_up
    stalled = report is not None and run.stall.stalled(report)
    if passed and (not wish.wants_step or run.is_last or cut or used_up):
        run.end("complete")
    elif cut:
        run.end("budget")
    elif report is not None and report.undecided:
        run.fail(undecided(report))
    elif run.closing or (wish.action == "stop" and (run.is_last or not wish.feedback)):
        run.end("stopped")
    elif run.is_last:
        run.end("max_steps")
    elif used_up:
        run.end("budget")
    elif stalled and not wish.wants_step:
        run.end("stalled")
    else:
        await feed_back(run, report, complaint, wish)
        run.closing = wish.action == "stop"


async def feed_back(run: Run, report: CheckReport | None, complaint: str | None, wish: StepDecision) -> None:
    """Put the reasons into the conversation: a delegation's, the check's, the output type's, the hook's."""
    for remark in run.remarks:
        await run.inject(remark, "delegation")
    run.remarks.clear()
    if report is not None and not report.passed:
        text = await feedback_text(run, report)
        if run.over_limit:
            run.end("budget")
            return
        await run.inject(text, "check")
    if complaint is not None:
        await run.inject(f"The answer does not have the required form: {complaint}\nAnswer again in full.", "output")
    await run.inject(wish.feedback or "", "on_step")
    if isinstance(run.messages[-1], AssistantMessage):
        # A hook goes on after an answer without a word; model servers want somebody to speak in between.
        await run.inject("Go on.", "on_step")


def undecided(report: CheckReport) -> ScorerError:
    """Return the error of a check in which only errors stood in the way: it names each scorer that failed."""
    errors = [r for r in report.scorers if r.error is not None]
    text = "; ".join(str(r.error) for r in errors)
    if len(errors) == 1 and isinstance(errors[0].error, ScorerError):
        return errors[0].error
    return ScorerError(", ".join(r.scorer_id for r in errors), text)


async def start(run: Run) -> None:
    """Announce the run and settle its instructions."""
    spec = run.spec
    await run.emit(RunStarted(*run.head, spec.task, spec.max_steps, spec.parent_run_id, spec.call_id))
    write = spec.instructions
    if isinstance(write, str):
        run.instructions = write
    else:
        context = run.context()
        text = await run.act("instructions", lambda: call_hook(write, context))
        if run.over_limit:
            run.end("budget")
            return
        if not isinstance(text, str):
            raise ConfigError("instructions", text, "a function that returns the text of the instructions")
        run.instructions = clean(text)


async def close(run: Run) -> None:
    """Emit the last event. It is shown also when the journal fails: a reader must never wait for ever."""
    event = run.finished_event()
    try:
        await run.emit(event)
    except Exception as error:
        logger().warning("the journal failed at the run's last event", run_id=run.spec.run_id, error=repr(error))
    finally:
        if event.seq == 0:
            run.show_now(event)
