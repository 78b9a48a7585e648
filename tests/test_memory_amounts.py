import pytest

from multimargin._memory import parse_bytes, shown_bytes
from multimargin.errors import InputError


@pytest.mark.parametrize(
    ("given", "amount"),
    [(1, 1), (2.5e9, 2_500_000_000), ("4 GiB", 4 * 2**30), ("4gib", 4 * 2**30), ("1.5 MB", 1_500_000), ("700", 700)],
)
def test_amounts(given, amount):
    assert parse_bytes(given) == amount


@pytest.mark.parametrize("given", [0, -1, "", "GiB", "4 GiBs", "1e9", True, None, float("nan"), float("inf"), [1]])
def test_no_amounts(given):
    with pytest.raises(InputError, match="budget must be a number of bytes"):
        parse_bytes(given, "budget")


def test_shown():
    assert [shown_bytes(n) for n in (12, 2**20, 3.5 * 2**30, 2**50)] == ["12 B", "1 MiB", "3.5 GiB", "1.02e+03 TiB"]
