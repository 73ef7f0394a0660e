"""One run: its revisions, its gate, its effects and the task of its agent.

The actor owns nothing that is not in the store: whether something may go out is decided by
the rules in the transaction that records it, so a steering or a stop that another process
commits counts from that instant. What the actor adds is the task: it starts the agent, cuts
it when a person stops the run, and records how it ended, once (D12, D16, D17).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import trio

from ..store import effects, endings, requests, revisions, runs
from ..store.history import Snapshot, snapshot
from ..store.ids import RunId
from ..store.messages import get as message_of
from ..store.records import Effect, Reason, Repeat, Request, Run, RunState
from ..store.refusal import OutcomeUnknown, Refused
from .causes import CUES, outranks, why_it_ended
from .environment import Environment, logger
from .flight import Flight
from .kernel import TrioActor
from .messages import LookAgain, ShutDown
from .tail import Delta, Tail

AGAIN_S: Final = 1.0
"""The pause before the end of a run is recorded again that may or may not have been stored."""


class RunActor(TrioActor):
    """Executes one run. Its async methods are what an agent works through.

    They are called in the agent's task, and each leaves the store either as it was or with
    all that it says; cancellation in between is delivered afterwards.
    """

    registered = False  # they come by the thousand, and only the roster looks for them

    def __init__(
        self, environment: Environment, tail: Tail, run_id: RunId, gone: Callable[[RunId], None]
    ) -> None:
        super().__init__()
        self._environment = environment
        self._tail = tail
        self._gone = gone
        with environment.engine.read() as txn:
            run = runs.find(txn, run_id)
            assert run is not None, "a run is started after it was committed"
            self.request_text = message_of(txn, run.message).text
            self.restored = runs.checkpoint(txn, run_id) if run.checkpoints else None
        self.run: Final = run
        """The run as it was when it was started here: only its fixed facts still hold."""
        self.run_class = run.run_class
        self.draft: str | None = None
        """What the agent would publish if it were cut for time or budget now."""
        self._scope = trio.CancelScope()  # the agent's; replaced when its task begins
        self._flight: Flight | None = None
        self._cut: Reason | None = None
        self._detail = ""
        self._ended = False
        self._finishing = False
        self._requests_made = run.requests
        self._owed: tuple[int, int] | None = None
        """For the turn that a revision wants: that revision, and the requests made by then."""

    def on_start(self) -> None:
        """Begin to execute."""
        self._scope = self.spawn(self._execute)
        if self.run.state is RunState.STOPPING:  # accepted between the commit and the start
            self._cut_for(Reason.USER_STOP)

    def on_stop(self) -> None:
        """Leave the roster."""
        self._gone(self.run.run)

    def on_receive(self, message: Any) -> None:
        """Take a signal; see `messages.py`."""
        match message:
            case LookAgain():
                self._look_again()
            case ShutDown():
                self._cut_for(Reason.HOST_SHUTDOWN)
            case _:
                raise TypeError(f"a run takes no {type(message).__name__}")

    def _look_again(self) -> None:
        with self._environment.engine.read() as txn:
            run = runs.find(txn, self.run.run)
        if run is None or run.owner != self._environment.owner or run.state in runs.FINAL:
            if not self._ended and not self._finishing:
                self._ended = True
                self._scope.cancel()  # fenced: whoever has it now says what becomes of it (C29)
        elif run.state is RunState.STOPPING:
            self._cut_for(Reason.USER_STOP)
        elif self._flight is not None:
            self._flight.steered(run.revisions)

    def _cut_for(self, reason: Reason) -> None:
        self._give_up(reason, "")
        if not self._scope.cancel_called:
            self._scope.cancel()
            self.spawn(self._fence)

    async def _fence(self) -> None:
        """End the run without its agent, if that does not react to being cut in time (C19).

        Its task can't be killed, but nothing more comes out of it: the run is final, so
        every rule that it would go through refuses it.
        """
        wait_s = self._environment.timing.stop_wait_s
        await trio.sleep(wait_s)
        if not self._ended:
            self._detail = f"The agent did not react within {wait_s:g} s; it was shut out."
            await self._conclude()

    async def _execute(self) -> None:
        try:
            await self._work()
        except trio.Cancelled:
            self._note_why_cancelled()
            raise
        finally:
            await self._record_the_end()
            if self.actor_ref.is_alive():
                self.stop()

    def _note_why_cancelled(self) -> None:
        """Note the cause, if nobody has: a stop, a shutdown or a fence would have."""
        if self.failure is not None:
            self._give_up(Reason.INTERNAL, f"The run's actor failed: {self.failure!r}")
        elif trio.current_time() < self._scope.deadline:
            self._give_up(Reason.HOST_SHUTDOWN, "The host left the runtime.")

    async def _work(self) -> None:
        """Run the agent to its end, whatever that is, and note why if it was not an answer."""
        agent = self._environment.agents.get(self.run.agent)
        if agent is None:
            self._give_up(Reason.INTERNAL, f"No agent named {self.run.agent!r} is registered here.")
            return
        self._scope.deadline = trio.current_time() + self._seconds_left()
        try:
            await agent.execute(self)
        except Exception as error:  # noqa: BLE001 — an agent is the host's code: it may raise anything
            reason, words = why_it_ended(error)
            if reason is None:
                self._ended = True
            else:
                self._give_up(reason, words)
            if reason in (Reason.AGENT_ERROR, Reason.INTERNAL):
                logger.exception("run %s could not go on", self.run.run)
        else:
            if not self._ended and self._cut is None:
                self._give_up(Reason.AGENT_ERROR, "The agent returned without completing the run.")

    def _seconds_left(self) -> float:
        """Return how long the agent may work: its active time, or less up to its deadline."""
        budget = self.run.budget
        left_ms = budget.active_ms_max - self.run.active_ms
        if budget.deadline_at_ms is not None:
            left_ms = min(left_ms, budget.deadline_at_ms - self._environment.ids.now_ms())
        return left_ms / 1000

    def _give_up(self, reason: Reason, detail: str) -> None:
        if self._cut is None or outranks(reason, self._cut):
            self._cut = reason
            self._detail = detail

    async def _record_the_end(self) -> None:
        """Record the end, if the agent has not: the run's slot must come back (C32, C37).

        However long that takes, if the disk is full. Only a host that is leaving gives it up
        after a while; the next start settles the run then.
        """
        recorded = False
        while not recorded:
            with trio.move_on_after(self._environment.timing.drain_s, shield=True):
                recorded = await self._conclude()
            if self._environment.closing:
                return

    async def _conclude(self) -> bool:
        """Record the end; false if that has to be tried again."""
        if self._ended:
            return True
        if trio.current_time() >= self._scope.deadline:
            self._give_up(Reason.DEADLINE, "The run's time is up.")
        reason = self._cut or Reason.INTERNAL
        keeps_draft = CUES[reason] in (runs.Cue.FALL_SHORT, runs.Cue.INTERRUPT)
        try:
            await self._finish(
                # finish() turns this into a stop if one was accepted, and only then
                runs.Cue.FAIL if reason is Reason.USER_STOP else CUES[reason],
                reason,
                text=self.draft if keeps_draft else None,
                detail=self._detail,
            )
        except runs.OwnerLost:
            pass  # somebody else has recorded it
        except OutcomeUnknown as unknown:
            # Safe to repeat: if it was stored, the run is found final, and nothing is written.
            logger.warning("the end of run %s is tried again: %s", self.run.run, unknown)
            await trio.sleep(AGAIN_S)
            return False
        except Refused:
            logger.exception("the end of run %s was not recorded; it will be settled", self.run.run)
        return True

    async def _finish(
        self,
        cue: runs.Cue,
        reason: Reason,
        *,
        text: str | None,
        detail: str = "",
        insist_through: int = 0,
    ) -> endings.OneMore | None:
        environment = self._environment
        ending = endings.Ending(
            run=self.run.run,
            owner=environment.owner,
            cue=cue,
            reason=reason,
            publication=environment.ids.publication(),
            now_ms=environment.ids.now_ms(),
            text=text,
            detail=detail,
            insist_through=insist_through,
        )
        self._finishing = True
        try:
            result = await environment.insist(partial(endings.finish, ending=ending))
        finally:
            self._finishing = False
        if isinstance(result, endings.OneMore):
            return result
        self._ended = True  # its agent has nothing left to do, and must not stay for ever
        at_the_latest = trio.current_time() + environment.timing.stop_wait_s
        self._scope.deadline = min(self._scope.deadline, at_the_latest)
        return None

    # What an agent works through.

    @property
    def ended(self) -> bool:
        """Whether the run's end is recorded, or it is no longer executed here."""
        return self._ended

    def history(self) -> Snapshot:
        """Return what the run may see of its conversation (B35, B36)."""
        with self._environment.engine.read() as txn:
            return snapshot(txn, self._environment.limits, self.run)

    def now(self) -> Run:
        """Return the run's record as it is now."""
        with self._environment.engine.read() as txn:
            run = runs.find(txn, self.run.run)
        assert run is not None, "a run's record is never removed while it is executed"
        return run

    def seconds_left(self) -> float:
        """Return how long the agent may still work."""
        return self._scope.deadline - trio.current_time()

    def seen(self) -> revisions.Seen:
        """Return what a person has added to the run by now, with the words."""
        with self._environment.engine.read() as txn:
            run = runs.find(txn, self.run.run)
            assert run is not None, "a run's record is never removed while it is executed"
            return revisions.seen(txn, run)

    async def begin_request(
        self, gateway: str, model_input: bytes, input_sha256: bytes, seen: revisions.Seen
    ) -> Request | requests.Stale:
        """Record that a request goes out now, or learn that its input lacks a revision.

        Raises:
          GateClosed, BudgetSpent, OwnerLost: nothing may go out.
        """
        outgoing = requests.Outgoing(
            run=self.run.run,
            owner=self._environment.owner,
            gateway=gateway,
            input_sha256=input_sha256,
            model_input=model_input,
            revision=seen.revision,
            withdrawn=seen.withdrawn,
            now_ms=self._environment.ids.now_ms(),
            keep_input=self._environment.limits.keep_inputs,
        )
        opened = await self._environment.insist(partial(requests.begin, outgoing=outgoing))
        if isinstance(opened, Request):
            self._requests_made = opened.ordinal
        return opened

    def take_off(self, request: Request) -> Flight:
        """Return the flight of a request that was just recorded; `land` it afterwards."""
        assert self._flight is None, "one request of a run is in flight at a time"
        agent = self._environment.agents[self.run.agent]
        self._flight = Flight(
            request.ordinal,
            request.revision,
            cuts=agent.cuts_for_steering,
            show=self.stream,
        )
        self._look_again()  # a revision may have been saved since the request was recorded
        return self._flight

    def land(self) -> None:
        """Forget the flight: nothing is in the air any more."""
        self._flight = None

    async def end_request(self, ordinal: int, outcome: requests.Outcome) -> None:
        """Record what became of a request."""
        await self._environment.insist(
            partial(
                requests.end,
                run_id=self.run.run,
                owner=self._environment.owner,
                ordinal=ordinal,
                outcome=outcome,
                now_ms=self._environment.ids.now_ms(),
            )
        )

    async def begin_effect(
        self, name: str, arguments: bytes, repeat: Repeat, revision: int
    ) -> Effect:
        """Record that an effect starts now, or that it is skipped: its state says which.

        Raises:
          GateClosed, BudgetSpent, OwnerLost: nothing may go out.
        """
        intent = effects.Intent(
            run=self.run.run,
            owner=self._environment.owner,
            name=name,
            arguments=arguments,
            repeat=repeat,
            revision=revision,
            now_ms=self._environment.ids.now_ms(),
        )
        return await self._environment.insist(partial(effects.begin, intent=intent))

    async def start_effect_again(self, number: int) -> Effect:
        """Record that an unknown effect starts again: the outside says it has not happened.

        Raises:
          GateClosed, OwnerLost: nothing may go out.
        """
        return await self._environment.insist(
            partial(
                effects.start_again,
                run_id=self.run.run,
                owner=self._environment.owner,
                number=number,
                now_ms=self._environment.ids.now_ms(),
            )
        )

    async def end_effect(self, number: int, result: effects.Result) -> None:
        """Record what became of an effect."""
        await self._environment.insist(
            partial(
                effects.end,
                run_id=self.run.run,
                owner=self._environment.owner,
                number=number,
                result=result,
                now_ms=self._environment.ids.now_ms(),
            )
        )

    async def save(self, state: bytes) -> int:
        """Replace the run's checkpoint; return its number."""
        return await self._environment.insist(
            partial(
                runs.save_checkpoint,
                run_id=self.run.run,
                owner=self._environment.owner,
                state=state,
                now_ms=self._environment.ids.now_ms(),
            )
        )

    async def note_progress(self, text: str) -> None:
        """Record what the run is doing, in words for a person."""
        await self._environment.insist(
            partial(
                runs.note_progress,
                run_id=self.run.run,
                owner=self._environment.owner,
                text=text,
                now_ms=self._environment.ids.now_ms(),
            )
        )

    async def promote(self) -> list[RunId] | None:
        """Move the run into the background, or return the runs that hold the slots (D10)."""
        holders = await self._environment.insist(
            partial(
                runs.promote,
                limits=self._environment.limits,
                run_id=self.run.run,
                owner=self._environment.owner,
                now_ms=self._environment.ids.now_ms(),
            )
        )
        if holders is None:
            self.run_class = "background"
        return holders

    async def complete(self, text: str) -> bool:
        """Publish `text` and end the run; False if a revision wants one more turn first (C10).

        If the agent makes no request in that turn, the run ends all the same, and the
        revisions that it was given the turn for say so. A revision that came in since is
        given a turn of its own.
        """
        insist_through = 0
        if self._owed is not None:
            revision, requests_made = self._owed
            insist_through = revision if requests_made == self._requests_made else 0
        one_more = await self._finish(
            runs.Cue.COMPLETE, Reason.ANSWERED, text=text, insist_through=insist_through
        )
        if one_more is None:
            return True
        self._owed = one_more.revision, self._requests_made
        return False

    def stream(self, text: str) -> None:
        """Show a piece of an answer to those who listen at this moment; it is not durable."""
        self._tail.stream(Delta(conversation=self.run.conversation, run=self.run.run, text=text))
