"""The protocol's statistics, against values worked out by hand and against seeded random data."""

import random
import statistics

import pytest
from measure import stats


def test_abba_reads_the_same_backwards_and_visits_everyone_twice() -> None:
    order = stats.abba(["libsk", "impi", "ompi"])
    assert order == ["libsk", "impi", "ompi", "ompi", "impi", "libsk"]
    assert order == order[::-1]


def test_abba_cancels_a_linear_drift() -> None:
    # The machine slows down by 1 us per visit; both candidates take 10 us.
    order = stats.abba(["ours", "peer"])
    seen = {name: [10.0 + i for i, who in enumerate(order) if who == name] for name in set(order)}
    ours = [([seen["ours"][0]], [seen["ours"][1]])]
    peer = [([seen["peer"][0]], [seen["peer"][1]])]
    assert stats.compare(ours, peer).ratio == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(5))
def test_median_and_quantile_agree_with_the_standard_library(seed: int) -> None:
    rng = random.Random(seed)
    values = [rng.expovariate(1.0) for _ in range(rng.randint(2, 40))]
    assert stats.median(values) == pytest.approx(statistics.median(values))
    quartiles = statistics.quantiles(values, n=4, method="inclusive")
    assert stats.quantile(values, 0.25) == pytest.approx(quartiles[0])
    assert stats.quantile(values, 0.75) == pytest.approx(quartiles[2])
    assert stats.quantile(values, 0.0) == min(values)
    assert stats.quantile(values, 1.0) == max(values)


def test_no_values_is_an_error_and_not_a_figure() -> None:
    for function in (stats.median, stats.spread, stats.geometric_mean):
        with pytest.raises(ValueError, match="no values"):
            function([])
    with pytest.raises(ValueError, match="rounds"):
        stats.compare([], [])


def test_spread_is_half_the_quartile_distance_over_the_median() -> None:
    assert stats.spread([8.0, 9.0, 10.0, 11.0, 12.0]) == pytest.approx(0.1)


def test_aa_spread_is_symmetric() -> None:
    assert stats.aa_spread([10.0], [11.0]) == pytest.approx(0.1)
    assert stats.aa_spread([11.0], [10.0]) == pytest.approx(0.1)
    assert stats.aa_spread([5.0, 7.0], [6.0]) == 0.0


def test_the_ratio_is_of_medians_of_rounds_so_one_bad_round_does_not_move_it() -> None:
    ours = [([10.0, 10.0], [10.0])] * 7
    peer = [([20.0, 20.0], [20.0])] * 6 + [([500.0], [500.0])]
    c = stats.compare(ours, peer)
    assert c.ratio == pytest.approx(2.0)
    assert c.rounds == 7


def test_both_visits_of_a_round_count() -> None:
    c = stats.compare([([10.0], [30.0])], [([20.0], [20.0])])
    assert c.ratio == pytest.approx(1.0)
    assert c.aa == pytest.approx(2.0)


def test_a_difference_is_proven_only_beyond_two_aa_spreads() -> None:
    quiet = [([10.0], [10.1])] * 3
    assert stats.compare(quiet, [([12.0], [12.0])] * 3).proven
    assert not stats.compare(quiet, [([10.1], [10.1])] * 3).proven
    loud = [([10.0], [14.0])] * 3
    assert not stats.compare(loud, [([15.0], [15.0])] * 3).proven


def test_a_slower_libsk_can_be_proven_too() -> None:
    c = stats.compare([([20.0], [20.1])] * 3, [([10.0], [10.0])] * 3)
    assert c.ratio == pytest.approx(10.0 / 20.05)
    assert c.proven


def test_a_quiet_round_counts() -> None:
    assert stats.discard_reason({0: 1.08, 1: 1.08}, {0: 1.09, 1: 1.07}, 0.02) == ""


@pytest.mark.parametrize("after", [1.08 * 1.031, 1.08 * 0.969])
def test_a_moved_clock_discards_in_both_directions(after: float) -> None:
    why = stats.discard_reason({0: 1.08, 1: 1.08}, {0: 1.08, 1: after}, 0.0)
    assert "clock of core 1" in why


def test_up_to_the_bounds_a_round_counts() -> None:
    assert stats.discard_reason({0: 100.0}, {0: 102.9}, 0.05, 0.05) == ""


def test_foreign_and_stolen_time_discard() -> None:
    assert "other processes" in stats.discard_reason({0: 1.0}, {0: 1.0}, 0.051)
    assert "host" in stats.discard_reason({0: 1.0}, {0: 1.0}, 0.0, 0.051)


def test_a_round_without_the_same_clocks_before_and_after_is_discarded() -> None:
    assert stats.discard_reason({}, {}, 0.0)
    assert stats.discard_reason({0: 1.0, 1: 1.0}, {0: 1.0}, 0.0)


def test_a_round_that_lacks_one_of_the_two_is_left_out_of_their_ratio() -> None:
    # The machine was twice as slow in the second round, and only the peer ran in it.
    ours = [([10.0], [10.0]), ([], []), ([10.0], [])]
    peer = [([20.0], [20.0]), ([40.0], [40.0]), ([], [20.0])]
    c = stats.compare(ours, peer)
    assert (c.ratio, c.rounds) == (pytest.approx(2.0), 2)
    assert stats.compare_if(ours, peer, 2) == c
    assert stats.compare_if(ours, peer, 3) is None
    assert stats.compare_if([], peer, 1) is None


def test_without_two_visits_in_any_round_nothing_is_proven() -> None:
    c = stats.compare([([10.0], [])] * 3, [([30.0], [])] * 3)
    assert c.ratio == pytest.approx(3.0)
    assert not c.proven


def test_thin_keeps_order_and_ends_within_the_samples() -> None:
    samples = [float(i) for i in range(100)]
    kept = stats.thin(samples, 6)
    assert len(kept) == 6
    assert kept == sorted(kept)
    assert set(kept) <= set(samples)
    assert stats.thin([1.0, 2.0], 6) == [1.0, 2.0]
