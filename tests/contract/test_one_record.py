"""One record a fact: the message first, one life for every class of run, and no verdicts.

Method: what is stored is looked at through every reader there is, and as bare keys, at the
moments at which a second record or an early claim would show.
"""

from collections import Counter

import pytest

from counterpoint.runtime import RunContext
from counterpoint.runtime.gateways import Gate, ScriptedGateway, say
from counterpoint.store.ids import RunId

from ..runtime.stage import InMemory, Place, answers, as_input, person, plays, rests


@pytest.mark.contract("B27", "A4", "B29", "D2", "P21")
async def test_a_message_is_stored_with_its_run_before_any_model_hears_of_it() -> None:
    place = InMemory()
    hearing = Gate()
    gateway = ScriptedGateway(say(hearing, "Fine."))

    async with place.open({"short": plays(gateway)}) as runtime:
        ann = await person(runtime)
        run = await ann.starts("How are you?", client_id="m-1")
        await hearing.reached()
        died_now = place.after_a_crash()
        hearing.release()
        await ann.end_of(run)

    async with died_now.open({"short": rests}) as runtime:
        ann = ann.in_runtime(runtime)
        [entry] = (await ann.view()).entries
        found = await runtime.lookup(scope="ann", client_id="m-1")
    assert (entry.text, entry.run, entry.disposition) == (
        "How are you?",
        run,
        "answer: nothing to decide",
    )
    assert found is not None
    assert (found.message, found.run) == (entry.entry, run)


@pytest.mark.contract("B9", "B10", "B11", "B42", "B59")
async def test_dialog_panel_and_inspection_show_one_record_also_after_a_restart(
    place: Place,
) -> None:
    gate = Gate()
    gateway = ScriptedGateway(say(gate), say("Done.", lasting=True))
    async with place.open({"short": answers, "background": plays(gateway)}) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Dig")
        await gate.reached()
        await ann.steers(run, "Deeper")
        await ann.end_of(run)
        before = await ann.run(run)
        assert (await ann.view()).runs == {run: before}
        assert (await runtime.inspect(scope="ann", run=run)).run == before

    async with place.open({"short": answers, "background": rests}) as runtime:
        ann = ann.in_runtime(runtime)
        assert await ann.run(run) == before
        assert (await ann.view()).runs == {run: before}


@pytest.mark.contract("B9", "B10", "B49")
async def test_a_background_run_is_stored_as_every_other_run_is() -> None:
    """There is no ledger of background tasks that could say something else."""
    stored: dict[str, Counter[str]] = {}
    for entry in ("plain", "background"):
        place = InMemory()
        gateway = ScriptedGateway(say("Done.", lasting=True))
        agent = plays(gateway)
        async with place.open({"short": agent, "background": agent}) as runtime:
            ann = await person(runtime)
            run: RunId = await ann.starts("Dig", entry=entry)
            await ann.end_of(run)
            keys = [key for key, _ in place.engine.committed().scan(b"\x00", b"\xff")]
        stored[entry] = Counter(chr(key[0]) for key in keys)

    assert stored["plain"] == stored["background"]


@pytest.mark.contract("B34", "B33", "B72")
async def test_delivered_says_that_the_model_has_had_the_words_and_not_that_it_obeyed() -> None:
    gate = Gate()
    gateway = ScriptedGateway(say("Let me ", gate), say("All the years, of course."))

    async def agent(run: RunContext) -> None:
        async for turn in run.turns():
            reply = await turn.request(gateway, lambda added: as_input(run, added))
            await run.complete(reply.text)

    async with InMemory().open({"short": answers, "background": agent}) as runtime:
        ann = await person(runtime)
        run = await ann.researches("Compare")
        await gate.reached()
        receipt = await ann.steers(run, "Only the last year")
        ended = await ann.end_of(run)
        assert await runtime.lookup(scope="ann", client_id=receipt.client_id) == receipt

    assert [revision.state for revision in ended.revisions] == ["delivered"]
    assert (ended.state, ended.answer) == ("completed", "All the years, of course.")
