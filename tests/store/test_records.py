"""What is on disk stays readable: golden bytes, older records, and rubbish.

Method: the bytes of every record stand here in hex. A test of a round trip alone would
pass after any change of format; this fails with the first byte that moves.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.store.ids import (
    ClientId,
    ConversationId,
    MessageId,
    OwnerId,
    PublicationId,
    RunId,
    ScopeId,
)
from counterpoint.store.records import (
    RECORDS,
    Accepted,
    Budget,
    Checkpoint,
    Conversation,
    Damaged,
    Depth,
    Effect,
    EffectState,
    Event,
    EventKind,
    Meaning,
    Message,
    Owner,
    Publication,
    Reason,
    Record,
    Repeat,
    Request,
    RequestState,
    Revision,
    RevisionState,
    Run,
    RunState,
    Verb,
    decode,
    encode,
)

ANN = ScopeId("ann")
C1 = ConversationId("c1")
M0, M1 = MessageId("m0"), MessageId("m1")
P1 = PublicationId("p1")
R0, R1 = RunId("r0"), RunId("r1")
W1 = OwnerId("w1")
J, K = ClientId("j"), ClientId("k")

GOLDEN: list[tuple[str, Record]] = [
    (
        "9901 aa6261636b67726f756e64 a26331 c0 a27230 c402aabb a464656570 02 03",
        Meaning(
            verb=Verb.BACKGROUND,
            conversation=C1,
            parent=R0,
            text_sha256=b"\xaa\xbb",
            depth=Depth.DEEP,
            expected_revision=2,
            item=3,
        ),
    ),
    (
        "9a02 a3616e6e a16b 9901a5706c61696ea26331c0c0c401aac0c0c0 07 a26331 02 a26d31 a27231 01",
        Accepted(
            scope=ANN,
            client_id=K,
            meaning=Meaning(verb=Verb.PLAIN, conversation=C1, text_sha256=b"\xaa"),
            at_ms=7,
            conversation=C1,
            version=2,
            message=M1,
            run=R1,
            revision=1,
        ),
    ),
    (
        "9a03 a3616e6e a26331 a26869 07 09 cd012c 02 a27031 91cd012b",
        Conversation(
            scope=ANN,
            conversation=C1,
            title="hi",
            opened_at_ms=7,
            events=9,
            last_event=300,
            entries=2,
            last_entry=P1,
            skips=(299,),
        ),
    ),
    (
        "9e04 a3616e6e a26331 a26d31 a16b a57374656572 a2c3a9 c401aa 07 a27231 02 a27031 01 a164",
        Message(
            scope=ANN,
            conversation=C1,
            message=M1,
            client_id=K,
            verb=Verb.STEER,
            text="é",
            text_sha256=b"\xaa",
            at_ms=7,
            run=R1,
            entry=2,
            previous=P1,
            revision=1,
            disposition="d",
        ),
    ),
    (
        "9905 a3616e6e a26331 a27031 a27231 a26869 07 02 a26d31",
        Publication(
            scope=ANN,
            conversation=C1,
            publication=P1,
            run=R1,
            text="hi",
            at_ms=7,
            entry=2,
            previous=M1,
        ),
    ),
    (
        "9606 40 cd0400 ce0036ee80 09 08",
        Budget(
            requests_max=64,
            effects_max=1_024,
            active_ms_max=3_600_000,
            tokens_max=9,
            deadline_at_ms=8,
        ),
    ),
    (
        "dc002e07 a3616e6e a26331 a27231 a26d31 a16b a573686f7274 aa6261636b67726f756e64 "
        "a66e6f726d616c a773746f70706564 a27731 07 960601020304c0 a26d30 01 91a27230 "
        "a9757365725f73746f70 03 02 01 02 9102 01 9101 01 08 09 a16a 0a a27031 a164 "
        "01 02 c3 05 01 0b 06 02 9102 a27230 a26d30 c401bb 91a3776562 01 04",
        Run(
            scope=ANN,
            conversation=C1,
            run=R1,
            message=M1,
            client_id=K,
            agent="short",
            run_class="background",
            depth=Depth.NORMAL,
            state=RunState.STOPPED,
            owner=W1,
            admitted_at_ms=7,
            budget=Budget(requests_max=1, effects_max=2, active_ms_max=3, tokens_max=4),
            history_head=M0,
            history_entries=1,
            overview=(R0,),
            reason=Reason.USER_STOP,
            revisions=3,
            carried_through=2,
            delivered_through=1,
            requests=2,
            open_requests=(2,),
            effects=1,
            open_effects=(1,),
            checkpoints=1,
            begun_at_ms=8,
            stop_at_ms=9,
            stop_client_id=J,
            ended_at_ms=10,
            publication=P1,
            detail="d",
            withdrawn=1,
            entries=2,
            resumes=True,
            tokens=5,
            unobserved=1,
            entered_at_ms=11,
            active_ms=6,
            questions=2,
            open_questions=(2,),
            parent=R0,
            origin=M0,
            origin_sha256=b"\xbb",
            grants=("web",),
            effects_saved=1,
            stop_entries=4,
        ),
    ),
    (
        "9a08 a27231 01 a26d31 a16b 07 a964656c697665726564 02 c401aa a164",
        Revision(
            run=R1,
            number=1,
            message=M1,
            client_id=K,
            at_ms=7,
            state=RevisionState.DELIVERED,
            request=2,
            input_sha256=b"\xaa",
            reason="d",
        ),
    ),
    (
        "9e09 a27231 02 a167 c401aa 01 9101 07 ab696e746572727570746564 08 a164 05 06 "
        "a9636f6d706c65746564",
        Request(
            run=R1,
            ordinal=2,
            gateway="g",
            input_sha256=b"\xaa",
            revision=1,
            carries=(1,),
            begun_at_ms=7,
            state=RequestState.INTERRUPTED,
            ended_at_ms=8,
            reason="d",
            input_tokens=5,
            output_tokens=6,
            late=RequestState.COMPLETED,
        ),
    ),
    (
        "9e0a a27231 01 a472312e31 a4706f7374 c4027b7d a46f6e6365 01 07 a4646f6e65 08 c40131 a164 "
        "02",
        Effect(
            run=R1,
            number=1,
            operation_id="r1.1",
            name="post",
            arguments=b"{}",
            repeat=Repeat.ONCE,
            revision=1,
            begun_at_ms=7,
            state=EffectState.DONE,
            ended_at_ms=8,
            result=b"1",
            reason="d",
            entry=2,
        ),
    ),
    (
        "9b0b a3616e6e a26331 08 07 ae7265766973696f6e5f7361766564 920601 a27231 a26d31 a16b "
        "81a87265766973696f6e01",
        Event(
            scope=ANN,
            conversation=C1,
            number=8,
            at_ms=7,
            kind=EventKind.REVISION_SAVED,
            back=(6, 1),
            run=R1,
            message=M1,
            client_id=K,
            facts={"revision": 1},
        ),
    ),
    (
        "950c a27731 cd012c a168 07",
        Owner(owner=W1, pid=300, host="h", started_at_ms=7),
    ),
    (
        "950d a27231 01 07 c4020001",
        Checkpoint(run=R1, number=1, at_ms=7, state=b"\0\1"),
    ),
]

golden = pytest.mark.parametrize(
    ("stored", "record"),
    [
        pytest.param(bytes.fromhex(text), record, id=type(record).__name__)
        for text, record in GOLDEN
    ],
)


def newest_fields(kind: type[Record]) -> tuple[tuple[str, Any], ...]:
    """Return the fields that have a default, with it, oldest first."""
    defaults = kind.__struct_defaults__
    names = kind.__struct_fields__[len(kind.__struct_fields__) - len(defaults) :]
    return tuple(
        (name, {} if name == "facts" else value)
        for name, value in zip(names, defaults, strict=True)
    )


@golden
def test_a_record_is_written_as_these_bytes(stored: bytes, record: Record) -> None:
    assert encode(record) == stored


@golden
def test_these_bytes_are_read_as_the_record(stored: bytes, record: Record) -> None:
    assert decode(type(record), stored) == record


def test_every_record_has_golden_bytes() -> None:
    assert [type(record) for _, record in GOLDEN] == list(RECORDS)


def test_no_golden_record_leaves_a_field_at_its_default() -> None:
    """A field that is left at its default would not show that it moved."""
    at_default = {
        (type(record).__name__, name)
        for _, record in GOLDEN
        for name, default in newest_fields(type(record))
        if getattr(record, name) == default
    }
    assert at_default == {("Meaning", "target")}  # a background message has no target


@golden
def test_a_record_from_before_its_newest_fields_reads_with_their_defaults(
    stored: bytes, record: Record
) -> None:
    tag, *fields = msgspec.msgpack.decode(stored)
    newest = newest_fields(type(record))
    for missing in range(1, len(newest) + 1):
        older = msgspec.msgpack.encode([tag, *fields[: len(fields) - missing]])
        expected = msgspec.structs.replace(record, **dict(newest[-missing:]))
        assert decode(type(record), older) == expected


@golden
def test_a_field_that_only_a_newer_version_knows_is_passed_over(
    stored: bytes, record: Record
) -> None:
    """A newer format is refused as a whole at opening; this keeps a same-format field apart."""
    newer = msgspec.msgpack.encode([*msgspec.msgpack.decode(stored), "of tomorrow"])
    assert decode(type(record), newer) == record


@golden
def test_a_record_never_reads_as_one_of_another_kind(stored: bytes, record: Record) -> None:
    for kind in RECORDS:
        if kind is not type(record):
            with pytest.raises(Damaged):
                decode(kind, stored)


@golden
def test_a_record_that_was_cut_short_is_damaged(stored: bytes, record: Record) -> None:
    for length in range(len(stored)):
        with pytest.raises(Damaged):
            decode(type(record), stored[:length])


@given(rubbish=st.binary(max_size=64), kind=st.sampled_from(RECORDS))
def test_rubbish_is_damaged_and_nothing_else(rubbish: bytes, kind: type[Record]) -> None:
    with pytest.raises(Damaged):
        decode(kind, rubbish)


def test_rubbish_that_nests_without_end_is_damaged_too() -> None:
    stored, _ = next(golden for golden in GOLDEN if isinstance(golden[1], Event))
    flat = bytes.fromhex(stored)
    nested = flat[:-1] + b"\x91" * 100_000 + b"\x01"
    with pytest.raises(Damaged):
        decode(Event, nested)


def test_a_damaged_record_says_which_kind_it_should_have_been() -> None:
    with pytest.raises(Damaged, match="A Run record does not decode"):
        decode(Run, b"\xc1")


@pytest.mark.contract("C33")
def test_usage_that_was_not_observed_is_stored_as_nothing_and_not_as_zero() -> None:
    unobserved, none_used = (
        Request(
            run=R1,
            ordinal=1,
            gateway="g",
            input_sha256=b"",
            revision=0,
            carries=(),
            begun_at_ms=7,
            input_tokens=tokens,
            output_tokens=tokens,
        )
        for tokens in (None, 0)
    )
    assert encode(unobserved).endswith(b"\xc0\xc0\xc0")
    assert encode(none_used).endswith(b"\x00\x00\xc0")
