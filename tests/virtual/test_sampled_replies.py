"""Sampled replies of a load are logged once per sample, within the window alone."""

from inferometer_loadgen.drive import sampled_requests
from inferometer_loadgen.drive.sampled_requests import ReplyLog, SampledRequests
from inferometer_loadgen.wire import PreparedRequest, ReplyBody

REQUESTS = [[PreparedRequest((bytes([index]),)) for index in range(3)]]


def a_load(faults: dict[bytes, str] | None = None) -> tuple[SampledRequests, ReplyLog]:
    """Return requests of three samples; `faults` are found in replies with these bodies."""
    log = ReplyLog()
    return SampledRequests(REQUESTS, lambda reply: (faults or {}).get(reply.body), log), log


def answer(
    load: SampledRequests, token: int, body: bytes, *, is_measured: bool = True
) -> str | None:
    """Send a query and check its reply."""
    load.take(0, token, is_measured=is_measured)
    return load.check(token)(ReplyBody(body, None))


def test_samples_are_sent_in_turn_and_logged_by_their_index() -> None:
    """The reply to a query belongs to the sample that it carried, whatever the order of replies."""
    load, log = a_load()
    sent = [load.take(0, token, is_measured=True) for token in range(5)]
    assert [each.pieces[0] for each in sent] == [b"\0", b"\1", b"\2", b"\0", b"\1"]
    for token in (2, 0):
        load.check(token)(ReplyBody(str(token).encode(), None))
    assert {index: reply.body for index, reply in log.replies.items()} == {0: b"0", 2: b"2"}


def test_the_first_good_reply_of_the_window_counts() -> None:
    """Replies of the warm-up, faulty ones and further ones are not logged."""
    load, log = a_load({b"bad": "It is wrong."})
    assert answer(load, 0, b"warm", is_measured=False) is None
    answer(load, 1, b"b")
    assert answer(load, 2, b"bad") == "It is wrong."
    for body in (b"first", b"b again", b"c", b"second"):
        answer(load, 3, body)
    found = {index: reply.body for index, reply in log.replies.items()}
    assert found == {0: b"first", 1: b"b", 2: b"c"}


def test_the_log_is_bounded() -> None:
    """Once its memory is spent, further replies are left out; cleared, it has room again."""
    log = ReplyLog()
    log._room = 10
    log.add(0, ReplyBody(b"12345678", None))
    log.add(1, ReplyBody(b"123", None))
    log.add(2, ReplyBody(b"12", None))
    assert list(log.replies) == [0, 2]
    log.clear()
    log.add(1, ReplyBody(b"123", None))
    assert list(log.replies) == [1]
    assert sampled_requests.MOST_LOGGED_BYTES == 256 * 1024 * 1024
