"""A record's tag is its name on disk, so no two records share one and none changes hands."""

import collections

import msgspec

from counterpoint.store import records


def tags() -> dict[str, int | str]:
    """Return the tag of each tagged Struct among the records."""
    return {
        member.__qualname__: member.__struct_config__.tag
        for member in vars(records).values()
        if isinstance(member, type)
        and issubclass(member, msgspec.Struct)
        and member.__struct_config__.tag is not None
    }


def test_every_record_has_a_tag_of_its_own() -> None:
    owners = collections.defaultdict[int | str, set[str]](set)
    for record, tag in tags().items():
        owners[tag].add(record)
    assert {tag: sharers for tag, sharers in owners.items() if len(sharers) > 1} == {}


def test_every_tag_is_a_number() -> None:
    assert {record: tag for record, tag in tags().items() if not isinstance(tag, int)} == {}
