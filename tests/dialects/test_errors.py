import pytest

from buffer.job import End, Failure
from gateway.dialects.errors import BadRequest, failure_of, headers
from gateway.dialects.text import instant


@pytest.mark.parametrize(("told", "sent"), [(0, b"1"), (7, b"7"), (3600, b"120")])
def test_retry_after_stays_within_what_clients_obey(told, sent):
    assert headers(Failure("x", 503, "queue_full", retry_after_s=told)) == [(b"retry-after", sent)]


def test_what_is_away_may_be_back_soon():
    """Engines and workers do not know when."""
    assert headers(Failure("x", 503, "upstream_error")) == [(b"retry-after", b"5")]


def test_no_retry_after_a_long_wait():
    assert headers(Failure("x", 503, "queue_timeout")) == [(b"x-should-retry", b"false")]
    assert headers(Failure("x")) == []


def test_ends():
    assert failure_of(End("done")) is None
    own = Failure("own", 500)
    assert failure_of(End("failed", own)) is own
    assert failure_of(End("expired")).status == 503


def test_a_bad_request_is_a_failure():
    failure = BadRequest("no", param="p").failure
    assert (failure.message, failure.status, failure.code, failure.param) == ("no", 400, "", "p")


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000000Z"),
        (-5.0, "1970-01-01T00:00:00.000000Z"),
        (1.5, "1970-01-01T00:00:01.500000Z"),
        (1e18, "9999-12-31T00:00:00.000000Z"),
    ],
)
def test_instants(at, text):
    assert instant(at) == text
