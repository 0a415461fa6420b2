from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.collect.repeats import MOST, PACKET_NUMBERS, Repeats
from lakehouse.storage.envelope import Message

MESSAGES = st.lists(
    st.builds(
        Message,
        topic=st.sampled_from("ab"),
        payload=st.sampled_from([b"1", b"2"]),
        received_us=st.integers(0, 99),
        qos=st.integers(0, 1),
        mid=st.integers(1, 4),
    ),
    max_size=20,
)


@settings(deadline=None)
@given(messages=MESSAGES, most=st.integers(1, 5))
def test_the_last_message_of_a_packet_number_is_known_again_when_it_says_the_same(
    messages: list[Message], most: int
) -> None:
    repeats = Repeats(most=most)
    last: list[Message] = []
    for message in messages:
        same = [m for m in last if m.mid == message.mid]
        is_known = bool(same) and (same[0].topic, same[0].payload) == (message.topic, message.payload)

        assert repeats.first_received_us(message) == (same[0].received_us if is_known else None)

        repeats.remember(message)
        if message.qos:
            last = [*(m for m in last if m not in same), message][-most:]


@settings(deadline=None)
@given(messages=MESSAGES)
def test_lines_that_were_written_before_are_known_as_if_the_process_had_gone_on(
    messages: list[Message],
) -> None:
    gone_on = Repeats()
    for message in messages:
        gone_on.remember(message)

    begun = Repeats([b"no message\n", *(message.to_line() for message in reversed(messages))])

    assert begun.newest_us == gone_on.newest_us
    asked = [
        Message(topic, payload, 0, mid=mid) for topic in "ab" for payload in (b"1", b"2") for mid in range(5)
    ]
    assert [*map(begun.first_received_us, asked)] == [*map(gone_on.first_received_us, asked)]


def test_a_message_lost_on_the_way_is_not_taken_for_an_equal_one_a_round_of_packet_numbers_before() -> None:
    repeats = Repeats()
    for count in range(PACKET_NUMBERS):
        repeats.remember(Message("a", b"on", count, mid=1 + count))

    assert repeats.first_received_us(Message("a", b"on", PACKET_NUMBERS, mid=1)) is None
    assert repeats.first_received_us(Message("a", b"on", 0, mid=PACKET_NUMBERS)) == PACKET_NUMBERS - 1
    assert repeats.first_received_us(Message("a", b"on", 0, mid=PACKET_NUMBERS - MOST)) is None
