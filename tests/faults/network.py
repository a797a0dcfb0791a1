"""Faults 1 to 25: processes, networks, controllers, devices, disks and clocks."""

from __future__ import annotations

from table import (
    CUT,
    KERNEL,
    LOST,
    NET,
    NO_RDMA,
    NONE,
    PYTHON,
    SECOND,
    SILENCE,
    TIME,
    TIMEOUT,
    Fault,
)

FAULTS = (
    Fault(
        1,
        "A rank is killed in a call, on the same host",
        "The call of every other rank ends and names the rank. The communicator is over; those "
        "that are left may go on in a new one (`sk_comm_shrink`)",
        LOST,
        SECOND,
        tests=(
            "Kill.*",
            "SessionCts.KilledRanksAreNamed",
            "SessionCts.TheFirstToDieIsNamedByWhoLooksLater",
            "LargeEntry.WhoDiesIsNamedByAll",
            "Shrink.OneDiesAtAnyMoment",
            "Shrink.TwoAreLostAtOnce",
            PYTHON + "test_shrink.py::test_two_of_three_go_on",
        ),
    ),
    Fault(
        2,
        "A rank is killed on another host",
        "The same: its host tells",
        LOST,
        SECOND,
        tests=(
            NET + "test_faults.py::test_all_that_are_left_name_it[0-kill]",
            NET + "test_faults.py::test_all_that_are_left_name_it[1-kill]",
            NET + "test_lost_ranks.py::test_a_killed_rank_is_named_by_all_others",
            NET + "test_lost_ranks.py::test_those_that_are_left_go_on",
            NET + "test_lost_ranks.py::test_all_ranks_of_a_host_die",
            "TcpDeath.*",
            "HostsEndpoint.WhoDiesIsNamedByAll",
        ),
        seeds=("SK_FAULTS_SEED",),
    ),
    Fault(
        3,
        "A rank is stopped, or stuck in a driver's call",
        "It is waited for, since it may be in a debugger; then every other rank's call ends and "
        "names it. `sk status` says at once who is stopped. When it goes on its own calls end, "
        "and it changes nothing of the others: memory is one communicator's alone",
        TIMEOUT,
        TIME,
        tests=(
            NET + "test_faults.py::test_all_that_are_left_name_it[0-stop]",
            NET + "test_faults.py::test_all_that_are_left_name_it[1-stop]",
            NET + "test_lost_ranks.py::test_a_stopped_rank_is_waited_for[near-1048576]",
            NET + "test_reboot.py::test_a_rank_that_slept_through_its_jobs_end_is_none_of_the_next",
            "SkStatus.AnswersWithinTwoSecondsWithAStoppedRank",
            KERNEL + "test_stuck.py::test_a_rank_stuck_in_c_and_a_shutdown_with_it",
        ),
        seeds=("SK_FAULTS_SEED",),
        lacks="no verdict of its own within 5 s on a rank that is stopped while its host answers",
    ),
    Fault(
        4,
        "A rank is alive and never comes to the call",
        "Every other rank's call ends and names those that did not come. Before, `sk status` and "
        "`%sk status` say who is behind, and after 30 s the log (`SK_LOG=warn`) does",
        TIMEOUT,
        TIME,
        tests=(
            "BadInput.AMissingPeerEndsAsATimeoutThatNamesIt",
            "HostsCalls.WhoDoesNotComeIsNamed",
            "LargeEntry.ARankThatIsTooLateIsNamedByAll",
            "SkStatus.WhoWaitsForWhomSinceWhenAndOverWhat",
            NET + "test_lost_ranks.py::test_the_log_says_for_whom_a_call_waits",
            NET + "test_ranks.py::test_the_log_says_for_whom_and_where_is_waited",
            PYTHON + "test_kernel_absent.py::test_a_rank_that_skips_the_call_is_named",
            KERNEL + "test_usage.py::test_status_says_for_whom_a_cell_waits",
        ),
    ),
    Fault(
        5,
        "The network between two hosts is cut",
        "Calls end on both sides and name the connection, not a death. Of hosts that do not "
        "reach each other those go on that reach rank 0's; never two parts",
        CUT,
        SILENCE,
        tests=(
            NET + "test_faults.py::test_all_that_are_left_name_it[0-cut]",
            NET + "test_faults.py::test_all_that_are_left_name_it[1-cut]",
            NET + "test_lost_ranks.py::test_a_cut_is_a_lost_connection_on_both_sides[1048576]",
            NET + "test_lost_ranks.py::test_a_cut_off_host_is_told_of_by_the_others",
            NET + "test_lost_ranks.py::test_of_two_hosts_that_do_not_reach_each_other_one_goes",
            "Survivors.OfSeveralHostsNeedRankZero",
        ),
        seeds=("SK_FAULTS_SEED",),
    ),
    Fault(
        6,
        "It is cut in one direction",
        "The same, on both sides",
        CUT,
        SILENCE,
        tests=(
            NET
            + "test_lost_ranks.py::"
            + "test_a_cut_of_one_direction_is_a_lost_connection_on_both_sides",
            NET
            + "test_lost_ranks.py::test_of_two_hosts_that_do_not_reach_each_other_one_goes[True]",
        ),
    ),
    Fault(
        7,
        "Packets are lost, up to 5 of 100",
        "Slower, never wrong, and nobody is said to be gone",
        NONE,
        tests=(
            NET + "test_harm.py::test_a_link_that_loses_five_packets_of_a_hundred_costs_nobody",
            NET + "test_ranks.py::test_sums_are_right_over_links_that_harm_packets[loss]",
        ),
        seeds=("SK_TEST_SEED",),
    ),
    Fault(
        8,
        "Packets are late, overtake each other, come twice",
        "Slower, never wrong",
        NONE,
        tests=(
            NET + "test_ranks.py::test_sums_are_right_over_links_that_harm_packets[reorder]",
            NET + "test_ranks.py::test_sums_are_right_over_links_that_harm_packets[duplicate]",
            NET + "test_ranks.py::test_sums_are_right_over_links_that_harm_packets[jitter]",
            NET + "test_ranks.py::test_sums_are_right_over_links_that_harm_packets[all]",
            NET + "test_ranks.py::test_hosts_far_away_meet",
            "Simulation.EverySeedKeepsWhatMustHold",
        ),
        seeds=("SK_TEST_SEED", "SK_SIM_SEED"),
    ),
    Fault(
        9,
        "Bits change behind the network's checksums",
        "TLS sees it, and the connection is lost: no changed byte is believed. With "
        "`SK_NET_TLS=0` nothing sees it",
        CUT,
        SILENCE,
        tests=(
            NET
            + "test_harm.py::"
            + "test_a_bit_that_no_checksum_of_the_network_sees_ends_the_connection",
            NET + "test_links.py::test_an_unseen_bit_reaches_the_program",
            "TlsTamper.*",
            "DoctorExchange.OneBitThatChangedIsFoundWhereItCame",
        ),
        seeds=("SK_TEST_SEED",),
    ),
    Fault(
        10,
        "A host reboots, and comes back with its address",
        "While it is away its connections are lost; once it is back and knows none of them its "
        "ranks are said to have died. The job's next start meets at the same place, and nothing "
        "of the last one is taken in",
        CUT + ", " + LOST,
        SILENCE,
        tests=(
            NET + "test_reboot.py::test_a_host_that_was_rebooted_is_missed",
            NET + "test_reboot.py::test_a_rank_of_the_life_before_is_none_of_the_next",
        ),
    ),
    Fault(
        11,
        "A peer reads slowly, or not at all",
        "It is waited for; what waits for it takes bounded memory. `sk status` names it, and the "
        "link",
        TIMEOUT,
        TIME,
        tests=(
            NET + "test_harm.py::test_a_reader_that_does_not_read_costs_no_memory_without_end",
            NET + "test_harm.py::test_a_link_that_takes_few_megabits_a_second_is_slow_and_no_fault",
            NET + "test_ranks.py::test_sums_are_right_over_a_slow_link",
            NET + "test_status.py::test_a_rank_that_waits_for_another_host_names_the_link",
            "HostsEndpoint.NoMoreThanSomePutsWait",
            "SessionCts.NoPutWaitsForAPeerThatDoesNotLook",
        ),
        lacks="no report of bytes a second by link",
    ),
    Fault(
        12,
        "The controller of a notebook or a session, or `sk run`, is killed",
        "Its ranks end with it and leave nothing; the cell's error says so, and Jupyter starts "
        "the kernel anew",
        "`SessionOver`; " + LOST,
        SECOND,
        tests=(
            PYTHON + "test_session_faults.py::test_a_controller_that_is_killed",
            KERNEL + "test_stub_kernel.py::test_a_killed_controller_ends_ranks_and_kernel",
            KERNEL + "test_attach.py::test_a_killed_controller_leaves_no_name",
            "ExecTemplate.AKilledControllerTakesBusyRanksAndTemplateWithIt",
            "SkRun.NothingIsLeftWhenItIsKilledItself",
        ),
    ),
    Fault(
        13,
        "A rank is killed since memory ran out",
        "As any death; a notebook's and a session's error has the kernel's reason, that the "
        "control group is out of memory",
        LOST + "; `RankDied`",
        SECOND,
        tests=(
            PYTHON + "test_session_memory.py::test_a_rank_that_is_killed_for_memory",
            "ControllerFaults.ADeathNamesTheKernelsReasonInOneSentence",
        ),
    ),
    Fault(
        14,
        "The GPU fails: an address that is none, a trap",
        "The next call of every rank of that GPU ends with the driver's error, and says that "
        "the process must be restarted. Tried with a stand-in for the driver",
        "`SK_ERR_DEVICE`",
        "the next call",
        tests=("GpuFailures.ACrashOfTheGpuIsSaidLate",),
        lacks="what the driver's log says of it (XID) is not told, nor before the next call",
    ),
    Fault(
        15,
        "A kernel on the GPU waits without end",
        "It leaves its wait by the call's timeout, or an abort, and names whom it waited for. "
        "Tried with a stand-in for the driver, whose kernels run on the CPU",
        TIMEOUT + ", `SK_ERR_ABORTED`",
        TIME,
        tests=(
            "GpuFailures.AnAbortReachesALaunchThatWasMade",
            "GpuFailures.ARankThatNeverComesIsNamed",
            "GpuBounds.FreeingWaitsForLaunchesNoLongerThanToldTo",
            "GpuBounds.ARankInsideTheDriverIsNamed",
        ),
    ),
    Fault(
        16,
        "Memory of a GPU changes by itself",
        not_built="no checksum over results is taken, on GPUs or elsewhere; ECC is the GPU's",
    ),
    Fault(17, "An RDMA port goes down for a moment", not_built=NO_RDMA),
    Fault(18, "An RDMA port goes down for good", not_built=NO_RDMA),
    Fault(19, "An RDMA queue pair fails: a wrong key, no access", not_built=NO_RDMA),
    Fault(20, "An RDMA receiver is not ready", not_built=NO_RDMA),
    Fault(
        21,
        "A transport delivers in any order",
        "Signals count what has come, so no order is believed in. Tried with a transport that "
        "permutes, delays and repeats by a seed",
        NONE,
        tests=(
            "Fault.DeliversEverythingOnceInAnotherOrder",
            "Fault.SignalsOnlyWholePuts",
            "FaultOps.*",
            "FaultDesync.*",
            "SessionCts.BytesComeBeforeTheirSignal",
        ),
        seeds=("SK_TEST_SEED",),
    ),
    Fault(22, "An RDMA completion queue overflows", not_built=NO_RDMA),
    Fault(
        23,
        "A disk is full, where records and logs go",
        "No call fails: calls are then not recorded, and the log says so once; lines of the log "
        "that find no room are lost. Traces are kept in memory",
        NONE,
        tests=(
            NET + "test_full.py::test_calls_go_on_where_their_record_finds_no_room",
            NET + "test_full.py::test_a_log_that_goes_to_a_full_disk_ends_nothing",
            "Record.WithoutAPlaceOrMemoryThereIsNone",
            "AllocationOfAWorker.ForATraceIsDispensable",
        ),
    ),
    Fault(
        24,
        "The wall clock is set, by up to a day",
        "Nothing: time is told by the clock that nobody sets",
        NONE,
        tests=(
            NET + "test_clocks.py::test_the_clocks_jump_and_monotonic_time_does_not",
            NET + "test_clocks.py::test_ranks_whose_wall_clock_jumps_sum_and_part",
            NET + "test_clocks.py::test_a_death_is_told_though_clocks_jump",
            NET + "test_clocks.py::test_a_wait_is_as_long_as_it_may_be_though_clocks_jump",
        ),
        seeds=("SK_TEST_SEED",),
    ),
    Fault(
        25,
        "A machine is suspended, and goes on",
        "All its hosts: nobody missed anything. One of several: for less than a host may be "
        "silent nothing, for longer its connections are lost, and nobody is said to have died",
        CUT,
        SILENCE,
        tests=(
            NET + "test_clocks.py::test_a_machine_that_was_suspended_goes_on",
            NET + "test_clocks.py::test_a_host_that_is_suspended_for_a_moment_goes_on",
            NET + "test_clocks.py::test_a_host_that_is_suspended_for_long_is_a_lost_connection",
        ),
        seeds=("SK_TEST_SEED",),
    ),
)
