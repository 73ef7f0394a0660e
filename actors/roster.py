"""Which actors live in this process, by what they are of.

A conversation's actor is started when something is said in it, and forgotten when it has
been quiet; a run's actor lives from its admission to its end. Both are made from the store
alone, so that one which died is simply started again.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import pykka
import trio

from ..store.ids import ConversationId, RunId, ScopeId
from ..store.refusal import Code, Refused
from .conversation import ConversationActor
from .environment import Environment, logger
from .kernel import ActorSystem, MailboxFull, SystemClosed, TrioActorRef
from .messages import LookAgain, Rest, ShutDown
from .run import RunActor
from .tail import Tail


class Roster:
    """The actors of one runtime. Used in the runtime's loop."""

    def __init__(
        self, environment: Environment, tail: Tail, system: ActorSystem, live_runs_max: int
    ) -> None:
        self._environment = environment
        self._tail = tail
        self._system = system
        self._live_runs_max = live_runs_max
        self._conversations: dict[ConversationId, TrioActorRef[ConversationActor]] = {}
        self._scopes: dict[ConversationId, ScopeId] = {}
        self._runs: dict[RunId, TrioActorRef[RunActor]] = {}
        self._deaths: dict[ConversationId, deque[float]] = {}
        self._quiet = trio.Event()
        tail.on_signal(self.signal, self.signal_all)

    def __len__(self) -> int:
        return len(self._runs)

    def awake(self, conversation: ConversationId) -> TrioActorRef[ConversationActor] | None:
        """Return the actor of a conversation if it is awake."""
        ref = self._conversations.get(conversation)
        return ref if ref is not None and ref.is_alive() else None

    def conversation(self, conversation: ConversationId) -> TrioActorRef[ConversationActor]:
        """Return the actor of a conversation, started now if it sleeps or has died.

        Raises:
          Refused: `unavailable`, if it died too often of late.
        """
        ref = self.awake(conversation)
        if ref is None:
            self._must_not_die_over_and_over(conversation)
            ref = ConversationActor.start(
                self._environment, self, conversation, system=self._system
            )
            self._conversations[conversation] = ref
        return ref

    def awake_in(
        self, scope: ScopeId, conversation: ConversationId
    ) -> TrioActorRef[ConversationActor] | None:
        """As `awake`, but only to the scope that `conversation_in` named: to any other the
        actor of a conversation is as little there as the conversation (D21).
        """
        return self.awake(conversation) if self._scopes.get(conversation) == scope else None

    def conversation_in(
        self, scope: ScopeId, conversation: ConversationId
    ) -> TrioActorRef[ConversationActor]:
        """As `conversation`, of one that is known to be this scope's."""
        ref = self.conversation(conversation)
        self._scopes[conversation] = scope
        return ref

    def run(self, run: RunId) -> TrioActorRef[RunActor] | None:
        """Return the actor of a run that is executed here, or None."""
        return self._runs.get(run)

    def _must_not_die_over_and_over(self, conversation: ConversationId) -> None:
        timing = self._environment.timing
        deaths = self._deaths.get(conversation)
        if deaths is None:
            return
        while deaths and deaths[0] <= trio.current_time() - timing.restarts_s:
            deaths.popleft()
        if not deaths:
            del self._deaths[conversation]
        elif len(deaths) > timing.restarts_max:
            raise Refused(
                Code.UNAVAILABLE,
                f"The actor of this conversation failed {len(deaths)} times in "
                f"{timing.restarts_s:g} s and is left alone for now; nothing was stored. "
                "The host's log says why.",
                failures=len(deaths),
            )

    def forget_conversation(self, conversation: ConversationId) -> None:
        """Let go of a conversation's actor that goes to sleep."""
        self._conversations.pop(conversation, None)
        self._scopes.pop(conversation, None)

    def rest(self, idle_s: float) -> None:
        """Ask every conversation's actor to go to sleep if it has been idle."""
        for conversation, ref in list(self._conversations.items()):
            try:
                ref.tell(Rest(conversation=conversation, idle_s=idle_s))
            except (MailboxFull, pykka.ActorDeadError):
                continue  # busy, or gone anyway

    def must_have_room(self) -> None:
        """Check that this process can execute one more run.

        Raises:
          Refused: `overloaded`.
        """
        if len(self._runs) >= self._live_runs_max:
            raise Refused(
                Code.OVERLOADED,
                f"This process executes {len(self._runs)} runs, as many as it may; nothing was "
                "stored. Try the same again later.",
                limit=self._live_runs_max,
            )

    def begin(self, run: RunId) -> None:
        """Start to execute a run that is committed with this process as its owner.

        If the actor system has closed meanwhile, the run stays admitted in the store, and
        the next process to settle this one's runs starts it (D13).
        """
        if run in self._runs:
            return
        try:
            self._runs[run] = RunActor.start(
                self._environment, self._tail, run, self._gone, system=self._system
            )
        except SystemClosed:
            logger.info("run %s was admitted while the host shut down", run)

    def died(self, ref: pykka.ActorRef[Any]) -> RunId | None:
        """Forget an actor that ended by an exception; return its run, if it had one.

        The actor of a conversation is started again from the store by the next message, with
        a bounded intensity.
        """
        for run, known_run in self._runs.items():
            if known_run == ref:
                self._gone(run)
                return run
        for conversation, known in self._conversations.items():
            if known == ref:
                self.forget_conversation(conversation)
                self._deaths.setdefault(conversation, deque()).append(trio.current_time())
                return None
        return None

    def _gone(self, run: RunId) -> None:
        self._runs.pop(run, None)
        if not self._runs:
            self._quiet.set()

    def signal(self, run: RunId) -> None:
        """Let the actor of a run look at what was committed about it."""
        ref = self._runs.get(run)
        if ref is not None:
            self._nudge(ref, LookAgain())

    def signal_all(self) -> None:
        """Let the actor of every run look at what was committed."""
        for ref in list(self._runs.values()):
            self._nudge(ref, LookAgain())

    def shut_down_runs(self) -> None:
        """Ask every run that is left to end as interrupted by the host."""
        for ref in list(self._runs.values()):
            self._nudge(ref, ShutDown())

    @staticmethod
    def _nudge(ref: TrioActorRef[Any], message: LookAgain | ShutDown) -> None:
        try:
            ref.tell(message)
        except MailboxFull:
            pass  # it has as many to read already, and each makes it read everything
        except pykka.ActorDeadError:
            pass  # its end is recorded, or will be settled

    async def quiet(self) -> None:
        """Wait until no run is executed here."""
        while self._runs:
            self._quiet = trio.Event()
            await self._quiet.wait()
