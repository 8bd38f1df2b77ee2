"""What is counted in the API server's audit log."""

import pytest

from support.cluster.audit import Request, missed_renewals


def _renewal(second: int, code: int = 200) -> Request:
    return Request(
        user="operator",
        verb="update",
        group="coordination.k8s.io",
        resource="leases",
        namespace="bench",
        name="inferometer-operator",
        code=code,
        received=f"2026-01-31T12:00:{second:02}.000000Z",
    )


@pytest.mark.parametrize(
    ("renewals", "missed"),
    [
        ([_renewal(0), _renewal(3), _renewal(6)], 0),
        ([_renewal(0), _renewal(5), _renewal(10)], 0),
        ([_renewal(0), _renewal(6)], 1),
        ([_renewal(0), _renewal(3, code=500), _renewal(4)], 1),
        ([_renewal(0), _renewal(3, code=500), _renewal(6)], 2),
    ],
)
def test_a_renewal_is_missed_if_it_fails_or_does_not_come(
    renewals: list[Request], missed: int
) -> None:
    """With an interval of 3 s; a gap of twice as long is one that did not come."""
    assert missed_renewals(renewals, 3.0) == missed
