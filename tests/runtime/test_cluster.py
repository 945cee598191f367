"""What a process is told of its cluster, and what its parent makes of its end."""

import signal
import subprocess
import sys

import pytest

from tests.faults import processes
from upsilon_jax.errors import ConfigError, ExitCode, PeerLost
from upsilon_jax.runtime import interrupts, parent
from upsilon_jax.runtime.cluster import Place, parse_place

FATAL = "client.h:80] Terminating process because the JAX distributed service detected "
FATAL += "fatal errors. This most likely indicates that another task died"
# Lines of jaxlib 0.10.2, in the order in which they came.
LOST_LAST = f"""F1118 08:31:33.398276   23451 {FATAL} absl::Status: INTERNAL: S
Barrier result: 'INTERNAL: UNAVAILABLE: Task 1 heartbeat timeout. This indicates that
Fatal Python error: Aborted
"""
LOST_LAST_IDLE = f"""E1118 08:31:33.4 23529 coordination_service.cc:1549] [618] Use
UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):
1
F1118 08:31:33.398276   23451 {FATAL}
"""
LOST_FIRST = f"""E1118 08:32:42.88 25873 coordination_service_agent.cc:289] Polled an
F1118 08:32:42.886583   25873 {FATAL} absl::Status: UNAVAILABLE: Failed to send RPC to
"""
NEVER_CAME = f"""F1118 08:40:18.294302     943 {FATAL} DEADLINE_EXCEEDED: Deadline
RPC: /xla.coordination.CoordinationService/RegisterTask
"""
TAKEN = """E1118 08:40:21.3 1047 add_port.cc:83] Failed to add port to server: No
"""


@pytest.fixture
def child(monkeypatch):
    """Runs Python code as the child."""
    before = {signum: signal.getsignal(signum) for signum in interrupts._SIGNALS}

    def run(code):
        monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-c", code])
        return parent.wait_for_child()

    yield run
    for signum, handler in before.items():
        signal.signal(signum, handler)


def says_and_ends(text, signum):
    return f"import os; os.write(2, {text.encode()!r}); os.kill(os.getpid(), {signum})"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (LOST_LAST, "lost process 1"),
        (LOST_LAST_IDLE, "lost process 1"),
        (LOST_FIRST, "lost process 0"),
        (NEVER_CAME, "the other processes did not come"),
    ],
)
def test_the_runtime_s_account_becomes_a_line(child, capfd, text, told):
    with pytest.raises(PeerLost, match=told) as error:
        child(says_and_ends("a line of ours\n" + text, signal.SIGABRT))
    assert error.value.exit_code == ExitCode.LOST == 4
    assert capfd.readouterr().err == "a line of ours\n"


def test_a_taken_port_is_the_user_s_line(child):
    with pytest.raises(ConfigError, match="port is taken"):
        child(says_and_ends(TAKEN, signal.SIGSEGV))


def test_every_other_end_is_passed_on_with_all_that_was_said(child, capfd):
    assert child("import sys; sys.exit(3)") == 3
    assert child(says_and_ends("malloc(): corrupted\n", signal.SIGABRT)) == 134
    assert child(says_and_ends(LOST_FIRST, signal.SIGKILL)) == 137
    assert capfd.readouterr().err == "malloc(): corrupted\n" + LOST_FIRST


def test_a_child_that_goes_on_is_heard_again(capfd, monkeypatch):
    monkeypatch.setattr(parent, "_SECONDS_TO_END", 0.0)
    lines = [LOST_FIRST.splitlines()[0], "a line of ours"]
    code = f"import os; [os.write(2, (x + chr(10)).encode()) for x in {lines}]"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        assert parent._pass_on(process) == b""
    assert capfd.readouterr().err.splitlines() == lines


def test_signals_are_passed_on(child, monkeypatch):
    monkeypatch.chdir(processes.ROOT)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # until the parent has its handler
    code = "import time; from tests.faults.processes import signal_parent; "
    code += "signal_parent(15); time.sleep(60)"
    assert child(code) == 128 + signal.SIGTERM


def test_a_child_knows_its_parent_and_ends_with_it(child, tmp_path):
    assert not parent.is_child()
    code = (
        "from upsilon_jax.runtime import cluster, parent; import os, time; "
        "assert parent.is_child(); cluster._end_with_parent(); os.close(0); "
    )
    assert child(code + "os._exit(5)") == 5
    # Another stdin, whose other end is closed: as if the parent had been killed.
    closed = "r, w = os.pipe(); os.dup2(r, 0); os.close(w); "
    code = code.replace("cluster._end", closed + "cluster._end").replace(
        "os.close(0); ", "time.sleep(60)"
    )
    assert child(code) == 128 + signal.SIGKILL


def test_flags_say_where_a_process_stands():
    assert parse_place(None, None, None) == Place()
    assert parse_place("host:1234", "2", "1") == Place("host:1234", 2, 1)
    assert parse_place("[::1]:80", None, None) == Place("[::1]:80")


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (("host", "2", "0"), "--coordinator=host: must be HOST:PORT"),
        (("host:", "2", "0"), "must be HOST:PORT"),
        ((None, "0", None), "--num_processes=0: must be a whole number ≥ 1"),
        ((None, "two", None), "--num_processes=two"),
        ((None, "2147483648", None), "--num_processes=2147483648: must be"),
        ((None, "9" * 5000, None), "^--num_processes=9+….*at most 9 digits$"),
        ((None, None, "-1"), "--process_index=-1: must be a whole number ≥ 0"),
        ((None, "2", "2"), "--process_index=2: must be below --num_processes=2"),
    ],
)
def test_flags_that_cannot_be_meant(told, line):
    with pytest.raises(ConfigError, match=line):
        parse_place(*told)
