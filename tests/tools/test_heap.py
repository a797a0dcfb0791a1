"""The heap that checks itself: it sees what is written where it must not, and survives forks."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import heap
import pytest

OVERRUN = """
#include <stdlib.h>
int main(void) {
  char* volatile memory = malloc(10);
  memory[10] = 1;
  free(memory);
  return 0;
}
"""

# A thread that does nothing but allocate; children that allocate once. One that hangs is killed.
FORKS = """
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void* allocate(void* none) {
  for (;;) {
    char* volatile memory = malloc(100);
    free(memory);
  }
  return none;
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, allocate, NULL);
  for (int round = 0; round < 200; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      char* volatile memory = realloc(calloc(5, 10), 1000);
      free(memory);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) return 3;
  }
  return 0;
}
"""


def ran(folder: Path, source: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    program = folder / "program"
    command = ["gcc", "-O0", "-x", "c", "-", "-o", program, "-pthread"]
    subprocess.run(command, input=source, text=True, check=True)
    return subprocess.run([program], env={**os.environ, **env}, capture_output=True, text=True)


@pytest.fixture
def checked() -> dict[str, str]:
    env = heap.environment()
    if "LD_PRELOAD" not in env:
        pytest.skip(env[heap.NAME])
    return env


def test_a_byte_too_many_ends_the_program(tmp_path: Path, checked: dict[str, str]) -> None:
    assert ran(tmp_path, OVERRUN, {}).returncode == 0
    found = ran(tmp_path, OVERRUN, checked)
    assert (found.returncode, "invalid pointer" in found.stderr) == (-signal.SIGABRT, True)


def test_children_of_a_threaded_process_have_a_heap(
    tmp_path: Path, checked: dict[str, str]
) -> None:
    assert ran(tmp_path, FORKS, checked).returncode == 0


def test_without_the_gate_they_hang(tmp_path: Path, checked: dict[str, str]) -> None:
    bare = {**checked, "LD_PRELOAD": checked["LD_PRELOAD"].split(maxsplit=1)[1]}
    source = FORKS.replace("alarm(20)", "alarm(1)").replace("round < 200", "round < 2000")
    assert ran(tmp_path, source, bare).returncode == 3
